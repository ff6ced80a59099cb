//! The direction of imports: nothing points back.
//!
//! Names that the crate's root re-exports count for the module that they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules, each of which may use those before it.
const ORDER: &[&str] = &["error", "backend", "order", "device", "stream", "event", "memory", "buffer", "convert", "kernel", "launch"];

/// Modules that everything may use and that use nothing.
const GROUND: &[&str] = &["sync", "counters"];

/// What hangs off the contract alone, as a third party's backend would.
const BACKENDS: &[(&str, &[&str])] =
    &[("host", &["backend", "error"]), ("driver", &["backend", "error"]), ("gate", &["backend"]), ("decorate", &["backend", "error"])];

/// Steps that are meant all the same, with the reason.
const MEANT: &[(&str, &str, &str)] = &[
    ("sync", "counters", "locks are counted, where that is asked for"),
    ("error", "backend", "`Unsupported` names a `Feature`, which is plain data of the contract"),
    ("kernel", "launch", "a kernel's `launch` is written where kernels are, and submits through the one place for launches"),
    ("buffer", "convert", "`Element` says what a buffer may hold; it is a layout, and knows nothing of buffers"),
];

/// Files that belong to no layer: they show the whole to its readers.
const OUTSIDE: &[&str] = &["lib", "doctest", "graph"];

#[test]
fn imports_point_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let origins = origins(&read(&root.join("lib.rs")));
    let mut wrong = BTreeSet::new();
    for file in files(&root) {
        let module = module_of(&root, &file);
        if OUTSIDE.contains(&&*module) {
            continue;
        }
        for used in uses(&without_tests(&read(&file)), &module, depth(&root, &file), &origins) {
            if !may_use(&module, &used) {
                wrong.insert(format!("{module} uses {used} ({})", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these imports point back:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_module_has_a_place() {
    let known = ORDER.iter().chain(GROUND).chain(OUTSIDE).copied().chain(BACKENDS.iter().map(|(name, _)| *name));
    let known: BTreeSet<&str> = known.collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules: BTreeSet<String> = files(&root).iter().map(|file| module_of(&root, file)).collect();
    let unknown: Vec<_> = modules.iter().filter(|module| !known.contains(&***module)).collect();
    assert!(unknown.is_empty(), "{unknown:?} stand in no layer");
}

#[test]
fn a_step_back_is_found() {
    let origins = BTreeMap::from([("Stream".to_owned(), "stream".to_owned())]);
    let found = |text: &str| uses(text, "order", 2, &origins).into_iter().collect::<Vec<_>>();
    assert_eq!(found("use crate::Stream;"), ["stream"]);
    assert_eq!(found("use crate::{kernel::{Kernel, Module}, backend::*};"), ["backend", "kernel"]);
    assert_eq!(found("fn f() -> crate::launch::Launch { super::super::device::f() }"), ["device", "launch"]);
    assert!(found("// use crate::launch;\nuse super::clock::Clock;\n/// [`x`](crate::launch::x)").is_empty());
    assert!(!may_use("order", "stream") && may_use("stream", "order") && !may_use("host", "order") && !may_use("sync", "error"));
}

fn may_use(module: &str, used: &str) -> bool {
    let place = |name: &str| ORDER.iter().position(|one| *one == name);
    let allowed = BACKENDS.iter().find(|(name, _)| *name == module);
    module == used
        || MEANT.iter().any(|(from, to, _)| *from == module && *to == used)
        || match (allowed, place(module), place(used)) {
            (Some((_, allowed)), ..) => allowed.contains(&used),
            (None, Some(module), Some(used)) => used < module,
            (None, Some(_), None) => GROUND.contains(&used),
            (None, None, _) => false,
        }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a source file of this crate")
}

/// Every source file but those of tests alone.
fn files(folder: &Path) -> Vec<PathBuf> {
    let tests = ["mod.rs", "lib.rs"].map(|file| fs::read_to_string(folder.join(file)).unwrap_or_default()).concat();
    let of_tests = |path: &PathBuf| path.file_stem().is_some_and(|stem| is_of_tests(&tests, &stem.to_string_lossy()));
    let entries = fs::read_dir(folder).expect("a folder of this crate").flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.filter(|path| !of_tests(path)).partition(|path| path.is_dir());
    let rust = files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    rust.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

/// Whether the module is declared for tests alone, by the attribute on the line before.
fn is_of_tests(declarations: &str, module: &str) -> bool {
    let lines = declarations.lines().zip(declarations.lines().skip(1));
    lines.into_iter().any(|(attribute, line)| {
        line.trim_start_matches("pub(crate) ") == format!("mod {module};") && attribute.starts_with("#[cfg(") && attribute.contains("test")
    })
}

/// The module under the crate's root that a file belongs to.
fn module_of(root: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(root).expect("a file of this crate").with_extension("");
    inside.iter().next().expect("a file has a name").to_string_lossy().into_owned()
}

/// How many `super::` lead from the file to the crate's root.
fn depth(root: &Path, file: &Path) -> usize {
    let inside = file.strip_prefix(root).expect("a file of this crate").with_extension("");
    inside.iter().filter(|part| *part != "mod").count()
}

/// Text without comments and without what follows `mod tests`.
fn without_tests(text: &str) -> String {
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
    code.lines().map(line).collect()
}

/// The module that each name of the crate's root comes from.
fn origins(lib: &str) -> BTreeMap<String, String> {
    let text = without_tests(lib);
    let exports = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()?.split_once("::"));
    exports
        .flat_map(|(module, names)| {
            let names = names.trim_matches(|c: char| "{}".contains(c) || c.is_whitespace()).split(',');
            names.map(|name| (name.trim().to_owned(), module.trim().to_owned())).collect::<Vec<_>>()
        })
        .filter(|(name, module)| !name.is_empty() && module != "polywarp_derive")
        .collect()
}

/// The modules that a file uses, by `crate::` or by enough `super::`.
fn uses(text: &str, own: &str, depth: usize, origins: &BTreeMap<String, String>) -> BTreeSet<String> {
    let text = without_tests(text).replace("$crate::", "");
    let up = "super::".repeat(depth);
    let paths = ["crate::", &*up].map(|root| text.match_indices(root).map(|(at, _)| &text[at + root.len()..]).collect::<Vec<_>>());
    let names = paths.into_iter().flatten().flat_map(first_names);
    names.map(|name| origins.get(&name).cloned().unwrap_or(name)).filter(|name| name != own && is_module(name)).collect()
}

/// Other names are of modules inside of a file, or of macros.
fn is_module(name: &str) -> bool {
    ORDER.iter().chain(GROUND).chain(OUTSIDE).any(|one| *one == name) || BACKENDS.iter().any(|(one, _)| *one == name)
}

/// The first names of a path, or of each path of a group: `{a::b, c::{d, e}}` → `a`, `c`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut open, mut names, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            ',' if open == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
            }
            '}' if open == 0 => {
                names.push(name(&group[start..at]));
                break;
            }
            '}' => open -= 1,
            _ => {}
        }
    }
    names.into_iter().filter(|name| !name.is_empty()).collect()
}
