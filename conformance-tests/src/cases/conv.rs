//! From what the host holds to what the kernel receives, converting at each launch or once.

use super::ordering;
use crate::case::{Case, case};
use crate::check::same;
use crate::context::{Context, bytes_of};
use crate::kernels::arguments::{Affine, Cell, CellRepr, Holes, Inner, Label, LabelRepr, Middle, Outer, Record, Strided};
use crate::kernels::reference;
use polywarp_core::backend::Backend;
use polywarp_core::counters::conversions;
use polywarp_core::{Conversion, Convert, DeviceMemory, Error, ErrorKind, Pair, Result, SpanMut, SpanOf};
use std::marker::PhantomData;

const LEN: usize = 100;

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        case("conv.shapes", "CV1", "Leaves, pairs, arrays, options, nested and generic structs arrive as what they hold.", shapes),
        case("conv.markers_vanish", "CV2", "A `PhantomData` field takes no part and no room.", markers_vanish),
        case(
            "conv.count",
            "CV3",
            "Each argument is converted once per launch, once per `prepare` however many launches follow, and once per `rebind`.",
            count,
        ),
        case(
            "conv.duplicates_tracked_once",
            "CV5",
            "A buffer that several arguments reach costs one wait, and its uses do not pile up.",
            duplicates_tracked_once,
        ),
        case("conv.leaves_are_tracked", "CV6", "Every buffer of a struct three deep is ordered.", leaves_are_tracked).gated(),
        case("conv.metadata_is_kept", "CV7", "A view's strides and flags arrive with values other than the default.", metadata_is_kept),
        case("conv.index_arrays", "CV8", "The index array inside a view is converted and ordered too.", index_arrays).gated(),
        case("conv.prepared_outlives_inputs", "CV9", "A prepared call outlives the scope of its inputs.", prepared_outlives_inputs),
        case("conv.rebind_swaps_owners", "CV10", "Rebinding lets the old buffer go and orders the new one.", rebind_swaps_owners).gated(),
        case(
            "conv.prepared_other_device_current",
            "CV12",
            "A call prepared on one device runs there while another is current, and is refused on another's stream.",
            prepared_other_device_current,
        )
        .devices(2),
        case(
            "conv.prepared_on_two_streams",
            "CV13",
            "A prepared call launched on two streams is ordered like any use.",
            prepared_on_two_streams,
        )
        .gated(),
        case(
            "conv.both_ways_same_bytes",
            "CV14",
            "Converting launches and prepared ones hand over the same bytes, and padding is zero.",
            both_ways_same_bytes,
        ),
        case("conv.many_parameters:22,40", "CV16", "Kernels of 22 and of 40 parameters receive each in its place.", many_parameters),
        case(
            "conv.failure_changes_nothing",
            "CV17",
            "A conversion that fails half way records nothing, calls nothing, and leaves prepared arguments as they were.",
            failure_changes_nothing,
        ),
    ]
}

fn label(content: u32, label: u16) -> Label<Cell<u32>> {
    Label { value: Cell { content }, label, unit: PhantomData }
}

/// Red if a shape loses or misplaces a part.
fn shapes<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let buffers = [1u32, 10, 100, 1000, 10_000].map(|value| [value; LEN]);
    let [leaf, pair, left, right, option] = &buffers.map(|data| stream.upload(&data)).into_iter().collect::<Result<Vec<_>>>()?[..] else {
        unreachable!("five buffers")
    };
    let mut out = stream.alloc(LEN)?;
    let shapes = &cx.kernels.shapes;
    let arrays = || [left.span(), right.span()];
    shapes.launch(&stream, LEN, (leaf, (pair.span(), 5), arrays(), Some(option.span()), &label(20, 10_000), out.span_mut()))?;
    same(out.download(&stream)?, [211_116; LEN]);
    let none = None::<SpanOf<'_, B, u32, DeviceMemory>>;
    shapes.launch(&stream, LEN, (leaf, (pair.span(), 5), arrays(), none, &label(20, 10_000), out.span_mut()))?;
    same(out.download(&stream)?, [201_116; LEN]);
    Ok(())
}

/// Red if a marker takes room.
fn markers_vanish<B: Backend>(cx: &Context<B>) -> Result<()> {
    assert_eq!(size_of::<LabelRepr<CellRepr<u32>, u16>>(), 8);
    let stream = cx.stream()?;
    let zero = stream.zeros::<u32>(LEN)?;
    let mut out = stream.alloc(LEN)?;
    let arguments = (&zero, (zero.span(), 0), [zero.span(), zero.span()], Some(zero.span()), &label(6, 7), out.span_mut());
    cx.kernels.shapes.launch(&stream, LEN, arguments)?;
    same(out.download(&stream)?, [42; LEN]);
    Ok(())
}

