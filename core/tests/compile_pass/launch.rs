//! The smallest program.

use polywarp_core::doctest::axpy;

fn main() -> polywarp_core::Result<()> {
    let (device, axpy) = axpy()?;
    let stream = device.stream()?;
    let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    axpy.launch(&stream, 4, (x.span(), y.span_mut(), 10.0))?;
    assert_eq!(y.download(&stream)?, [12.0; 4]);
    Ok(())
}
