//! A type with wrong bit patterns is downloaded checked: `download_checked`.

use polywarp_core::backend::Backend;
use polywarp_core::{Buffer, HostGuard, Result, Stream, UnifiedMemory};

fn download<B: Backend>(x: &Buffer<B, bool>, stream: &Stream<B>) -> Result<Vec<bool>> {
    x.download(stream)
}

fn pending<B: Backend>(x: &Buffer<B, bool>, stream: &Stream<B>) -> Result<()> {
    x.as_slice().start_download(stream).map(drop)
}

fn guard<B: Backend>(x: &Buffer<B, bool, UnifiedMemory>) -> Result<HostGuard<'_, B, bool>> {
    x.read()
}

fn main() {}
