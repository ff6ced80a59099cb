//! Finds the edges in a picture, on whatever GPU there is, or on none.
//!
//! ```text
//! cargo run --release --example edges
//! cargo run --release --example edges -- --input photo.jpg --output edges.png --repeat 100
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `main` | the command line; which backend, which device, how long it took |
//! | `picture` | PNG and JPEG in, PNG out |
//! | `pipeline` | buffers, streams and prepared launches |
//! | `kernels` | what runs on the device |
//!
//! The picture that is used if no other is given, `chelsea.png`, is Stéfan van der Walt's cat; he has put it into the public domain (CC0).

#![cfg_attr(
    not(any(feature = "host", feature = "cuda", feature = "hip")),
    allow(dead_code, unused_variables, unreachable_code, reason = "with no backend compiled in nothing can run")
)]

mod kernels;
mod picture;
mod pipeline;

use anyhow::Result;
use image::RgbImage;
use pipeline::Pipeline;
use polywarp::backend::Backend;
use polywarp::{Runtime, dispatch};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
Finds the edges in a picture.

Usage: edges [OPTION]...

  --input FILE     a PNG or JPEG [a photograph that comes with polywarp]
  --output FILE    where to write the edges, as PNG [edges.png]
  --backend NAME   cuda, hip or host [the variable POLYWARP_BACKEND, else the best that works here]
  --device NUMBER  one of the backend's devices [0]
  --repeat NUMBER  how often to compute, to measure the time [1]
  --help           this text
";

struct Options {
    input: PathBuf,
    output: PathBuf,
    backend: Option<String>,
    device: u32,
    repeat: u32,
}

fn main() -> ExitCode {
    match options() {
        Ok(Some(options)) => ended(run(&options).map_err(|error| format!("{error:#}")), 1),
        Ok(None) => ended(print(HELP), 1),
        Err(error) => ended(Err(format!("{error}\n\n{HELP}")), 2),
    }
}

/// The exit code, after a word on what went wrong.
fn ended(outcome: Result<(), impl Display>, code: u8) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    // Where nobody reads the errors, the code must do.
    let _unread = writeln!(io::stderr(), "edges: {error}");
    ExitCode::from(code)
}

/// Writes to the standard output; unlike `print!`, it does not panic if nobody reads it any more.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What the command line asks for; nothing if it asks for help.
fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        input: concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/chelsea.png").into(),
        output: "edges.png".into(),
        backend: None,
        device: 0,
        repeat: 1,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("input") => options.input = parser.value()?.into(),
            Long("output") => options.output = parser.value()?.into(),
            Long("backend") => options.backend = Some(parser.value()?.string()?),
            Long("device") => options.device = parser.value()?.parse()?,
            Long("repeat") => options.repeat = parser.value()?.parse()?,
            Short('h') | Long("help") => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    if options.repeat == 0 { Err("--repeat must be at least 1".into()) } else { Ok(Some(options)) }
}

fn run(options: &Options) -> Result<()> {
    let backend = polywarp::select(options.backend.as_deref())?;
    let picture = picture::read(&options.input)?;
    dispatch!(backend, |backend: B| find_edges::<B>(backend, options, &picture))
}

/// Finds the edges, writes them, and prints a report on how it went.
fn find_edges<B: Backend>(backend: B, options: &Options, picture: &RgbImage) -> Result<()> {
    let runtime = Runtime::new(backend)?;
    let device = runtime.device(options.device)?;
    let (width, height) = picture.dimensions();
    let mut pipeline = Pipeline::new(&device, width, height)?;

    let start = Instant::now();
    pipeline.upload(picture)?;
    device.wait()?;
    let upload = start.elapsed();

    let start = Instant::now();
    for _ in 0..options.repeat {
        pipeline.run()?;
    }
    device.wait()?;
    let kernels = start.elapsed() / options.repeat;

    let start = Instant::now();
    let edges = pipeline.download()?;
    let download = start.elapsed();

    picture::write(&options.output, &edges, width, height)?;
    let report = [
        format!("backend      {}", runtime.backend().name()),
        format!("device       {}: {}", device.ordinal(), device.info().name),
        format!("picture      {width} × {height}, {}", options.input.display()),
        format!("upload       {upload:.3?}"),
        format!("kernels      {kernels:.3?} each of {}", options.repeat),
        format!("download     {download:.3?}"),
        format!("written to   {}\n", options.output.display()),
    ];
    Ok(print(&report.join("\n"))?)
}