/// Red if a launch of a prepared kernel converts, or a conversion runs twice.
fn count<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let (x, mut y) = (stream.zeros::<f32>(LEN)?, stream.zeros::<f32>(LEN)?);
    let converted = |work: &mut dyn FnMut() -> Result<()>| {
        let before = conversions();
        work()?;
        Ok::<_, Error>(conversions() - before)
    };
    assert_eq!(converted(&mut || cx.kernels.axpy.launch(&stream, LEN, (x.span(), y.span_mut(), 1.0)))?, 3);
    let before = conversions();
    let mut axpy = cx.kernels.axpy.prepared((x.span(), y.span_mut(), 1.0))?;
    assert_eq!(conversions() - before, 3);
    assert_eq!(converted(&mut || (0..10).try_for_each(|_| axpy.launch(&stream, LEN)))?, 0);
    assert_eq!(converted(&mut || axpy.rebind::<2>(2.0))?, 1);
    Ok(())
}

/// Red if each argument costs a wait of its own, or its use stays for ever.
fn duplicates_tracked_once<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let mut out = b.zeros::<u32>(LEN)?;
    // a: [x + 1]   b: [wait a, deep, deep, …]
    cx.kernels.add_one.launch(&a, LEN, (x.span_mut(),))?;
    let mut deep = || {
        let inner = Inner { third: x.slice(1..)?.span(), flag: 0 };
        let outer = Outer { first: x.span(), middle: Middle { second: x.span(), inner }, bias: 0, unit: PhantomData };
        cx.kernels.deep.launch(&b, LEN - 1, (outer, out.slice_mut(..LEN - 1)?.span_mut()))
    };
    let calls = cx.calls(&mut deep)?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    let calls = cx.calls(|| (0..100).try_for_each(|_| deep()))?;
    assert_eq!(ordering(&calls), [0, 0, 0, 100], "{calls}");
    assert!(x.recorded_uses() <= 4, "the write and one launch's reads, not {}", x.recorded_uses());
    same(out.slice(..LEN - 1)?.download(&b)?, [6; LEN - 1]);
    Ok(())
}

/// Red if only the first buffer of a struct is ordered.
fn leaves_are_tracked<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b, c, d] = cx.streams()?;
    let (mut x, mut y, mut z) = (a.zeros::<u32>(LEN)?, b.zeros::<u32>(LEN)?, c.zeros::<u32>(LEN)?);
    let mut out = d.zeros(LEN)?;
    cx.device.wait()?;
    let held = cx.hold(&c)?;
    // a: [fill x]   b: [fill y]   c: [gate, fill z]   d: [wait a, wait b, wait c, deep]
    cx.kernels.fill.launch(&a, LEN, (x.span_mut(), 1))?;
    cx.kernels.fill.launch(&b, LEN, (y.span_mut(), 10))?;
    cx.kernels.fill.launch(&c, LEN, (z.span_mut(), 100))?;
    let inner = Inner { third: z.span(), flag: 3 };
    let outer = Outer { first: x.span(), middle: Middle { second: y.span(), inner }, bias: 1000, unit: PhantomData };
    let calls = cx.calls(|| cx.kernels.deep.launch(&d, LEN, (outer, out.span_mut())))?;
    assert_eq!(ordering(&calls), [3, 3, 0, 1], "{calls}");
    held.open()?;
    same(out.download(&d)?, reference::deep(&[1; LEN], &[10; LEN], &[100; LEN], 3000));
    Ok(())
}

/// Red if conversion rebuilds a view with default metadata.
fn metadata_is_kept<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(3 * LEN);
    let indices: Vec<u32> = (0..LEN as u32).rev().collect();
    let (x, index, mut out) = (stream.upload(&data)?, stream.upload(&indices)?, stream.alloc(LEN)?);
    for flipped in [true, false] {
        let view = Strided { data: x.span(), index: index.span(), stride: 3, flipped };
        cx.kernels.gather.launch(&stream, LEN, (view, out.span_mut()))?;
        let expected: Vec<u32> = indices.iter().map(|&i| data[i as usize * 3]).map(|x| if flipped { !x } else { x }).collect();
        same(out.download(&stream)?, &expected);
    }
    Ok(())
}

/// Red if only the data of a view is ordered.
fn index_arrays<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let data = cx.data(LEN);
    let (x, mut index, mut out) = (b.upload(&data)?, a.zeros::<u32>(LEN)?, b.alloc(LEN)?);
    let held = cx.hold(&a)?;
    // a: [gate, fill index]   b: [wait a, gather]
    cx.kernels.fill.launch(&a, LEN, (index.span_mut(), 7))?;
    let view = Strided { data: x.span(), index: index.span(), stride: 1, flipped: false };
    let calls = cx.calls(|| cx.kernels.gather.launch(&b, LEN, (view, out.span_mut())))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    held.open()?;
    same(out.download(&b)?, [data[7]; LEN]);
    Ok(())
}

