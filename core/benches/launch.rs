//! What a launch costs beside a driver that does nothing: `cargo bench -p polywarp-core --features decorate`.

#![allow(unsafe_code, reason = "binds kernels that are never run")]

use criterion::{Criterion, criterion_group, criterion_main};
use polywarp_core::decorate::Nop;
use polywarp_core::{Buffer, Device, DevicePtr, DevicePtrMut, Kernel, LaunchConfig, Module, Program, Runtime};

type In = DevicePtr<f32>;
type Out = DevicePtrMut<f32>;
type Three = (In, In, Out, f32);
type Four = (In, In, In, Out, f32);
type Twelve = (In, In, In, In, In, In, In, In, In, In, In, Out, f32);

fn kernel<P: polywarp_core::Parameters>(device: &Device<Nop>) -> Kernel<Nop, false, P> {
    let program = Program::new("nothing").host::<(), _>("nothing", |_: &polywarp_core::Thread<'_>| {});
    let module = Module::load(device, &program).unwrap();
    // SAFETY: the backend runs nothing.
    unsafe { module.bind("nothing") }.unwrap()
}

fn buffers(device: &Device<Nop>) -> Vec<Buffer<Nop, f32>> {
    (0..12).map(|_| device.alloc(1024).unwrap()).collect()
}

fn launches(criterion: &mut Criterion) {
    let device = Runtime::new(Nop::default()).unwrap().device(0).unwrap();
    let stream = device.stream().unwrap();
    let config = LaunchConfig::for_elements(1024);
    let b = buffers(&device);
    let mut out: Buffer<Nop, f32> = device.alloc(1024).unwrap();
    let mut group = criterion.benchmark_group("one stream");

    let three = kernel::<Three>(&device);
    group.bench_function("converting, 3 buffers", |bench| bench.iter(|| three.launch(&stream, config, (&b[0], &b[1], &mut out, 2.0))));
    let four = kernel::<Four>(&device);
    group
        .bench_function("converting, 4 buffers", |bench| bench.iter(|| four.launch(&stream, config, (&b[0], &b[1], &b[2], &mut out, 2.0))));
    let twelve = kernel::<Twelve>(&device);
    macro_rules! all {
        () => {
            (&b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8], &b[9], &b[10], &mut out, 2.0)
        };
    }
    group.bench_function("converting, 12 buffers", |bench| bench.iter(|| twelve.launch(&stream, config, all!())));

    let prepared = three.prepared((&b[0], &b[1], &mut out, 2.0)).unwrap();
    group.bench_function("prepared, 3 buffers", |bench| bench.iter(|| prepared.launch(&stream, config)));
    let prepared = four.prepared((&b[0], &b[1], &b[2], &mut out, 2.0)).unwrap();
    group.bench_function("prepared, 4 buffers", |bench| bench.iter(|| prepared.launch(&stream, config)));
    let prepared = twelve.prepared(all!()).unwrap();
    group.bench_function("prepared, 12 buffers", |bench| bench.iter(|| prepared.launch(&stream, config)));
    group.finish();
}

fn hand_over(criterion: &mut Criterion) {
    let device = Runtime::new(Nop::default()).unwrap().device(0).unwrap();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let config = LaunchConfig::for_elements(1024);
    let b = buffers(&device);
    let mut out: Buffer<Nop, f32> = device.alloc(1024).unwrap();
    let prepared = kernel::<Three>(&device).prepared((&b[0], &b[1], &mut out, 2.0)).unwrap();
    let mut turn = 0;
    criterion.bench_function("two streams in turn, prepared, 3 buffers", |bench| {
        bench.iter(|| {
            turn ^= 1;
            prepared.launch(&streams[turn], config)
        });
    });
}

fn memory(criterion: &mut Criterion) {
    let device = Runtime::new(Nop::default()).unwrap().device(0).unwrap();
    let stream = device.stream().unwrap();
    criterion.bench_function("allocate and drop", |bench| bench.iter(|| stream.alloc::<f32>(1024).map(drop)));
}

criterion_group!(benches, launches, hand_over, memory);
criterion_main!(benches);
