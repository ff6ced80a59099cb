//! The predicate of a kernel is safe code.

use polywarp_core::{kernels};

unsafe fn promise() -> bool {
    true
}

kernels! {
    /// Kernels.
    pub struct Set {
        /// A kernel.
        pub fn scale(a: f32), requires |_launch| promise();
    }
}

fn main() {}
