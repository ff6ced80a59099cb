//! Nobody waits for more than was promised: precise streams, checkpoints, full queues, awaited reads, staging slots, guards.
//!
//! A test that would hang ends after a while with a message.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "binds a kernel")]

use polywarp_core::backend::{Backend, EventDescriptor, Feature};
use polywarp_core::gate::Gate;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{Device, ErrorKind, HostSpanMut, LaunchConfig, Module, Program, Runtime, SpanMut, Stream, StreamOptions, Thread};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Runs a test on a thread of its own; a hang becomes a failure.
fn bounded(test: impl FnOnce() + Send + 'static) {
    let (done, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    let told = told.recv_timeout(Duration::from_secs(60));
    assert!(!matches!(told, Err(mpsc::RecvTimeoutError::Timeout)), "it hangs");
    thread.join().unwrap();
}

fn devices(config: &HostConfig) -> Vec<Device<Host>> {
    Runtime::new(Host::new(config)).unwrap().devices().unwrap()
}

fn device() -> Device<Host> {
    devices(&HostConfig::new(1)).remove(0)
}

/// Holds a stream until the gate is opened (or dropped).
fn hold(stream: &Stream<Host>) -> Arc<Gate> {
    let gate = Arc::new(Gate::with_patience(Duration::from_secs(120)));
    let held = Arc::clone(&gate);
    stream.host_function(move || assert!(held.wait())).unwrap();
    gate
}

#[test]
fn a_wait_for_a_precise_stream_covers_nothing_later_however_much_follows() {
    bounded(|| {
        let device = device();
        let (precise, other) = (device.stream_with(StreamOptions::new().precise()).unwrap(), device.stream().unwrap());
        let x = precise.upload(&[7u32; 4]).unwrap();
        // The upload is complete, though no wait or query has told polywarp so.
        let (tell, told) = mpsc::channel();
        precise.host_function(move || tell.send(()).unwrap()).unwrap();
        told.recv().unwrap();
        let gate = hold(&precise);
        let mut y = device.alloc::<u32>(4).unwrap();
        for value in 0..200 {
            y.fill(&precise, value).unwrap();
        }
        // precise: [upload x] [gate] [200 fills]   other: [read x]
        assert_eq!(x.download(&other).unwrap(), [7; 4]);
        gate.open();
        assert_eq!(y.download(&other).unwrap(), [199; 4]);
    });
}

#[test]
fn a_wait_for_work_before_a_checkpoint_covers_nothing_behind_it_however_much_follows() {
    bounded(|| {
        let device = device();
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let x = a.upload(&[7u32; 4]).unwrap();
        a.checkpoint().unwrap();
        let gate = hold(&a);
        let mut y = device.alloc::<u32>(4).unwrap();
        for value in 0..20 {
            y.fill(&a, value).unwrap();
            a.checkpoint().unwrap();
        }
        // a: [upload x] ● [gate] [fill ●] × 20   b: [read x]
        assert_eq!(x.download(&b).unwrap(), [7; 4]);
        gate.open();
        a.wait().unwrap();
    });
}

#[test]
fn the_checkpoints_of_a_precise_stream_stay_few_once_its_work_is_done() {
    let device = device();
    let precise = device.stream_with(StreamOptions::new().precise()).unwrap();
    let mut y = device.alloc::<u32>(4).unwrap();
    for value in 0..2000 {
        y.fill(&precise, value).unwrap();
        if value % 50 == 0 {
            precise.wait().unwrap();
        }
    }
    assert_eq!(y.download(&precise).unwrap(), [1999; 4]);
}

#[test]
fn a_lend_leaves_a_point_before_the_foreign_work() {
    bounded(|| {
        let device = device();
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let x = a.upload(&[7u32; 4]).unwrap();
        let lent = device.alloc::<u32>(4).unwrap();
        // Foreign work that waits for the host, submitted past polywarp's counts.
        let gate = Arc::new(Gate::with_patience(Duration::from_secs(120)));
        let runtime = device.runtime();
        // SAFETY: a gate's function does not unwind.
        let foreign = |raw: &_| unsafe { runtime.backend().stream_host_function(raw, gate.function()) };
        lent.as_slice().lend(&a, |_| a.with_raw(foreign)).unwrap().unwrap().unwrap();
        // a: [upload x] ● [gate]   b: [read x]
        assert_eq!(x.download(&b).unwrap(), [7; 4]);
        gate.open();
    });
}

#[test]
fn a_host_function_that_panics_behind_a_full_queue_lets_the_submitter_go() {
    bounded(|| {
        let device = device();
        let stream = Arc::new(device.stream().unwrap());
        let gate = Arc::new(Gate::with_patience(Duration::from_secs(120)));
        let held = Arc::clone(&gate);
        stream
            .host_function(move || {
                assert!(held.wait());
                panic!("on purpose");
            })
            .unwrap();
        let (submitting, started) = mpsc::channel();
        let submitter = {
            let stream = Arc::clone(&stream);
            let mut y = device.alloc::<u32>(4).unwrap();
            std::thread::spawn(move || {
                let mut refused = None;
                for value in 0..70_000u32 {
                    if value == 60_000 {
                        submitting.send(()).unwrap();
                    }
                    if let Err(error) = y.fill(&stream, value) {
                        refused.get_or_insert(error);
                    }
                }
                refused
            })
        };
        started.recv().unwrap();
        gate.open();
        submitter.join().unwrap();
        let told = stream.wait().unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::StreamPoisoned { .. }), "{told}");
    });
}

