//! What becomes of pictures that are not eight bits each of red, green and blue.

use crate::picture;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use png::{BitDepth, ColorType};
use std::fs;

fn read(bytes: &[u8]) -> image::RgbImage {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture");
    fs::write(&path, bytes).unwrap();
    picture::read(&path).unwrap()
}

/// What is read of a PNG of one row.
fn read_png(
    color: ColorType,
    depth: BitDepth,
    width: u32,
    row: &[u8],
    prepare: impl FnOnce(&mut png::Encoder<'_, &mut Vec<u8>>),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, 1);
    encoder.set_color(color);
    encoder.set_depth(depth);
    prepare(&mut encoder);
    encoder.write_header().unwrap().write_image_data(row).unwrap();
    read(&bytes).into_raw()
}

#[test]
fn grey_becomes_three_equal_channels() {
    assert_eq!(read_png(ColorType::Grayscale, BitDepth::Eight, 2, &[7, 200], |_| {}), [7, 7, 7, 200, 200, 200]);
    assert_eq!(read_png(ColorType::Grayscale, BitDepth::One, 3, &[0b1010_0000], |_| {}), [255, 255, 255, 0, 0, 0, 255, 255, 255]);
}

#[test]
fn sixteen_bits_are_rounded_to_eight() {
    // 0x1280 / 257 = 18.4…, 0x12ff / 257 = 18.9…
    let row = [0x12, 0x80, 0x12, 0xff, 0xff, 0xff];
    assert_eq!(read_png(ColorType::Rgb, BitDepth::Sixteen, 1, &row, |_| {}), [18, 19, 255]);
    assert_eq!(read_png(ColorType::Grayscale, BitDepth::Sixteen, 1, &row[..2], |_| {}), [18; 3]);
}

#[test]
fn palettes_are_looked_up() {
    let palette = |encoder: &mut png::Encoder<'_, &mut Vec<u8>>| encoder.set_palette([1, 2, 3, 40, 50, 60].as_slice());
    assert_eq!(read_png(ColorType::Indexed, BitDepth::Eight, 2, &[1, 0], palette), [40, 50, 60, 1, 2, 3]);
    let transparent = |encoder: &mut png::Encoder<'_, &mut Vec<u8>>| {
        encoder.set_palette([1, 2, 3, 40, 50, 60].as_slice());
        encoder.set_trns([255, 0].as_slice());
    };
    assert_eq!(read_png(ColorType::Indexed, BitDepth::Eight, 2, &[1, 0], transparent), [255, 255, 255, 1, 2, 3]);
}

#[test]
fn what_is_transparent_shows_white() {
    let row = [10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 255, 51];
    assert_eq!(read_png(ColorType::Rgba, BitDepth::Eight, 3, &row, |_| {}), [10, 20, 30, 255, 255, 255, 204, 224, 255]);
    assert_eq!(read_png(ColorType::GrayscaleAlpha, BitDepth::Eight, 2, &[9, 255, 9, 0], |_| {}), [9, 9, 9, 255, 255, 255]);
}

#[test]
fn an_orientation_is_applied() {
    // A TIFF header, one entry: orientation (0x112), one short, 6: turned by 90°.
    let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
    let (mut png, mut jpeg) = (Vec::new(), Vec::new());
    let mut encoder = PngEncoder::new(&mut png);
    encoder.set_exif_metadata(exif.clone()).unwrap();
    encoder.write_image(&[1, 2, 3, 4, 5, 6], 2, 1, ExtendedColorType::Rgb8).unwrap();
    assert_eq!((read(&png).dimensions(), read(&png).into_raw()), ((1, 2), vec![1, 2, 3, 4, 5, 6]));
    let mut encoder = JpegEncoder::new(&mut jpeg);
    encoder.set_exif_metadata(exif).unwrap();
    encoder.write_image(&[99; 6], 2, 1, ExtendedColorType::Rgb8).unwrap();
    assert_eq!(read(&jpeg).dimensions(), (1, 2));
}
