//! Conversions of references: a struct with `#[derive(Convert)]` that is passed by `&` converts its fields by `&`, so whatever can be a
//! field is converted by reference too, and so are references to it.

use super::{Conversion, Convert, HasNull, Nullable, Pair, SpanOf, SpanOfMut};
use crate::Result;
use crate::backend::Backend;
use crate::buffer::{BufferSlice, BufferSliceMut};
use crate::memory::MemoryKind;

/// A conversion that hands over to another one.
macro_rules! forward {
    ($(($($generics:tt)*) $From:ty => $Repr:ty, |$this:ident| $into:expr, where ($($bounds:tt)*);)*) => {$(
        // SAFETY: the other conversion reports what is reached.
        unsafe impl<$($generics)*> Convert<B> for $From where $($bounds)* {
            type Repr = $Repr;

            #[inline]
            fn convert<'c>(self, cx: &mut Conversion<'c, B>) -> Result<Self::Repr>
            where
                Self: 'c,
            {
                let $this = self;
                $into.convert(cx)
            }
        }
    )*};
}

// What holds others converts each as it is borrowed itself.
forward! {
    ('a, B: Backend, A, const N: usize) &'a [A; N] => [<&'a A as Convert<B>>::Repr; N], |this| this.each_ref(), where (&'a A: Convert<B>);
    ('a, B: Backend, A, const N: usize) &'a mut [A; N] => [<&'a mut A as Convert<B>>::Repr; N], |this| this.each_mut(), where (&'a mut A: Convert<B>);
    ('a, B: Backend, F, S) &'a (F, S) => Pair<<&'a F as Convert<B>>::Repr, <&'a S as Convert<B>>::Repr>, |this| (&this.0, &this.1),
        where (&'a F: Convert<B>, &'a S: Convert<B>);
    ('a, B: Backend, F, S) &'a mut (F, S) => Pair<<&'a mut F as Convert<B>>::Repr, <&'a mut S as Convert<B>>::Repr>, |this| (&mut this.0, &mut this.1),
        where (&'a mut F: Convert<B>, &'a mut S: Convert<B>);
    ('a, B: Backend, A) &'a Option<A> => Nullable<<&'a A as Convert<B>>::Repr>, |this| this.as_ref(), where (&'a A: Convert<B, Repr: HasNull>);
    ('a, B: Backend, A) &'a mut Option<A> => Nullable<<&'a mut A as Convert<B>>::Repr>, |this| this.as_mut(), where (&'a mut A: Convert<B, Repr: HasNull>);
}

/// References to references. Behind a shared one, an exclusive one is shared.
macro_rules! nested {
    ($(($($generics:tt)*) $Type:ty;)*) => {$(
        forward! {
            ('s, 't, $($generics)*) &'s &'t $Type => <&'t $Type as Convert<B>>::Repr, |this| (*this), where (&'t $Type: Convert<B>);
            ('s, 't, $($generics)*) &'s &'t mut $Type => <&'s $Type as Convert<B>>::Repr, |this| (&**this), where (&'s $Type: Convert<B>);
            ('s, 't, $($generics)*) &'s mut &'t $Type => <&'t $Type as Convert<B>>::Repr, |this| (*this), where (&'t $Type: Convert<B>);
            ('s, 't, $($generics)*) &'s mut &'t mut $Type => <&'s mut $Type as Convert<B>>::Repr, |this| (&mut **this), where (&'s mut $Type: Convert<B>);
        }
    )*};
}

nested! {
    (B: Backend) u8; (B: Backend) u16; (B: Backend) u32;
    (B: Backend) u64; (B: Backend) u128; (B: Backend) usize;
    (B: Backend) i8; (B: Backend) i16; (B: Backend) i32;
    (B: Backend) i64; (B: Backend) i128; (B: Backend) isize;
    (B: Backend) f32; (B: Backend) f64; (B: Backend) bool;
    (B: Backend, A, const N: usize) [A; N];
    (B: Backend, F, S) (F, S);
    (B: Backend, A) Option<A>;
    ('v, B: Backend, T, M: MemoryKind) BufferSlice<'v, B, T, M>;
    ('v, B: Backend, T, M: MemoryKind) BufferSliceMut<'v, B, T, M>;
    ('v, B: Backend, T, M: MemoryKind) SpanOf<'v, B, T, M>;
    ('v, B: Backend, T, M: MemoryKind) SpanOfMut<'v, B, T, M>;
}
