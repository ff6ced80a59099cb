//! A host function may run after its surroundings are gone.

use polywarp_core::backend::Backend;
use polywarp_core::{Result, Stream};

fn borrow<B: Backend>(stream: &Stream<B>) -> Result<u32> {
    let mut count = 0;
    stream.host_function(|| count += 1)?;
    Ok(count)
}

fn not_send<B: Backend>(stream: &Stream<B>) -> Result<()> {
    let shared = std::rc::Rc::new(1);
    stream.host_function(move || drop(shared))
}

fn main() {}
