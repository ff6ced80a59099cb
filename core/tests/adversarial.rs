//! Random programs over streams, devices and kinds of memory, on the host backend's adversarial mode, against the same program in order.

#![cfg(feature = "host")]
#![allow(unsafe_code, reason = "binds kernels")]

use fastrand::Rng;
use polywarp_core::host::{Host, HostConfig};
use polywarp_core::{
    Buffer, Device, HostSpan, HostSpanMut, Kernel, LaunchConfig, Module, Program, Result, Runtime, Span, SpanMut, Stream, Thread,
    UnifiedMemory,
};
use std::ops::Range;

const LEN: usize = 24;
/// Bytes that a buffer takes.
const BLOCK: u64 = 256;
const STEPS: usize = 60;

type Mix = (Span<u32>, SpanMut<u32>, u32);

fn mix(thread: &Thread<'_>, x: HostSpan<'_, u32>, y: HostSpanMut<'_, u32>, factor: u32) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, mixed(x.load(i), y.load(i), factor));
    }
}

fn mixed(x: u32, y: u32, factor: u32) -> u32 {
    y.rotate_left(5).wrapping_mul(factor).wrapping_add(x)
}

/// A device with two streams.
struct Place {
    device: Device<Host>,
    streams: [Stream<Host>; 2],
    mix: Kernel<Host, false, Mix>,
}

impl Place {
    fn new(device: Device<Host>) -> Result<Self> {
        let module = Module::load(&device, &Program::new("mix").host::<Mix, _>("mix", mix))?;
        // SAFETY: `mix` has these parameters and checks bounds; each thread uses elements of its own.
        let mix = unsafe { module.bind("mix") }?;
        Ok(Self { streams: [device.stream()?, device.stream()?], device, mix })
    }
}

/// Buffers, and what must be in them.
struct World {
    random: Rng,
    places: [Place; 2],
    buffers: Vec<(Buffer<Host, u32, UnifiedMemory>, [u32; LEN])>,
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        // So little memory that buffers take over what others still use.
        let config = HostConfig::new(2).with_memory(4 * BLOCK).adversarial(seed);
        let runtime = Runtime::new(Host::new(&config))?;
        let places = [Place::new(runtime.device(0)?)?, Place::new(runtime.device(1)?)?];
        let mut world = Self { random: Rng::with_seed(seed), places, buffers: Vec::new() };
        for _ in 0..4 {
            world.make()?;
        }
        Ok(world)
    }

    fn any_place(&mut self) -> (usize, usize) {
        (self.random.usize(..2), self.random.usize(..2))
    }

    fn any_range(&mut self) -> Range<usize> {
        let start = self.random.usize(..LEN);
        start..self.random.usize(start + 1..=LEN)
    }

    /// A buffer written by a stream, usually in memory that was used before.
    fn make(&mut self) -> Result<()> {
        let ((device, stream), value) = (self.any_place(), self.random.u32(..));
        let mut buffer = self.places[device].device.alloc_unified(LEN)?;
        buffer.fill(&self.places[device].streams[stream], value)?;
        self.buffers.push((buffer, [value; LEN]));
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let (device, stream) = self.any_place();
        let range = self.any_range();
        let (mut target, mut expected) = self.buffers.swap_remove(self.random.usize(..4));
        let (source, known) = &self.buffers[self.random.usize(..3)];
        let (place, factor) = (&self.places[device], self.random.u32(..));
        let on = &place.streams[stream];
        let (inside, after) = (range.clone(), &mut expected[range.clone()]);
        match self.random.u8(..16) {
            0..7 => {
                let arguments = (source.slice(inside)?.span(), target.slice_mut(range.clone())?.span_mut(), factor);
                place.mix.launch(on, LaunchConfig::for_elements(range.len()), arguments)?;
                after.iter_mut().zip(&known[range]).for_each(|(y, &x)| *y = mixed(x, *y, factor));
            }
            7..10 => {
                target.slice_mut(inside)?.copy_from(on, source.slice(range.clone())?)?;
                after.copy_from_slice(&known[range]);
            }
            10 => {
                target.slice_mut(inside)?.fill(on, factor)?;
                after.fill(factor);
            }
            11 => {
                target.write()?[range].fill(factor);
                after.fill(factor);
            }
            12 => assert_eq!(target.read()?[..], expected),
            13 => assert_eq!(target.slice(inside)?.download(on)?, *after),
            _ => {
                drop(target);
                return self.make();
            }
        }
        self.buffers.push((target, expected));
        Ok(())
    }
}

#[test]
fn random_programs_compute_what_they_would_in_order() -> Result<()> {
    for seed in 0..256 {
        let mut world = World::new(seed)?;
        (0..STEPS).try_for_each(|_| world.step())?;
        for (buffer, expected) in &world.buffers {
            assert_eq!(buffer.read()?[..], *expected, "with seed {seed}");
        }
    }
    Ok(())
}
