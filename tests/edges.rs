//! The example `edges`: its pipeline against a plain computation of the same definition, and its command line.

#![cfg(feature = "host")]

#[path = "../examples/edges/kernels.rs"]
mod kernels;
#[path = "../examples/edges/picture.rs"]
#[allow(dead_code, reason = "the tests write no pictures through it")]
mod picture;
#[path = "../examples/edges/pipeline.rs"]
mod pipeline;

#[path = "edges/command_line.rs"]
mod command_line;
#[path = "edges/pictures.rs"]
mod pictures;
#[path = "edges/reference.rs"]
mod reference;

use pipeline::Pipeline;
use polywarp::host::{Host, HostConfig};
use polywarp::{Device, ErrorKind, LaunchConfig, Runtime};
use std::path::Path;

fn device(devices: u32, ordinal: u32) -> Device<Host> {
    Runtime::new(Host::new(&HostConfig::new(devices))).unwrap().device(ordinal).unwrap()
}

fn edges(device: &Device<Host>, rgb: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut pipeline = Pipeline::new(device, width, height).unwrap();
    pipeline.upload(rgb).unwrap();
    pipeline.run().unwrap();
    pipeline.download().unwrap()
}

/// A seeded picture in `levels` shades: with few of them, magnitudes are often equal.
fn random(width: u32, height: u32, levels: u8) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(width) << 40 | u64::from(height) << 8 | u64::from(levels));
    let shade = 255 / (levels - 1);
    (0..3 * width * height).map(|_| random.u8(0..levels) * shade).collect()
}

fn assert_equal(device: &Device<Host>, rgb: &[u8], width: u32, height: u32) {
    let (got, expected) = (edges(device, rgb, width, height), reference::edges(rgb, width as usize, height as usize));
    let first = got.iter().zip(&expected).position(|(got, expected)| got != expected);
    assert!(got.len() == expected.len() && first.is_none(), "{width} × {height}: first difference at pixel {first:?}");
}

fn photograph() -> image::RgbImage {
    picture::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/chelsea.png"))).unwrap()
}

#[test]
fn pictures_of_all_small_sizes_give_the_reference_bits() {
    let device = device(1, 0);
    for (width, height) in (1..=7).flat_map(|width| (1..=7).map(move |height| (width, height))) {
        for levels in [2, 4, 255] {
            assert_equal(&device, &random(width, height, levels), width, height);
        }
    }
}

#[test]
fn lines_and_odd_sizes_give_the_reference_bits() {
    let device = device(1, 0);
    for (width, height) in
        [(1, 1000), (1000, 1), (2, 257), (257, 2), (3, 511), (16, 16), (17, 31), (127, 61), (256, 2), (255, 3), (211, 199)]
    {
        for levels in [2, 3, 255] {
            assert_equal(&device, &random(width, height, levels), width, height);
        }
    }
}

#[test]
fn smooth_pictures_give_the_reference_bits() {
    let device = device(1, 0);
    let (width, height) = (97u32, 83u32);
    let pictures: [fn(u32, u32) -> u32; 6] = [
        |_, _| 0,
        |_, _| 255,
        |x, _| 2 * x,
        |x, y| x + y,
        |x, y| x.abs_diff(48).pow(2) / 16 + y.abs_diff(41).pow(2) / 16,
        |x, y| 255 * u32::from(x.abs_diff(48) < 20 && y.abs_diff(41) < 30),
    ];
    for picture in pictures {
        let shades = (0..height).flat_map(|y| (0..width).map(move |x| picture(x, y).min(255) as u8));
        assert_equal(&device, &shades.flat_map(|shade| [shade; 3]).collect::<Vec<_>>(), width, height);
    }
}

#[test]
fn the_photograph_gives_the_reference_bits_on_the_last_of_two_devices() {
    let photograph = photograph();
    assert_equal(&device(2, 1), &photograph, photograph.width(), photograph.height());
}

#[test]
fn runs_that_overwrite_what_the_last_one_reads_give_the_same_bits() {
    let (device, photograph) = (device(1, 0), photograph());
    let (width, height) = photograph.dimensions();
    let expected = reference::edges(&photograph, width as usize, height as usize);
    let mut pipeline = Pipeline::new(&device, width, height).unwrap();
    for _ in 0..5 {
        // Left over from another picture, a wrong order would show.
        pipeline.upload(&random(width, height, 255)).unwrap();
        pipeline.run().unwrap();
        pipeline.upload(&photograph).unwrap();
        for _ in 0..3 {
            pipeline.run().unwrap();
        }
        assert!(pipeline.download().unwrap() == expected);
    }
}

#[test]
fn a_picture_of_another_size_is_refused() {
    let mut pipeline = Pipeline::new(&device(1, 0), 5, 4).unwrap();
    assert!(pipeline.upload(&random(5, 5, 2)).is_err());
}

#[test]
fn launches_that_do_not_fit_are_refused_before_they_run() {
    let device = device(1, 0);
    let (kernels, stream) = (kernels::load(&device).unwrap(), device.stream().unwrap());
    let (sums, mut smooth) = (stream.zeros::<u16>(20).unwrap(), stream.zeros::<u8>(20).unwrap());
    // A width that divides neither, none at all, and one row more above than there is.
    for (width, above) in [(7, 0), (0, 0), (5, 1), (u32::MAX, u32::MAX)] {
        let refused = kernels.blur_columns.launch(&stream, 20, (sums.span(), smooth.span_mut(), width, above)).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::RequirementFailed { .. }), "{refused}");
    }
    // Two threads for each pixel.
    let doubled = kernels.blur_columns.launch(&stream, LaunchConfig::new([1, 2], 20), (sums.span(), smooth.span_mut(), 5, 0)).unwrap_err();
    assert!(matches!(doubled.kind(), ErrorKind::RequirementFailed { .. }), "{doubled}");
    kernels.blur_columns.launch(&stream, 20, (sums.span(), smooth.span_mut(), 5, 0)).unwrap();
    assert_eq!(smooth.download(&stream).unwrap(), [0; 20]);
}