#[test]
fn an_awaited_read_does_not_wait_behind_another_that_is_stuck() {
    bounded(|| {
        let device = device();
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let x = b.upload(&[3u32; 4]).unwrap();
        b.wait().unwrap();
        let gate = hold(&a);
        let stuck = x.as_slice().start_download(&a).unwrap();
        let free_gate = hold(&b);
        let free = x.as_slice().start_download(&b).unwrap();
        let waiting = std::thread::spawn(move || pollster::block_on(async { stuck.await }));
        let ready = std::thread::spawn(move || pollster::block_on(async { free.await }));
        free_gate.open();
        assert_eq!(ready.join().unwrap().unwrap(), [3; 4]);
        gate.open();
        assert_eq!(waiting.join().unwrap().unwrap(), [3; 4]);
    });
}

#[test]
fn uploads_do_not_wait_for_slots_that_another_stream_holds() {
    bounded(|| {
        let device = device();
        let (a, b) = (device.stream_with(StreamOptions::new().precise()).unwrap(), device.stream().unwrap());
        let data = vec![1u8; 4 << 20];
        let (mut x, mut y) = (device.alloc::<u8>(data.len()).unwrap(), device.alloc::<u8>(data.len()).unwrap());
        let gate = hold(&a);
        x.upload(&a, &data).unwrap();
        for _ in 0..32 {
            y.upload(&b, &data).unwrap();
        }
        b.wait().unwrap();
        gate.open();
        assert!(x.download(&b).unwrap() == data);
    });
}

/// Asks its stream something when it is dropped, and says that it did.
struct Asks(Arc<Stream<Host>>, mpsc::Sender<bool>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.1.send(self.0.is_complete().is_err()).unwrap_or(());
    }
}