/// Red if a prepared call holds addresses without their memory.
fn prepared_outlives_inputs<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let mut y = stream.zeros(LEN)?;
    let copy = {
        let x = stream.upload(&data)?;
        cx.kernels.copy.prepared((x.span(), y.span_mut()))?
    };
    let junk = stream.upload(&vec![0u32; LEN])?;
    copy.launch(&stream, LEN)?;
    same(y.download(&stream)?, data);
    drop(junk);
    Ok(())
}

/// Red if a rebound argument keeps the old uses or owners.
fn rebind_swaps_owners<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut out = b.zeros::<u32>(LEN)?;
    let mut new = a.zeros::<u32>(LEN)?;
    let settled = || {
        cx.device.wait()?;
        cx.device.trim()?;
        Ok::<_, Error>(cx.counts().live().bytes)
    };
    let before = settled()?;
    let old = a.zeros::<u32>(LEN)?;
    let mut copy = cx.kernels.copy.prepared((old.span(), out.span_mut()))?;
    copy.launch(&b, LEN)?;
    copy.rebind::<0>(new.span())?;
    drop(old);
    assert_eq!(settled()?, before, "the old buffer is let go");
    let held = cx.hold(&a)?;
    // a: [gate, fill new]   b: [wait a, new → out]
    cx.kernels.fill.launch(&a, LEN, (new.span_mut(), 8))?;
    let calls = cx.calls(|| copy.launch(&b, LEN))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    held.open()?;
    same(out.download(&b)?, [8; LEN]);
    Ok(())
}

/// Red if a prepared launch goes to whichever device is current.
fn prepared_other_device_current<B: Backend>(cx: &Context<B>) -> Result<()> {
    let (other, kernels) = cx.other_device()?;
    let (here, there) = (cx.stream()?, other.stream()?);
    let data = cx.data(LEN);
    let (x, mut y) = (here.upload(&data)?, here.zeros(LEN)?);
    let copy = cx.kernels.copy.prepared((x.span(), y.span_mut()))?;
    let mut z = there.zeros::<u32>(LEN)?;
    kernels.add_one.launch(&there, LEN, (z.span_mut(),))?;
    copy.launch(&here, LEN)?; // the other device is current
    same(y.download(&here)?, data);
    same(z.download(&there)?, [1; LEN]);
    let refused = copy.launch(&there, LEN).map_err(|error| error.kind().clone());
    assert!(matches!(refused, Err(ErrorKind::WrongDevice { .. })), "{refused:?}");
    Ok(())
}

/// Red if a prepared call is bound to the stream of its first launch.
fn prepared_on_two_streams<B: Backend>(cx: &Context<B>) -> Result<()> {
    let [a, b] = cx.streams()?;
    let mut x = a.zeros::<u32>(LEN)?;
    let add_one = cx.kernels.add_one.prepared((x.span_mut(),))?;
    let held = cx.hold(&a)?;
    // a: [gate, x + 1, wait b, x + 1]   b: [wait a, x + 1]
    add_one.launch(&a, LEN)?;
    let calls = cx.calls(|| add_one.launch(&b, LEN))?;
    assert_eq!(ordering(&calls), [1, 1, 0, 1], "{calls}");
    add_one.launch(&a, LEN)?;
    held.open()?;
    same(x.download(&a)?, [3; LEN]);
    Ok(())
}

