//! The kernels, in integers throughout, so that every backend must give the same bits.
//!
//! A launch computes a band of rows. Its input is the band itself or, where a kernel looks at neighbours, a view that has up to two more
//! rows on each side, as far as the image has them: so where the view ends without them, the image ends. `above` counts those before the band.
//!
//! | kernel | formula | source |
//! |---|---|---|
//! | `luma` | (299 R + 587 G + 114 B + 500) / 1000, rounded down | ITU-R BT.601, section 2.5.1: 0.299 R + 0.587 G + 0.114 B |
//! | `blur_rows`, `blur_columns` | weights 1 4 6 4 1 along each axis; the sum of both, plus 128, / 256, rounded down | binomial filter, a Gaussian of variance 1; Burt and Adelson 1983 with a = 3/8 |
//! | `gradient` | 3 × 3 Sobel; magnitude \|gx\| + \|gy\|; direction to the nearest 45° | Sobel and Feldman 1968; Canny 1986 |
//! | `thin` | a pixel stays if it exceeds its neighbour against the direction and is not below the one along it | non-maximum suppression, Canny 1986 |
//!
//! The blur and the gradient continue the image beyond its border with the border's pixels. Beyond the border every magnitude is 0.

use polywarp::backend::Backend;
use polywarp::{Device, HostSpan, HostSpanMut, KernelSet, Module, Parameters, Program, Proposal, Result, Span, SpanMut, Thread, kernels};

kernels! {
    /// The stages from a picture to its edges.
    pub(crate) struct Edges {
        /// Grey from red, green, blue.
        pub(crate) fn luma(rgb: Span<u8>, grey: SpanMut<u8>) = luma,
            requires |launch| is_line(launch) && launch.bytes::<0>() == 3 * launch.bytes::<1>();
        /// Weighted sums along each row.
        pub(crate) fn blur_rows(grey: Span<u8>, sums: SpanMut<u16>, width: u32) = blur_rows,
            requires |launch| is_line(launch) && is_band(launch.value::<1>().len(), launch.value::<0>().len(), launch.value::<2>(), 0);
        /// Weighted means of those sums along each column.
        pub(crate) fn blur_columns(sums: Span<u16>, smooth: SpanMut<u8>, width: u32, above: u32) = blur_columns,
            requires |launch| is_line(launch) && is_band(launch.value::<1>().len(), launch.value::<0>().len(), launch.value::<2>(), launch.value::<3>());
        /// How steep the image is, and where to.
        pub(crate) fn gradient(smooth: Span<u8>, magnitude: SpanMut<u16>, direction: SpanMut<u8>, width: u32, above: u32) = gradient,
            requires |launch| is_line(launch) && launch.value::<1>().len() == launch.value::<2>().len()
                && is_band(launch.value::<1>().len(), launch.value::<0>().len(), launch.value::<3>(), launch.value::<4>());
        /// The crests of the magnitude, at most 255.
        pub(crate) fn thin(magnitude: Span<u16>, direction: Span<u8>, edges: SpanMut<u8>, width: u32, above: u32) = thin,
            requires |launch| is_line(launch) && launch.value::<1>().len() == launch.value::<2>().len()
                && is_band(launch.value::<2>().len(), launch.value::<0>().len(), launch.value::<3>(), launch.value::<4>());
    }
}

/// Loads and binds them.
#[allow(unsafe_code, reason = "binding promises what the compiler cannot check in kernels of any backend")]
pub(crate) fn load<B: Backend>(device: &Device<B>) -> Result<Edges<B>> {
    let module = Module::load(device, &<Edges<B>>::host(Program::new("edges")))?;
    // SAFETY: all of them go through spans, which check bounds, and each thread writes only the element of its own index along x, which
    // no other thread has where `is_line` holds.
    unsafe { Edges::bind(&module) }
}

/// Whether the threads lie along x alone.
fn is_line<S: Parameters>(launch: &Proposal<'_, S>) -> bool {
    let geometry = launch.geometry();
    geometry.grid[1..] == [1, 1] && geometry.block[1..] == [1, 1]
}

/// Whether a band of so many pixels lies in a view of so many, `above` rows from its start.
fn is_band(band: u64, view: u64, width: u32, above: u32) -> bool {
    let width = u64::from(width);
    width > 0 && band.is_multiple_of(width) && view.is_multiple_of(width) && band / width + u64::from(above) <= view / width
}

