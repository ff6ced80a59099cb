//! Refusals that depend on the device: unified memory that cannot be shared at the same time, and streams whose host function panicked.

#![cfg(feature = "host")]

use polywarp_core::backend::Feature;
use polywarp_core::gate::Gate;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{Device, ErrorKind, Runtime};
use std::sync::Arc;

fn device(config: &HostConfig) -> Device<Host> {
    Runtime::new(Host::new(config)).unwrap().device(0).unwrap()
}

/// A device on which host and device must not use unified memory at the same time.
fn exclusive() -> Device<Host> {
    device(&HostConfig::new(1).without(Feature::ConcurrentUnifiedAccess))
}

#[test]
fn a_unified_guard_refuses_every_submission_where_memory_cannot_be_shared() {
    let device = exclusive();
    let stream = device.stream().unwrap();
    let unified = device.alloc_unified::<u32>(4).unwrap();
    let mut other = device.alloc::<u32>(4).unwrap();
    let guard = unified.read().unwrap();
    let refusal = other.fill(&stream, 1).unwrap_err();
    assert!(matches!(refusal.kind(), ErrorKind::HostBorrowed { .. }), "{refusal}");
    let refusal = other.as_slice().lend(&stream, |_| ()).unwrap_err();
    assert!(matches!(refusal.kind(), ErrorKind::HostBorrowed { .. }), "{refusal}");
    drop(guard);
    other.fill(&stream, 2).unwrap();
    assert_eq!(other.download(&stream).unwrap(), [2; 4]);
}

#[test]
fn a_unified_guard_waits_for_unrelated_work_where_memory_cannot_be_shared() {
    let device = exclusive();
    let stream = device.stream().unwrap();
    let unified = device.alloc_unified::<u32>(4).unwrap();
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    stream.host_function(move || assert!(held.wait())).unwrap();
    let opened = std::thread::scope(|scope| {
        let reader = scope.spawn(|| unified.read().map(|guard| guard.len()));
        // stream: [gate]   reader: waits for the stream, though it never touches the memory
        assert!(!gate.is_open());
        gate.open();
        reader.join().unwrap()
    });
    assert_eq!(opened.unwrap(), 4);
    assert!(stream.is_complete().unwrap(), "the guard opened behind all work of the device");
}

#[test]
fn a_unified_guard_refuses_nothing_else_where_memory_can_be_shared() {
    let device = device(&HostConfig::new(1));
    let stream = device.stream().unwrap();
    let unified = device.alloc_unified::<u32>(4).unwrap();
    let mut other = device.alloc::<u32>(4).unwrap();
    let _guard = unified.read().unwrap();
    other.fill(&stream, 1).unwrap();
    assert_eq!(other.download(&stream).unwrap(), [1; 4]);
}

#[test]
fn a_wait_tells_of_a_host_function_that_panicked() {
    let device = device(&HostConfig::new(1));
    let (stream, healthy) = (device.stream().unwrap(), device.stream().unwrap());
    stream.host_function(|| panic!("on purpose")).unwrap();
    let told = stream.wait().unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::StreamPoisoned { .. }), "{told}");
    assert!(told.to_string().contains("on purpose"), "{told}");
    healthy.wait().unwrap();
}

#[test]
fn a_poisoned_stream_lends_nothing() {
    let device = device(&HostConfig::new(1));
    let (stream, healthy) = (device.stream().unwrap(), device.stream().unwrap());
    let buffer = device.alloc::<u32>(4).unwrap();
    stream.host_function(|| panic!("on purpose")).unwrap();
    assert!(stream.wait().is_err());
    let refusal = buffer.as_slice().lend(&stream, |_| ()).unwrap_err();
    assert!(matches!(refusal.kind(), ErrorKind::StreamPoisoned { .. }), "{refusal}");
    buffer.as_slice().lend(&healthy, |_| ()).unwrap();
}
