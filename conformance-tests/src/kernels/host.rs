//! The host forms.

#![allow(clippy::too_many_arguments, reason = "kernels with many parameters are what is tested")]

use super::SUM_THREADS;
use super::arguments::{Affine, CellRepr, InnerRepr, LabelRepr, MiddleRepr, OuterRepr, StridedRepr};
use super::reference::weighted;
use polywarp_core::{At, Global, HostFn, HostForm, HostSpan, HostSpanMut, SpanMut, Thread};
use std::ffi::c_void;

type In<'k> = HostSpan<'k, u32>;
type Out<'k> = HostSpanMut<'k, u32>;

pub(super) fn axpy(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, a: f32) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, a * x.load(i) + y.load(i));
    }
}

pub(super) fn copy(thread: &Thread<'_>, x: In<'_>, y: Out<'_>) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, x.load(i));
    }
}

pub(super) fn fill(thread: &Thread<'_>, y: Out<'_>, value: u32) {
    if let Some(i) = thread.within(y.len()) {
        y.store(i, value);
    }
}

pub(super) fn add(thread: &Thread<'_>, x: In<'_>, y: In<'_>, z: Out<'_>) {
    if let Some(i) = thread.within(z.len()) {
        z.store(i, x.load(i).wrapping_add(y.load(i)));
    }
}

pub(super) fn add_one(thread: &Thread<'_>, x: Out<'_>) {
    if let Some(i) = thread.within(x.len()) {
        x.store(i, x.load(i).wrapping_add(1));
    }
}

pub(super) fn sum(thread: &Thread<'_>, x: In<'_>, out: Out<'_>) {
    let (me, threads) = (thread.thread()[0] as usize, SUM_THREADS as usize);
    let partial = thread.shared::<u32>(0, threads);
    partial.store(me, (me..x.len()).step_by(threads).fold(0u32, |sum, i| sum.wrapping_add(x.load(i))));
    let mut half = threads / 2;
    while half > 0 {
        thread.barrier();
        if me < half {
            partial.store(me, partial.load(me).wrapping_add(partial.load(me + half)));
        }
        half /= 2;
    }
    if me == 0 {
        out.store(0, partial.load(0));
    }
}

pub(super) fn transform(thread: &Thread<'_>, x: HostSpanMut<'_, f32>, by: Affine) {
    if let Some(i) = thread.within(x.len()) {
        x.store(i, by.scale * x.load(i) + by.shift);
    }
}

pub(super) fn add_or_one(thread: &Thread<'_>, x: Global<'_, u32>, y: Out<'_>) {
    if let Some(i) = thread.within(y.len()) {
        // SAFETY: the predicate says that there are as many elements as `y` has, unless it is null.
        let summand = if x.is_null() { 1 } else { unsafe { x.load(i) } };
        y.store(i, y.load(i).wrapping_add(summand));
    }
}

pub(super) fn is_null(thread: &Thread<'_>, x: Global<'_, [u32; 0]>, out: Out<'_>) {
    if let Some(i) = thread.within(1) {
        out.store(i, x.is_null().into());
    }
}

/// Writes the bytes of every parameter after the first as they lie in the parameter block, padding included.
pub(super) struct Echo;

impl<S: At<0, Type = SpanMut<u8>>> HostFn<S> for Echo {
    unsafe fn call<'k>(&self, thread: &Thread<'k>, parameters: *const *mut c_void) {
        if thread.within(1).is_none() {
            return;
        }
        // SAFETY: the caller promised a pointer per parameter, here to the first.
        let first = unsafe { *parameters };
        // SAFETY: it points to a parameter of that type.
        let out = unsafe { first.cast::<SpanMut<u8>>().read() };
        // SAFETY: the launch reaches what is behind it.
        let out = unsafe { out.view() };
        let mut end = 0;
        for (index, layout) in S::LAYOUT.iter().enumerate().skip(1) {
            // SAFETY: there are as many pointers as parameters.
            let parameter = unsafe { parameters.wrapping_add(index).read() }.cast::<u8>();
            for offset in 0..layout.bytes as usize {
                // SAFETY: within the parameter, all of whose bytes were written: the block is zeroed before the fields are stored.
                out.store(end, unsafe { parameter.wrapping_add(offset).read() });
                end += 1;
            }
        }
    }
}

pub(super) fn shapes(
    thread: &Thread<'_>,
    leaf: Global<'_, u32>,
    (span, number): (In<'_>, u32),
    array: [In<'_>; 2],
    option: In<'_>,
    label: LabelRepr<CellRepr<u32>, u16>,
    out: Out<'_>,
) {
    if let Some(i) = thread.within(out.len()) {
        // SAFETY: the predicate says that there are as many elements as `out` has.
        let leaf = unsafe { leaf.load(i) };
        let labelled = label.value.content.wrapping_mul(label.label.into());
        let option = if option.is_empty() { 0 } else { option.load(i) };
        let all = [span.load(i), number, array[0].load(i), array[1].load(i), option, labelled];
        out.store(i, all.into_iter().fold(leaf, u32::wrapping_add));
    }
}

pub(super) fn deep(thread: &Thread<'_>, x: OuterRepr<In<'_>, MiddleRepr<In<'_>, InnerRepr<In<'_>, u8>>, u32>, out: Out<'_>) {
    if let Some(i) = thread.within(out.len()) {
        let OuterRepr { first, middle: MiddleRepr { second, inner: InnerRepr { third, flag } }, bias } = x;
        let terms = [second.load(i).wrapping_mul(2), third.load(i).wrapping_mul(3), bias.wrapping_mul(flag.into())];
        out.store(i, terms.into_iter().fold(first.load(i), u32::wrapping_add));
    }
}

pub(super) fn gather(thread: &Thread<'_>, view: StridedRepr<In<'_>, In<'_>, u32, bool>, out: Out<'_>) {
    if let Some(i) = thread.within(out.len()) {
        let value = view.data.load((view.index.load(i) * view.stride) as usize);
        out.store(i, if view.flipped { !value } else { value });
    }
}

macro_rules! many {
    ($name:ident: $($parameter:ident)*) => {
        pub(super) fn $name(thread: &Thread<'_>, out: Out<'_>, $($parameter: u32),*) {
            if let Some(i) = thread.within(1) {
                out.store(i, weighted(&[$($parameter),*]));
            }
        }
    };
}
many!(many_22: a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0);
many!(many_40: a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 d2 d3 d4 d5 d6 d7 d8);

pub(super) fn fault(thread: &Thread<'_>, out: Out<'_>) {
    if thread.within(1).is_some() {
        out.store(0, out.load(out.len()));
    }
}
