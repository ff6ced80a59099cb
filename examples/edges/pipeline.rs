//! The stages on two streams, converted once and launched many times.

use super::kernels;
use polywarp::backend::Backend;
use polywarp::{Buffer, Device, Parameters, Prepared, Result, Span, SpanMut, Stream};
use std::ops::Range;

/// Rows that a kernel reads beyond its band, on each side.
const BLUR_HALO: usize = 2;
const GRADIENT_HALO: usize = 1;

/// A stage: its launch for the upper half of the image, and for the lower.
type Stage<B, P> = [Prepared<B, P>; 2];

/// The way from a picture to its edges, for pictures of one size.
///
/// The upper half of the rows is computed on one stream and the lower half on another. Each stage reads a few rows of the other half, the
/// halo, which the other stream wrote one stage before: memory that orders itself makes it wait for just that. There is no event and no
/// wait of the host in here, neither between the stages nor between one run and the next, which overwrites what the last one still reads.
pub(crate) struct Pipeline<B: Backend> {
    streams: [Stream<B>; 2],
    /// Pixels of each half: the threads of each launch.
    pixels: [usize; 2],
    rgb: Buffer<B, u8>,
    edges: Buffer<B, u8>,
    luma: Stage<B, (Span<u8>, SpanMut<u8>)>,
    blur_rows: Stage<B, (Span<u8>, SpanMut<u16>, u32)>,
    blur_columns: Stage<B, (Span<u16>, SpanMut<u8>, u32, u32)>,
    gradient: Stage<B, (Span<u8>, SpanMut<u16>, SpanMut<u8>, u32, u32)>,
    thin: Stage<B, (Span<u16>, Span<u8>, SpanMut<u8>, u32, u32)>,
}

impl<B: Backend> Pipeline<B> {
    /// Loads the kernels, allocates what they need, and converts their arguments.
    pub(crate) fn new(device: &Device<B>, width: u32, height: u32) -> Result<Self> {
        let kernels = kernels::load(device)?;
        let bands = halves(width as usize, height as usize);
        let pixels = width as usize * height as usize;
        let rgb = device.alloc(3 * pixels)?;
        let (mut grey, mut sums, mut smooth) = (device.alloc(pixels)?, device.alloc(pixels)?, device.alloc(pixels)?);
        let (mut magnitude, mut direction, mut edges) = (device.alloc(pixels)?, device.alloc(pixels)?, device.alloc(pixels)?);
        // The prepared launches share in the buffers that they use: those that nothing else refers to live as long as they do.
        Ok(Self {
            streams: [device.stream()?, device.stream()?],
            pixels: bands.each_ref().map(|band| band.pixels().len()),
            luma: stage(&bands, |band| {
                let Range { start, end } = band.pixels();
                kernels.luma.prepared((rgb.slice(3 * start..3 * end)?.span(), grey.slice_mut(band.pixels())?.span_mut()))
            })?,
            blur_rows: stage(&bands, |band| {
                kernels.blur_rows.prepared((grey.slice(band.pixels())?.span(), sums.slice_mut(band.pixels())?.span_mut(), width))
            })?,
            blur_columns: stage(&bands, |band| {
                let (view, above) = band.with_halo(BLUR_HALO);
                kernels.blur_columns.prepared((sums.slice(view)?.span(), smooth.slice_mut(band.pixels())?.span_mut(), width, above))
            })?,
            gradient: stage(&bands, |band| {
                let (view, above) = band.with_halo(GRADIENT_HALO);
                let (magnitude, direction) = (magnitude.slice_mut(band.pixels())?, direction.slice_mut(band.pixels())?);
                kernels.gradient.prepared((smooth.slice(view)?.span(), magnitude.span_mut(), direction.span_mut(), width, above))
            })?,
            thin: stage(&bands, |band| {
                let (view, above) = band.with_halo(GRADIENT_HALO);
                let (magnitude, direction) = (magnitude.slice(view)?, direction.slice(band.pixels())?);
                kernels.thin.prepared((magnitude.span(), direction.span(), edges.slice_mut(band.pixels())?.span_mut(), width, above))
            })?,
            rgb,
            edges,
        })
    }

    /// Sets the picture: red, green and blue of each pixel, row by row.
    pub(crate) fn upload(&mut self, rgb: &[u8]) -> Result<()> {
        self.rgb.upload(&self.streams[0], rgb)
    }

    /// Submits all stages; does not wait for them. What reads a row comes after what was submitted earlier to write it, on whichever
    /// stream: so each stage is submitted for both halves before the next.
    pub(crate) fn run(&self) -> Result<()> {
        self.launch(&self.luma)?;
        self.launch(&self.blur_rows)?;
        self.launch(&self.blur_columns)?;
        self.launch(&self.gradient)?;
        self.launch(&self.thin)
    }

    fn launch<P: Parameters>(&self, stage: &Stage<B, P>) -> Result<()> {
        let mut halves = self.streams.iter().zip(self.pixels).zip(stage);
        halves.try_for_each(|((stream, pixels), half)| half.launch(stream, pixels))
    }

    /// The edges that the last run found, a byte per pixel.
    pub(crate) fn download(&self) -> Result<Vec<u8>> {
        self.edges.download(&self.streams[0])
    }
}

fn stage<B: Backend, P: Parameters>(bands: &[Band; 2], mut prepare: impl FnMut(&Band) -> Result<Prepared<B, P>>) -> Result<Stage<B, P>> {
    let [upper, lower] = bands;
    Ok([prepare(upper)?, prepare(lower)?])
}

/// Some rows of an image.
struct Band {
    rows: Range<usize>,
    width: usize,
    height: usize,
}

/// The upper and the lower half; of a single row, all and nothing.
fn halves(width: usize, height: usize) -> [Band; 2] {
    let middle = height.div_ceil(2);
    [0..middle, middle..height].map(|rows| Band { rows, width, height })
}

impl Band {
    /// Its pixels among those of the image.
    fn pixels(&self) -> Range<usize> {
        self.rows.start * self.width..self.rows.end * self.width
    }

    /// The same with so many rows more on each side, as far as the image has them, and how many were added above.
    fn with_halo(&self, rows: usize) -> (Range<usize>, u32) {
        let first = self.rows.start.saturating_sub(rows);
        let end = (self.rows.end + rows).min(self.height);
        (first * self.width..end * self.width, (self.rows.start - first) as u32)
    }
}
