//! What a conversion yields is trusted.

use polywarp_core::backend::Backend;
use polywarp_core::{Conversion, Convert, DevicePtr, Result};

struct Mine(DevicePtr<f32>);

impl<B: Backend> Convert<B> for Mine {
    type Repr = DevicePtr<f32>;

    fn convert<'c>(self, _: &mut Conversion<'c, B>) -> Result<DevicePtr<f32>>
    where
        Self: 'c,
    {
        Ok(self.0)
    }
}

fn main() {}