#[test]
fn what_a_refused_host_function_owns_is_dropped_outside_of_the_streams_lock() {
    bounded(|| {
        let device = device();
        let program =
            Program::new("fault").host::<(SpanMut<u32>,), _>("fault", |_: &Thread<'_>, _: HostSpanMut<'_, u32>| panic!("on purpose"));
        let module = Module::load(&device, &program).unwrap();
        // SAFETY: the kernel touches nothing.
        let fault = unsafe { module.bind::<(SpanMut<u32>,)>("fault") }.unwrap();
        let (faulty, fresh) = (device.stream().unwrap(), Arc::new(device.stream().unwrap()));
        let mut x = device.alloc::<u32>(4).unwrap();
        let raw = device.runtime();
        fault.launch(&faulty, 1, (x.span_mut(),)).unwrap();
        // The device is lost, and nobody here was told yet: ask the backend, not polywarp.
        while raw.backend().event_create(device.raw(), &EventDescriptor::ordering()).is_ok() {
            std::thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        let asks = Asks(Arc::clone(&fresh), tell);
        assert!(fresh.host_function(move || drop(asks)).is_err());
        assert_eq!(told.recv(), Ok(true));
    });
}

#[test]
fn a_unified_guard_waits_for_conflicting_work_of_other_devices_too() {
    bounded(|| {
        let devices = devices(&HostConfig::new(2).with_peers(|_, _| true).without(Feature::ConcurrentUnifiedAccess));
        let other = devices[1].stream().unwrap();
        let mut x = devices[0].alloc_unified::<u32>(4).unwrap();
        let gate = hold(&other);
        x.fill(&other, 2).unwrap();
        let reader = std::thread::scope(|scope| {
            let reader = scope.spawn(|| x.read().map(|guard| guard.to_vec()));
            gate.open();
            reader.join().unwrap()
        });
        assert_eq!(reader.unwrap(), [2; 4]);
    });
}

#[test]
fn a_forgotten_unified_guard_stops_its_device_no_longer_than_its_memory_lives() {
    let device = devices(&HostConfig::new(1).without(Feature::ConcurrentUnifiedAccess)).remove(0);
    let stream = device.stream().unwrap();
    let unified = device.alloc_unified::<u32>(4).unwrap();
    std::mem::forget(unified.read().unwrap());
    let mut other = device.alloc::<u32>(4).unwrap();
    assert!(other.fill(&stream, 1).is_err());
    drop(unified);
    device.trim().unwrap();
    other.fill(&stream, 1).unwrap();
    assert_eq!(other.download(&stream).unwrap(), [1; 4]);
}

#[test]
fn waits_inside_a_kernel_are_refused_behind_barriers_too() {
    bounded(|| {
        let device = device();
        let stream = Arc::new(device.stream().unwrap());
        let asked = Arc::clone(&stream);
        let kernel = move |thread: &Thread<'_>, out: HostSpanMut<'_, u32>| {
            for round in 0..4 {
                let refused = matches!(asked.is_complete(), Err(error) if matches!(error.kind(), ErrorKind::InCallback));
                let index = thread.index(0) * 4 + round;
                out.store(index, u32::from(refused));
                if thread.index(0) != 0 || round < 2 {
                    thread.barrier();
                }
            }
        };
        let program = Program::new("asks").host::<(SpanMut<u32>,), _>("asks", kernel);
        let module = Module::load(&device, &program).unwrap();
        // SAFETY: bounds are checked, and each thread writes elements of its own.
        let asks = unsafe { module.bind::<(SpanMut<u32>,)>("asks") }.unwrap();
        let mut out = stream.zeros::<u32>(4 * 4).unwrap();
        asks.launch(&stream, LaunchConfig::new(1, 4), (out.span_mut(),)).unwrap();
        assert_eq!(out.download(&stream).unwrap(), [1; 16]);
    });
}

#[test]
fn a_fault_of_another_device_is_told_with_its_suspects_at_the_first_call_that_meets_it() {
    bounded(|| {
        let devices = devices(&HostConfig::new(2).with_peers(|_, _| true));
        let program =
            Program::new("fault").host::<(SpanMut<u32>,), _>("culprit", |_: &Thread<'_>, _: HostSpanMut<'_, u32>| panic!("on purpose"));
        let module = Module::load(&devices[0], &program).unwrap();
        // SAFETY: the kernel touches nothing.
        let fault = unsafe { module.bind::<(SpanMut<u32>,)>("culprit") }.unwrap();
        let stream = devices[0].stream().unwrap();
        let mut x = devices[1].alloc_pinned::<u32>(4).unwrap();
        fault.launch(&stream, 1, (x.span_mut(),)).unwrap();
        let told = x.read().unwrap_err();
        let ErrorKind::DevicePoisoned { suspects, .. } = told.kind() else { panic!("{told}") };
        assert_eq!(suspects, &["culprit"]);
        assert_eq!(told.device(), Some(0));
        assert!(stream.wait().unwrap_err().to_string().contains("culprit"));
    });
}

#[test]
fn memory_dropped_in_many_sizes_is_returned() {
    let device = devices(&HostConfig::new(1).with_memory(1 << 30)).remove(0);
    let total = device.memory_info().unwrap().free;
    for size in 1..1500usize {
        drop(device.alloc::<u8>(size * 1024).unwrap());
    }
    let held = total - device.memory_info().unwrap().free;
    assert!(held < 200 << 20, "{held} bytes are held for reuse");
}
