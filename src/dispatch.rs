//! [`dispatch!`](macro@crate::dispatch): from an [`AnyBackend`](crate::AnyBackend) to generic code.
//!
//! A `cfg` inside an exported macro would be decided in the calling crate. So there is one macro per backend, in two versions of which the
//! features of this crate compile one: it adds the backend's arm, or none, and passes on to the next. The last makes the match.

/// Goes from an [`AnyBackend`](crate::AnyBackend) to generic code: the body is compiled once for each compiled-in backend, with `B` its type.
///
/// `dispatch!(any, |backend: B| body)` gives `body` what `any` is made of: the backend itself, or a reference to it if `any` is a
/// reference. Which backends there are is decided by the features of `polywarp`, not by those of the calling crate.
///
/// ```
/// use polywarp::{AnyBackend, Result, backend::Backend, dispatch};
///
/// fn devices<B: Backend>(backend: &B) -> Result<u32> {
///     backend.device_count()
/// }
///
/// fn devices_of_any(backend: &AnyBackend) -> Result<u32> {
///     dispatch!(backend, |backend: B| devices::<B>(backend))
/// }
/// # #[cfg(feature = "host")]
/// assert_eq!(devices_of_any(&polywarp::open("host")?)?, 1);
/// # Ok::<(), polywarp::Error>(())
/// ```
#[macro_export]
macro_rules! dispatch {
    ($any:expr, |$backend:ident: $B:ident| $body:expr) => {
        $crate::__dispatch_host!([$any, $backend, $B, $body])
    };
}

#[cfg(feature = "host")]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_host {
    ([$any:expr, $backend:ident, $B:ident, $body:expr] $($arms:tt)*) => {
        $crate::__dispatch_cuda!([$any, $backend, $B, $body] $($arms)* $crate::AnyBackend::Host($backend) => {
            #[allow(dead_code)]
            type $B = $crate::host::Host;
            $body
        })
    };
}
#[cfg(not(feature = "host"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_host {
    ($($all:tt)*) => { $crate::__dispatch_cuda!($($all)*) };
}

#[cfg(feature = "cuda")]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_cuda {
    ([$any:expr, $backend:ident, $B:ident, $body:expr] $($arms:tt)*) => {
        $crate::__dispatch_hip!([$any, $backend, $B, $body] $($arms)* $crate::AnyBackend::Cuda($backend) => {
            #[allow(dead_code)]
            type $B = $crate::cuda::Cuda;
            $body
        })
    };
}
#[cfg(not(feature = "cuda"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_cuda {
    ($($all:tt)*) => { $crate::__dispatch_hip!($($all)*) };
}

#[cfg(feature = "hip")]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_hip {
    ([$any:expr, $backend:ident, $B:ident, $body:expr] $($arms:tt)*) => {
        $crate::__dispatch_match!([$any, $backend, $B, $body] $($arms)* $crate::AnyBackend::Hip($backend) => {
            #[allow(dead_code)]
            type $B = $crate::hip::Hip;
            $body
        })
    };
}
#[cfg(not(feature = "hip"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_hip {
    ($($all:tt)*) => { $crate::__dispatch_match!($($all)*) };
}

#[cfg(any(feature = "host", feature = "cuda", feature = "hip"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_match {
    ([$any:expr, $backend:ident, $B:ident, $body:expr] $($arms:tt)*) => {
        match $any {
            $($arms)*
        }
    };
}
#[cfg(not(any(feature = "host", feature = "cuda", feature = "hip")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_match {
    ([$any:expr, $backend:ident, $B:ident, $body:expr]) => {
        $any.absent()
    };
}

#[cfg(not(any(feature = "host", feature = "cuda", feature = "hip")))]
impl crate::AnyBackend {
    /// There is no backend, hence no value.
    #[doc(hidden)]
    pub fn absent(&self) -> ! {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use crate::AnyBackend;
    use polywarp_core::backend::Backend;

    /// Generic over the backend, as applications are.
    #[cfg_attr(
        not(any(feature = "host", feature = "cuda", feature = "hip")),
        allow(dead_code, reason = "the body is compiled for no backend then")
    )]
    fn name_of<B: Backend>(backend: &B) -> (&'static str, &'static str) {
        (backend.name(), std::any::type_name::<B>())
    }

    fn by_reference(any: &AnyBackend) -> (&'static str, &'static str) {
        dispatch!(any, |backend: B| name_of::<B>(backend))
    }

    fn by_value(any: AnyBackend) -> Box<dyn std::any::Any> {
        dispatch!(any, |backend: B| Box::<B>::new(backend))
    }

    #[test]
    fn the_body_is_compiled_for_the_backend_itself() {
        for any in crate::compiled_in().filter_map(AnyBackend::named) {
            let (name, type_name) = by_reference(&any);
            assert_eq!((name, type_name.to_lowercase().ends_with(name)), (any.name(), true));
            assert!(!by_value(any).is::<AnyBackend>());
        }
    }
}
