//! What arguments yield is trusted, so implementing the traits is `unsafe`.

use polywarp_core::host::Host;
use polywarp_core::{Argument, Arguments, Conversion, DevicePtrMut, Result};

struct Stashed(DevicePtrMut<f32>);

impl Argument<Host, DevicePtrMut<f32>> for Stashed {
    fn put<'c>(self, _: &mut Conversion<'c, Host>) -> Result<DevicePtrMut<f32>>
    where
        Self: 'c,
    {
        Ok(self.0)
    }
}

impl Arguments<Host, (DevicePtrMut<f32>,)> for Stashed {
    type Parameters = (DevicePtrMut<f32>,);

    fn convert_all<'c>(self, _: &mut Conversion<'c, Host>) -> Result<Self::Parameters>
    where
        Self: 'c,
    {
        Ok((self.0,))
    }
}

fn main() {}
