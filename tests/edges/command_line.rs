//! Runs the example as its users do.

use crate::{photograph, reference};
use image::codecs::jpeg::JpegEncoder;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The example, run in a folder of its own.
struct Run {
    folder: TempDir,
    variable: &'static str,
}

impl Run {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), variable: "" }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file in the folder, by its name.
    fn with(self, name: &str, bytes: &[u8]) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&self.folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> (Option<i32>, String, String) {
        let mut command = Command::new(binary());
        let Output { status, stdout, stderr } =
            command.args(arguments).current_dir(&self.folder).env("POLYWARP_BACKEND", self.variable).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// A run that works.
    fn works(&self, arguments: &str) -> String {
        let (code, out, err) = self.run(arguments.split_whitespace());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments}");
        out
    }

    /// A run that ends with this code and these words, prints nothing else and leaves the folder as it was.
    fn fails(&self, arguments: &str, code: i32, words: &[&str]) {
        let before = self.names();
        let (got, out, err) = self.run(arguments.split_whitespace());
        assert_eq!((got, out.as_str()), (Some(code), ""), "{arguments}: {err}");
        assert!(err.starts_with("edges: ") && words.iter().all(|word| err.contains(word)), "{arguments}: {err}");
        assert_eq!(self.names(), before, "{arguments}");
    }
}

/// `cargo test` builds the examples and then runs the tests, which lie in the folder beside theirs.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let binary = profile.join("examples").join("edges").with_extension(std::env::consts::EXE_EXTENSION);
    assert!(binary.exists(), "{} is missing: `cargo build --example edges` first, or `cargo test` without `--test`", binary.display());
    binary
}

/// A PNG of this size, by its header, with one byte of pixels.
fn hollow_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_chunk(png::chunk::IDAT, &[0x78]).unwrap();
    bytes
}

fn chelsea() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/chelsea.png")).unwrap()
}

fn jpeg() -> Vec<u8> {
    let mut bytes = Vec::new();
    photograph().write_with_encoder(JpegEncoder::new(&mut bytes)).unwrap();
    bytes
}

#[test]
fn without_options_the_photograph_gives_its_edges() {
    let run = Run { variable: "host", ..Run::new() };
    let report = run.works("");
    for word in ["backend      host", "device       0: ", "451 × 300", "upload ", "kernels ", "download ", "written to   edges.png"] {
        assert!(report.contains(word), "{report}");
    }
    let edges = image::open(run.path("edges.png")).unwrap();
    assert_eq!((edges.color(), run.names()), (image::ColorType::L8, vec!["edges.png".to_owned()]));
    assert!(edges.as_bytes() == reference::edges(&photograph(), 451, 300));
}

#[test]
fn a_repeated_run_on_a_jpeg_replaces_the_file_that_was_there() {
    let run = Run::new().with("in.jpg", &jpeg()).with("out.png", b"something old");
    assert!(run.works("--backend host --input in.jpg --output out.png --repeat 3").contains("each of 3"));
    assert!(image::open(run.path("out.png")).is_ok());
    assert_eq!(run.names(), ["in.jpg", "out.png"]);
}

#[cfg(unix)]
#[test]
fn the_file_is_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new().with("other", b"");
    run.works("--backend host");
    let mode = |name| fs::metadata(run.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("edges.png"), mode("other"));
}

#[test]
fn help_is_printed_on_demand() {
    let help = Run::new().works("--device 99 --help");
    assert!(help.contains("--input") && help.contains("--repeat"));
}

#[test]
fn a_wrong_command_line_shows_the_usage() {
    for arguments in ["--abacus", "stray", "--input", "--device one", "--device -1", "--repeat 0", "--repeat 1.5", "-x"] {
        Run::new().fails(arguments, 2, &["Usage: edges"]);
    }
}

#[test]
fn the_option_wins_over_the_variable() {
    let run = Run { variable: "slide-rule", ..Run::new() };
    run.works("--backend host");
    Run { variable: "slide-rule", ..Run::new() }.fails("", 1, &["slide-rule", "POLYWARP_BACKEND"]);
    run.fails("--backend abacus", 1, &["abacus", "host"]);
}

/// Not compiled in, without driver, without device: the user sees what the library says.
#[test]
fn a_backend_that_cannot_be_used_is_told_as_is() {
    for backend in ["cuda", "hip"] {
        if let Err(error) = polywarp::open(backend) {
            Run::new().fails(&format!("--backend {backend}"), 1, &[&error.to_string()]);
        }
    }
}

#[test]
fn a_device_that_there_is_not_is_an_error() {
    Run::new().fails("--backend host --device 1", 1, &["there is no device 1"]);
}

#[test]
fn input_that_is_no_whole_picture_is_an_error() {
    let (png, jpeg) = (chelsea(), jpeg());
    let contents = [b"".as_slice(), b"GIF89a\x01\0\x01\0\0\0\0;", b"no picture", &png[..8], &png[..100], &png[..png.len() / 2]];
    let jpegs = [&jpeg[..2], &jpeg[..100], &jpeg[..jpeg.len() / 2], &jpeg[..jpeg.len() - 2]];
    for bytes in contents.into_iter().chain(jpegs) {
        let run = Run::new().with("in", bytes);
        run.fails("--backend host --input in", 1, &["cannot read in: "]);
    }
    Run::new().fails("--backend host --input missing.png", 1, &["cannot read missing.png: "]);
    Run::new().fails("--backend host --input .", 1, &["cannot read .: "]);
}

#[test]
fn a_huge_picture_is_refused_by_its_header() {
    for (width, height) in [(8_001, 8_000), (1, 64_000_001), (64_000_001, 1)] {
        let run = Run::new().with("huge.png", &hollow_png(width, height));
        let size = format!("{width} × {height}");
        run.fails("--backend host --input huge.png", 1, &["cannot read huge.png: ", &size, "at most 64000000"]);
    }
    let absurd = Run::new().with("huge.png", &hollow_png(u32::MAX >> 1, u32::MAX >> 1));
    absurd.fails("--backend host --input huge.png", 1, &["cannot read huge.png: ", "imit"]);
    let within = Run::new().with("large.png", &hollow_png(8_000, 8_000));
    within.fails("--backend host --input large.png", 1, &["cannot read large.png: "]);
}

#[test]
fn output_that_cannot_be_written_leaves_nothing_behind() {
    let run = Run::new().with("file", b"");
    fs::create_dir(run.path("folder")).unwrap();
    for output in ["missing/edges.png", "folder", "file/edges.png", "."] {
        run.fails(&format!("--backend host --output {output}"), 1, &["cannot write ", output]);
    }
    assert!(fs::read_dir(run.path("folder")).unwrap().next().is_none());
}

#[test]
fn the_old_output_stays_if_the_input_cannot_be_read() {
    let run = Run::new().with("edges.png", b"something old");
    run.fails("--backend host --input missing.png", 1, &["missing.png"]);
    assert_eq!(fs::read(run.path("edges.png")).unwrap(), b"something old");
}