/// A thread's pixel in the view that its kernel reads.
struct Pixel {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl Pixel {
    /// Pixel `index` of a band that begins `above` rows from the start of the view.
    fn new(index: usize, view: usize, width: u32, above: u32) -> Self {
        let width = width as usize;
        Self { x: index % width, y: index / width + above as usize, width, height: view / width }
    }

    /// Where the pixel at this distance is found, if it is in the image.
    fn neighbour(&self, dx: isize, dy: isize) -> Option<usize> {
        let x = self.x.checked_add_signed(dx).filter(|&x| x < self.width)?;
        let y = self.y.checked_add_signed(dy).filter(|&y| y < self.height)?;
        Some(y * self.width + x)
    }

    /// Where the pixel at this distance is found, or the image's nearest to it.
    fn nearest(&self, dx: isize, dy: isize) -> usize {
        let x = self.x.saturating_add_signed(dx).min(self.width - 1);
        let y = self.y.saturating_add_signed(dy).min(self.height - 1);
        y * self.width + x
    }
}

fn luma(thread: &Thread<'_>, rgb: HostSpan<'_, u8>, grey: HostSpanMut<'_, u8>) {
    let Some(index) = thread.within(grey.len()) else { return };
    let [red, green, blue] = [0, 1, 2].map(|channel| u32::from(rgb.load(3 * index + channel)));
    grey.store(index, ((299 * red + 587 * green + 114 * blue + 500) / 1000) as u8);
}

/// The taps of the blur: distance and weight. The weights add up to 16.
const TAPS: [(isize, u16); 5] = [(-2, 1), (-1, 4), (0, 6), (1, 4), (2, 1)];

fn blur_rows(thread: &Thread<'_>, grey: HostSpan<'_, u8>, sums: HostSpanMut<'_, u16>, width: u32) {
    let Some(index) = thread.within(sums.len()) else { return };
    let pixel = Pixel::new(index, grey.len(), width, 0);
    // At most 16 · 255; nothing is rounded before the other axis is added.
    sums.store(index, TAPS.iter().map(|&(dx, weight)| weight * u16::from(grey.load(pixel.nearest(dx, 0)))).sum());
}

fn blur_columns(thread: &Thread<'_>, sums: HostSpan<'_, u16>, smooth: HostSpanMut<'_, u8>, width: u32, above: u32) {
    let Some(index) = thread.within(smooth.len()) else { return };
    let pixel = Pixel::new(index, sums.len(), width, above);
    let sum: u32 = TAPS.iter().map(|&(dy, weight)| u32::from(weight) * u32::from(sums.load(pixel.nearest(0, dy)))).sum();
    smooth.store(index, ((sum + 128) / 256) as u8);
}

/// One step along each direction that [`gradient`] tells apart; y grows downwards.
const STEPS: [(isize, isize); 4] = [(1, 0), (1, 1), (0, 1), (-1, 1)];

fn gradient(
    thread: &Thread<'_>,
    smooth: HostSpan<'_, u8>,
    magnitude: HostSpanMut<'_, u16>,
    direction: HostSpanMut<'_, u8>,
    width: u32,
    above: u32,
) {
    let Some(index) = thread.within(magnitude.len()) else { return };
    let pixel = Pixel::new(index, smooth.len(), width, above);
    let at = |dx, dy| i32::from(smooth.load(pixel.nearest(dx, dy)));
    let gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    let gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    let sum = gx.abs() + gy.abs();
    // tan 22.5° = √2 − 1, so the gradient is within 22.5° of the x axis if |gy| < (√2 − 1) |gx|, that is, if (|gx| + |gy|)² < 2 gx².
    let sector = match sum * sum {
        square if square < 2 * gx * gx => 0,
        square if square < 2 * gy * gy => 2,
        _ if (gx < 0) == (gy < 0) => 1,
        _ => 3,
    };
    magnitude.store(index, sum as u16);
    direction.store(index, sector);
}

fn thin(
    thread: &Thread<'_>,
    magnitude: HostSpan<'_, u16>,
    direction: HostSpan<'_, u8>,
    edges: HostSpanMut<'_, u8>,
    width: u32,
    above: u32,
) {
    let Some(index) = thread.within(edges.len()) else { return };
    let pixel = Pixel::new(index, magnitude.len(), width, above);
    let (dx, dy) = STEPS[usize::from(direction.load(index))];
    let at = |dx, dy| pixel.neighbour(dx, dy).map_or(0, |place| magnitude.load(place));
    let here = at(0, 0);
    // Of a crest two pixels wide, one stays.
    let is_crest = here > at(-dx, -dy) && here >= at(dx, dy);
    edges.store(index, if is_crest { here.min(255) as u8 } else { 0 });
}