/// Red if one of the ways places a parameter elsewhere, truncates it or leaks padding.
fn both_ways_same_bytes<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut random = cx.random();
    let (a, b, c, d, e) = (random.u8(..), random.u16(..), random.u32(..), random.u64(..), random.u128(..));
    let (f, g, h, i, j) = (random.i8(..), random.i16(..), random.i32(..), random.i64(..), random.i128(..));
    let (k, l, m) = (random.f32(), random.f64(), true);
    let parts = [
        bytes_of(&a),
        bytes_of(&b),
        bytes_of(&c),
        bytes_of(&d),
        bytes_of(&e),
        bytes_of(&f),
        bytes_of(&g),
        bytes_of(&h),
        bytes_of(&i),
        bytes_of(&j),
        bytes_of(&k),
        bytes_of(&l),
        bytes_of(&m),
    ];
    let expected = parts.concat();
    let mut out = stream.zeros::<u8>(expected.len())?;
    cx.kernels.echo_scalars.launch(&stream, 1, (out.span_mut(), a, b, c, d, e, f, g, h, i, j, k, l, m))?;
    same(out.download(&stream)?, &expected);
    let prepared = cx.kernels.echo_scalars.prepared((out.span_mut(), a, b, c, d, e, f, g, h, i, j, k, l, m))?;
    out.fill(&stream, 0)?;
    prepared.launch(&stream, 1)?;
    same(out.download(&stream)?, &expected);

    let inner = Holes { small: a, large: d, flag: true };
    let record = Record { kind: a, position: [k, -k, 1.0], inner, last: b };
    let (both, pair, grid) = ([record, Record { kind: !a, ..record }], Pair { first: a, second: record }, [[b, 1, 2], [3, 4, b]]);
    let expected = [bytes_of(&record), bytes_of(&both), bytes_of(&pair), bytes_of(&grid)].concat();
    let mut out = stream.zeros::<u8>(expected.len())?;
    cx.kernels.echo_structs.launch(&stream, 1, (out.span_mut(), record, both, (a, record), grid))?;
    same(out.download(&stream)?, &expected);
    let prepared = cx.kernels.echo_structs.prepared((out.span_mut(), record, both, (a, record), grid))?;
    out.fill(&stream, 0)?;
    prepared.launch(&stream, 1)?;
    same(out.download(&stream)?, &expected);

    let (x, by) = (vec![k; LEN], Affine { scale: 3.0, shift: -1.5 });
    let mut y = stream.upload(&x)?;
    cx.kernels.transform.launch(&stream, LEN, (y.span_mut(), &by))?;
    same(y.download(&stream)?, reference::transform(&x, 3.0, -1.5));
    Ok(())
}

/// Red if long lists are cut or shifted.
fn many_parameters<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let mut out = stream.zeros::<u32>(1)?;
    let p = cx.data(39);
    let short = (
        out.span_mut(),
        p[0],
        p[1],
        p[2],
        p[3],
        p[4],
        p[5],
        p[6],
        p[7],
        p[8],
        p[9],
        p[10],
        p[11],
        p[12],
        p[13],
        p[14],
        p[15],
        p[16],
        p[17],
        p[18],
        p[19],
        p[20],
    );
    cx.kernels.many_22.launch(&stream, 1, short)?;
    same(out.download(&stream)?, [reference::weighted(&p[..21])]);
    let long = (
        out.span_mut(),
        p[0],
        p[1],
        p[2],
        p[3],
        p[4],
        p[5],
        p[6],
        p[7],
        p[8],
        p[9],
        p[10],
        p[11],
        p[12],
        p[13],
        p[14],
        p[15],
        p[16],
        p[17],
        p[18],
        p[19],
        p[20],
        p[21],
        p[22],
        p[23],
        p[24],
        p[25],
        p[26],
        p[27],
        p[28],
        p[29],
        p[30],
        p[31],
        p[32],
        p[33],
        p[34],
        p[35],
        p[36],
        p[37],
        p[38],
    );
    cx.kernels.many_40.prepared(long)?.launch(&stream, 1)?;
    same(out.download(&stream)?, [reference::weighted(&p)]);
    Ok(())
}

/// An argument whose conversion is refused.
struct Refused;

#[allow(unsafe_code, reason = "conversions are trusted")]
// SAFETY: it yields nothing.
unsafe impl<B: Backend> Convert<B> for Refused {
    type Repr = SpanMut<u32>;

    fn convert<'c>(self, _: &mut Conversion<'c, B>) -> Result<Self::Repr>
    where
        Self: 'c,
    {
        Err(Error::new(ErrorKind::InvalidArgument { what: "refused on purpose".into() }, "convert"))
    }
}

/// Red if accesses are recorded while converting, or a failed rebind leaves half of it.
fn failure_changes_nothing<B: Backend>(cx: &Context<B>) -> Result<()> {
    let stream = cx.stream()?;
    let data = cx.data(LEN);
    let (x, mut y) = (stream.upload(&data)?, stream.zeros::<u32>(LEN)?);
    let uses = x.recorded_uses();
    let mut copy = cx.kernels.copy.prepared((x.span(), y.span_mut()))?;
    let calls = cx.calls(|| {
        let refusals = [
            cx.kernels.copy.launch(&stream, LEN, (x.span(), Refused)),
            cx.kernels.copy.prepare((x.span(), Refused)).map(drop),
            copy.rebind::<1>(Refused),
        ];
        assert!(refusals.iter().all(Result::is_err));
        Ok(())
    })?;
    assert_eq!((calls.to_string().as_str(), x.recorded_uses()), ("nothing", uses));
    copy.launch(&stream, LEN)?;
    same(y.download(&stream)?, data);
    Ok(())
}
