//! Comparing what came back with what should have.

use std::fmt::Debug;

/// Both are equal; otherwise the first difference is told, and not a thousand elements.
///
/// # Panics
/// If they differ.
#[track_caller]
pub(crate) fn same<T: PartialEq + Debug>(got: impl AsRef<[T]>, expected: impl AsRef<[T]>) {
    let (got, expected) = (got.as_ref(), expected.as_ref());
    assert_eq!(got.len(), expected.len(), "lengths differ");
    if let Some(index) = (0..got.len()).find(|&index| got[index] != expected[index]) {
        let wrong = (0..got.len()).filter(|&index| got[index] != expected[index]).count();
        panic!("element {index} is {:?}, expected {:?}; {wrong} of {} are wrong", got[index], expected[index], got.len());
    }
}
