//! The runner: one executable with every backend that it was built with.

use polywarp_conformance::{Options, Place, Report, Subject, cases, plan, run};
use polywarp_core::Result;
use polywarp_core::decorate::Nop;
use std::process::ExitCode;

const HELP: &str = "\
Runs polywarp's conformance cases on a backend.

  conformance --backend NAME [OPTIONS]

  --backend NAME       one of those this runner was built with
  --mode MODE          how the backend runs work: plain (the default) or, host only, adversarial: as late
                       as it may and in a random order, which --seed repeats
  --filter GLOB        only cases whose id matches, such as 'xstream.*'
  --device N|last      on this device (default 0)
  --seed N|random      repeats or varies the data (default 0)
  --list               print the ids of the selected cases
  --plan               print the plan of cases
  --help               print this

Exits with 0 if every case that ran passed and at least one did, with 1 if one failed or none ran, with 2 if it was called wrongly.";

/// What the command line asks for.
enum Task {
    Help,
    Plan,
    List(Options),
    Run { backend: String, mode: Mode, options: Options },
}

/// How the backend runs work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Adversarial,
}

impl Mode {
    fn of(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "adversarial" => Ok(Self::Adversarial),
            _ => Err(format!("--mode takes `plain` or `adversarial`, not {text:?}")),
        }
    }
}

fn main() -> ExitCode {
    match parse().and_then(perform) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("conformance: {message}\nTry --help.");
            ExitCode::from(2)
        }
    }
}

fn perform(task: Task) -> Result<ExitCode, String> {
    match task {
        Task::Help => println!("{HELP}\nBackends: {}", BACKENDS.join(", ")),
        Task::Plan => print!("{}", plan()),
        Task::List(options) => selected(&options)?.iter().for_each(|id| println!("{id}")),
        Task::Run { backend, mode, options } => {
            selected(&options)?;
            return Ok(conclude(run_on(&backend, mode, &options)?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn conclude(outcome: Result<Report>) -> ExitCode {
    match outcome {
        Ok(report) => {
            println!("{report}");
            if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("conformance: {error}");
            println!("conformance: 0 passed, 0 failed, 0 skipped");
            ExitCode::FAILURE
        }
    }
}

fn selected(options: &Options) -> Result<Vec<&'static str>, String> {
    let ids: Vec<_> = cases::all::<Nop>().iter().map(|case| case.id).filter(|id| options.selects(id)).collect();
    if ids.is_empty() {
        return Err(format!("no case matches {:?}; --list shows all", options.filter.as_deref().unwrap_or_default()));
    }
    Ok(ids)
}

fn parse() -> Result<Task, String> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let (mut backend, mut mode, mut list, mut options) = (None, Mode::Plain, false, Options::default());
    while let Some(option) = parser.next().map_err(|error| error.to_string())? {
        match option {
            Long("backend") => backend = Some(text(&mut parser)?),
            Long("mode") => mode = Mode::of(&text(&mut parser)?)?,
            Long("filter") => options.filter = Some(text(&mut parser)?),
            Long("device") => options.place = place(&text(&mut parser)?)?,
            Long("seed") => options.seed = seed(&text(&mut parser)?)?,
            Long("list") => list = true,
            Long("plan") => return Ok(Task::Plan),
            Short('h') | Long("help") => return Ok(Task::Help),
            other => return Err(other.unexpected().to_string()),
        }
    }
    match backend {
        _ if list => Ok(Task::List(options)),
        Some(backend) => Ok(Task::Run { backend, mode, options }),
        None => Err(format!("--backend is missing; this runner has {}", BACKENDS.join(", "))),
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(lexopt::ValueExt::string).map_err(|error| error.to_string())
}

fn place(text: &str) -> Result<Place, String> {
    match text {
        "last" => Ok(Place::Last),
        _ => text.parse().map(Place::Ordinal).map_err(|_| format!("--device takes a number or `last`, not {text:?}")),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    match text {
        "random" => Ok(fastrand::u64(..)),
        _ => text.parse().map_err(|_| format!("--seed takes a number or `random`, not {text:?}")),
    }
}

const BACKENDS: &[&str] = &[
    #[cfg(feature = "host")]
    "host",
];

fn run_on(backend: &str, mode: Mode, options: &Options) -> Result<Result<Report>, String> {
    match backend {
        #[cfg(feature = "host")]
        "host" => Ok(run(Host { mode, seed: options.seed }, options)),
        _ => Err(format!("no backend {backend:?}; this runner has {}", BACKENDS.join(", "))),
    }
}

/// The host reference backend with two devices.
#[cfg(feature = "host")]
struct Host {
    mode: Mode,
    seed: u64,
}

#[cfg(feature = "host")]
impl Subject for Host {
    type Backend = polywarp_core::host::Host;

    fn name(&self) -> &str {
        "host"
    }

    fn mode(&self) -> &str {
        match self.mode {
            Mode::Plain => "",
            Mode::Adversarial => "adversarial",
        }
    }

    fn open(&self) -> Result<Self::Backend> {
        let config = polywarp_core::host::HostConfig::new(2);
        Ok(polywarp_core::host::Host::new(&match self.mode {
            Mode::Plain => config,
            Mode::Adversarial => config.adversarial(self.seed),
        }))
    }
}
