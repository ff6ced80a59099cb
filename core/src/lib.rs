//! core
#![recursion_limit = "256"]
pub mod backend;
pub mod counters;
mod device;
mod event;
mod error;
mod memory;
mod order;
mod stream;
mod sync;
pub use error::{Error, ErrorKind, NativeCode, Result, Text};
pub use device::{Device, Runtime};
pub use event::Event;
pub use stream::{Stream, StreamOptions};
pub use memory::{Allocation, DeviceMemory, HostVisible, MemoryKind, PinnedMemory, UnifiedMemory};
