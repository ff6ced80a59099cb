//! Pictures in and out.

use anyhow::{Context, Result, bail, ensure};
use image::codecs::png::PngEncoder;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits, RgbImage};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// The largest picture that is read, in pixels.
const MAX_PIXELS: u64 = 64_000_000;
/// What the decoder may allocate: eight bytes a pixel for the largest, and as much again to work with.
const MAX_DECODER_BYTES: u64 = 16 * MAX_PIXELS;

/// Reads a PNG or JPEG as eight bits each of red, green and blue.
///
/// Palettes are looked up, grey becomes three equal channels, 16 bits are rounded to 8, what is transparent shows white behind it, and an
/// orientation noted by a camera is applied.
pub(crate) fn read(path: &Path) -> Result<RgbImage> {
    decode(path).with_context(|| format!("cannot read {}", path.display()))
}

fn decode(path: &Path) -> Result<RgbImage> {
    let mut reader = ImageReader::open(path)?.with_guessed_format()?;
    if reader.format() == Some(ImageFormat::Jpeg) {
        ensure!(has_end(&fs::read(path)?), "the picture is cut off");
    }
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    // Nothing but the header has been decoded so far.
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    ensure!(pixels <= MAX_PIXELS, "the picture has {width} × {height} pixels; at most {MAX_PIXELS} are read");
    let orientation = decoder.orientation()?;
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(orientation);
    Ok(if picture.color().has_alpha() { on_white(picture) } else { picture.into_rgb8() })
}

/// Whether a JPEG has its end: the decoder paints what is missing grey and says nothing.
fn has_end(jpeg: &[u8]) -> bool {
    let mut rest = jpeg.get(2..).unwrap_or_default();
    // Up to the first scan there are segments that tell their length; in a scan, nothing but the end looks like the end.
    while let [0xff, marker, high, low, ..] = *rest {
        match marker {
            0xff => rest = &rest[1..],
            0xda => return rest.windows(2).any(|pair| pair == [0xff, 0xd9]),
            _ => rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default(),
        }
    }
    false
}

fn on_white(picture: DynamicImage) -> RgbImage {
    let rgba = picture.into_rgba8();
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [red, green, blue, alpha] = rgba.get_pixel(x, y).0.map(u32::from);
        image::Rgb([red, green, blue].map(|colour| ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8))
    })
}

/// Writes a grey PNG, whole or not at all: into a temporary file beside it, which then takes its name.
pub(crate) fn write(path: &Path, grey: &[u8], width: u32, height: u32) -> Result<()> {
    encode(path, grey, width, height).with_context(|| format!("cannot write {}", path.display()))
}

fn encode(path: &Path, grey: &[u8], width: u32, height: u32) -> Result<()> {
    if fs::metadata(path).is_ok_and(|present| !present.is_file()) {
        bail!("it exists and is not a file");
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = beside(folder)?;
    let mut writer = BufWriter::new(temporary.as_file());
    PngEncoder::new(&mut writer).write_image(grey, width, height, ExtendedColorType::L8)?;
    writer.flush()?;
    drop(writer);
    temporary.persist(path)?;
    Ok(())
}

/// A temporary file in this folder, with the permissions that files usually get; it is removed if nothing becomes of it.
fn beside(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.prefix(".edges-").suffix(".png").tempfile_in(folder)
}
