//! What the kernels compute, on the CPU.

/// a·x + y.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::axpy(&[1.0, 2.0], &[10.0, 20.0], 3.0), [13.0, 26.0]);
/// ```
#[must_use]
pub fn axpy(x: &[f32], y: &[f32], a: f32) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| a * x + y).collect()
}

/// x + y, wrapping.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::add(&[1, u32::MAX], &[2, 2]), [3, 1]);
/// ```
#[must_use]
pub fn add(x: &[u32], y: &[u32]) -> Vec<u32> {
    x.iter().zip(y).map(|(x, y)| x.wrapping_add(*y)).collect()
}

/// Every element more by `by`, wrapping.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::add_each(&[1, u32::MAX], 1), [2, 0]);
/// ```
#[must_use]
pub fn add_each(x: &[u32], by: u32) -> Vec<u32> {
    x.iter().map(|x| x.wrapping_add(by)).collect()
}

/// The sum, wrapping.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::sum(&[u32::MAX, 1, 5]), 5);
/// ```
#[must_use]
pub fn sum(x: &[u32]) -> u32 {
    x.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

/// scale · x + shift.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::transform(&[1.0, 2.0], 10.0, 0.5), [10.5, 20.5]);
/// ```
#[must_use]
pub fn transform(x: &[f32], scale: f32, shift: f32) -> Vec<f32> {
    x.iter().map(|x| scale * x + shift).collect()
}

/// The sum of (i + 1) · value i, wrapping.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::weighted(&[5, 6, 7]), 5 + 2 * 6 + 3 * 7);
/// ```
#[must_use]
pub fn weighted(values: &[u32]) -> u32 {
    values.iter().zip(1u32..).fold(0, |sum, (value, weight)| sum.wrapping_add(value.wrapping_mul(weight)))
}

/// first + 2 · second + 3 · third + rest, wrapping.
///
/// ```
/// use polywarp_conformance::kernels::reference;
/// assert_eq!(reference::deep(&[1], &[2], &[3], 100), [1 + 4 + 9 + 100]);
/// ```
#[must_use]
pub fn deep(first: &[u32], second: &[u32], third: &[u32], rest: u32) -> Vec<u32> {
    let all = first.iter().zip(second).zip(third);
    all.map(|((a, b), c)| a.wrapping_add(b.wrapping_mul(2)).wrapping_add(c.wrapping_mul(3)).wrapping_add(rest)).collect()
}
