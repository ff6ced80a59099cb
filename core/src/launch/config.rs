//! How many threads, in which shape: checked against every limit before the backend is called.

use crate::backend::{FunctionInfo, Geometry, Limits};
use crate::{Error, ErrorKind, Result};

/// The shape of a launch: blocks of a grid, threads of a block, dynamic shared memory.
///
/// Axes left out are 1. A grid with a zero axis is no work: the launch succeeds and does nothing. Everything is checked before the driver is
/// called; the error names the axis, what was asked and the limit.
///
/// ```
/// use polywarp_core::LaunchConfig;
/// let config = LaunchConfig::for_elements(1000);                    // 4 blocks of 256 threads
/// assert_eq!((config.grid(), config.block()), ([4, 1, 1], [256, 1, 1]));
/// let image = LaunchConfig::for_area(640, 480);                     // 16 × 16 threads a block
/// assert_eq!((image.grid(), image.block()), ([40, 30, 1], [16, 16, 1]));
/// let exact = LaunchConfig::new([8, 2], [32, 4]).shared_bytes(1024);
/// assert_eq!(exact.block(), [32, 4, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct LaunchConfig {
    grid: [u64; 3],
    block: [u32; 3],
    shared_bytes: u32,
    cooperative: bool,
    cluster: [u32; 3],
}

/// One to three axes: a number, or an array of up to three.
///
/// ```
/// use polywarp_core::Axes;
/// assert_eq!((7.axes(), [7, 2].axes()), ([7, 1, 1], [7, 2, 1]));
/// ```
pub trait Axes {
    /// All three; those left out are 1.
    fn axes(self) -> [u32; 3];
}

impl Axes for u32 {
    fn axes(self) -> [u32; 3] {
        [self, 1, 1]
    }
}

impl Axes for [u32; 1] {
    fn axes(self) -> [u32; 3] {
        [self[0], 1, 1]
    }
}

impl Axes for [u32; 2] {
    fn axes(self) -> [u32; 3] {
        [self[0], self[1], 1]
    }
}

impl Axes for [u32; 3] {
    fn axes(self) -> [u32; 3] {
        self
    }
}

/// Threads of a block where nothing else is said.
const BLOCK: u32 = 256;

/// The same per axis of an area.
const TILE: u32 = 16;

const AXES: [char; 3] = ['x', 'y', 'z'];

impl LaunchConfig {
    /// So many blocks of so many threads.
    ///
    /// ```
    /// use polywarp_core::LaunchConfig;
    /// assert_eq!(LaunchConfig::new(4, 64).grid(), [4, 1, 1]);     // one axis is a number, more are an array
    /// assert_eq!(LaunchConfig::new([4, 2], [8, 8, 8]).block(), [8, 8, 8]);
    /// ```
    pub fn new(grid: impl Axes, block: impl Axes) -> Self {
        Self { grid: grid.axes().map(u64::from), block: block.axes(), shared_bytes: 0, cooperative: false, cluster: [1; 3] }
    }

    /// At least one thread per element, in blocks of 256. The kernel skips threads past the end.
    ///
    /// ```
    /// use polywarp_core::LaunchConfig;
    /// assert_eq!(LaunchConfig::for_elements(257).grid(), [2, 1, 1]);      // a ragged end: the second block has one element
    /// assert_eq!(LaunchConfig::for_elements(0).grid(), [0, 1, 1]);        // no work, which is a success
    /// assert_eq!(LaunchConfig::from(257), LaunchConfig::for_elements(257));   // launches take a plain count too
    /// ```
    pub const fn for_elements(count: usize) -> Self {
        let grid = [(count as u64).div_ceil(BLOCK as u64), 1, 1];
        Self { grid, block: [BLOCK, 1, 1], shared_bytes: 0, cooperative: false, cluster: [1; 3] }
    }

    /// At least one thread per element of an area, in blocks of 16 × 16. The kernel skips threads past the edges.
    ///
    /// ```
    /// use polywarp_core::LaunchConfig;
    /// assert_eq!(LaunchConfig::for_area(17, 16).grid(), [2, 1, 1]);
    /// assert_eq!(LaunchConfig::for_area(17, 16).threads(), 2 * 16 * 16);
    /// ```
    pub const fn for_area(width: usize, height: usize) -> Self {
        let grid = [(width as u64).div_ceil(TILE as u64), (height as u64).div_ceil(TILE as u64), 1];
        Self { grid, block: [TILE, TILE, 1], shared_bytes: 0, cooperative: false, cluster: [1; 3] }
    }

    /// The same number of elements in blocks of `threads`.
    pub(crate) const fn blocks_of(count: usize, threads: u32) -> Self {
        let grid = [(count as u64).div_ceil(threads as u64), 1, 1];
        Self { grid, block: [threads, 1, 1], shared_bytes: 0, cooperative: false, cluster: [1; 3] }
    }

    /// Dynamic shared memory of a block, in bytes. Above the default the device is asked for it without further ado.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, LaunchConfig};
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let too_much = LaunchConfig::new(1, 32).shared_bytes(1 << 30);
    /// let refused = axpy.launch(&stream, too_much, (x.span(), y.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::LimitExceeded { asked: 0x4000_0000, .. }));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// All blocks run at the same time and may synchronise.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, LaunchConfig};
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let crowd = LaunchConfig::new(1 << 20, 32).cooperative();
    /// let refused = axpy.launch(&stream, crowd, (x.span(), y.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::Unsupported { .. }));         // the host backend runs blocks one after the other
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub const fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Blocks in clusters of this shape.
    ///
    /// ```
    /// # use polywarp_core::{ErrorKind, LaunchConfig};
    /// # use polywarp_core::doctest::*;
    /// # let (device, axpy) = axpy()?;
    /// # let stream = device.stream()?;
    /// # let (x, mut y) = (stream.upload(&[1.0f32; 4])?, stream.upload(&[2.0f32; 4])?);
    /// let pairs = LaunchConfig::new(4, 32).cluster(2);
    /// let refused = axpy.launch(&stream, pairs, (x.span(), y.span_mut(), 1.0)).unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::LimitExceeded { asked: 2, limit: 1, .. }));   // the host backend has none
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn cluster(mut self, cluster: impl Axes) -> Self {
        self.cluster = cluster.axes();
        self
    }

    /// Blocks per axis.
    #[must_use]
    pub const fn grid(&self) -> [u64; 3] {
        self.grid
    }

    /// Threads of a block per axis.
    #[must_use]
    pub const fn block(&self) -> [u32; 3] {
        self.block
    }

    /// Threads in all, past the last element included; saturating.
    ///
    /// ```
    /// use polywarp_core::LaunchConfig;
    /// assert_eq!(LaunchConfig::for_elements(1000).threads(), 1024);
    /// assert_eq!(LaunchConfig::new([u32::MAX; 3], 1024).threads(), u64::MAX);   // checked at the launch
    /// ```
    #[must_use]
    pub fn threads(&self) -> u64 {
        let blocks = self.grid.iter().fold(1u64, |product, &axis| product.saturating_mul(axis));
        self.block.iter().fold(blocks, |product, &axis| product.saturating_mul(u64::from(axis)))
    }

    /// The geometry, if there is work at all, or what is wrong: the true cause first.
    #[inline]
    pub(crate) fn check(&self, limits: &Limits, function: &FunctionInfo) -> Result<Option<Geometry>> {
        let threads = product(&self.block);
        let plain = self.cluster == [1; 3] && !self.cooperative;
        let within = |axis: usize| self.block[axis] <= limits.max_block[axis] && self.grid[axis] <= u64::from(limits.max_grid[axis]);
        let fits = within(0)
            && within(1)
            && within(2)
            && threads != 0
            && threads <= u64::from(function.max_block_threads)
            && threads <= u64::from(limits.max_block_threads)
            && self.shared_bytes <= function.max_dynamic_shared_bytes
            && (limits.max_grid_threads == u64::MAX || self.threads() <= limits.max_grid_threads);
        if !fits || !plain {
            self.explain(limits, function, threads)?;
        }
        if self.grid.contains(&0) {
            return Ok(None);
        }
        let mut geometry = Geometry::new(self.grid.map(|axis| axis as u32), self.block);
        geometry.shared_bytes = self.shared_bytes;
        geometry.cooperative = self.cooperative;
        geometry.cluster = self.cluster;
        Ok(Some(geometry))
    }

    #[cold]
    fn explain(&self, limits: &Limits, function: &FunctionInfo, threads: u64) -> Result<()> {
        for (axis, name) in AXES.iter().enumerate() {
            if self.block[axis] == 0 {
                return Err(invalid(format!("block.{name} is 0; a block has at least one thread on every axis")));
            }
            at_most(format!("block.{name}"), self.block[axis].into(), limits.max_block[axis].into())?;
        }
        at_most("threads of a block".into(), threads, limits.max_block_threads.into())?;
        at_most("threads of a block for this kernel".into(), threads, function.max_block_threads.into())?;
        let shared = u64::from(self.shared_bytes);
        at_most("dynamic shared bytes of a block for this kernel".into(), shared, function.max_dynamic_shared_bytes.into())?;
        for (axis, name) in AXES.iter().enumerate() {
            at_most(format!("grid.{name}"), self.grid[axis], limits.max_grid[axis].into())?;
        }
        at_most("threads of the grid".into(), self.threads(), limits.max_grid_threads)?;
        self.explain_cluster(limits)
    }

    fn explain_cluster(&self, limits: &Limits) -> Result<()> {
        let blocks = product(&self.cluster);
        at_most("blocks of a cluster".into(), blocks, limits.max_cluster_blocks.into())?;
        for (axis, name) in AXES.iter().enumerate() {
            let (grid, cluster) = (self.grid[axis], u64::from(self.cluster[axis]));
            if cluster == 0 || !grid.is_multiple_of(cluster) {
                return Err(invalid(format!("grid.{name} is {grid}, which clusters of {cluster} blocks do not divide")));
            }
        }
        Ok(())
    }
}

/// Saturating.
#[inline]
fn product(axes: &[u32; 3]) -> u64 {
    axes.iter().fold(1, |product: u64, &axis| product.saturating_mul(u64::from(axis)))
}

fn at_most(axis: String, asked: u64, limit: u64) -> Result<()> {
    if asked <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded { axis: axis.into(), asked, limit }, "launch"))
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::InvalidConfig { what: what.into() }, "launch")
}

/// One thread per element: see [`LaunchConfig::for_elements`].
impl From<usize> for LaunchConfig {
    fn from(count: usize) -> Self {
        Self::for_elements(count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn refusal(config: LaunchConfig, function: impl Fn(&mut FunctionInfo), limits: impl Fn(&mut Limits)) -> String {
        let mut info = FunctionInfo { max_block_threads: 1024, max_dynamic_shared_bytes: 49_152, ..FunctionInfo::default() };
        let mut bounds = Limits::default();
        function(&mut info);
        limits(&mut bounds);
        match config.check(&bounds, &info) {
            Ok(geometry) => format!("{}", geometry.is_some()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_limit_is_named_with_axis_value_and_limit() {
        let says = |config, text: &str| assert!(refusal(config, |_| {}, |_| {}).contains(text), "{}", refusal(config, |_| {}, |_| {}));
        says(LaunchConfig::new(1, 1025), "block.x is 1025, but the limit is 1024");
        says(LaunchConfig::new(1, [1, 1, 65]), "block.z is 65, but the limit is 64");
        says(LaunchConfig::new(1, [32, 33]), "threads of a block is 1056, but the limit is 1024");
        says(LaunchConfig::new([1, 65_536], 1), "grid.y is 65536, but the limit is 65535");
        says(LaunchConfig::new(1, 0), "block.x is 0");
        says(LaunchConfig::for_elements(usize::MAX), "grid.x is 72057594037927936, but the limit is 2147483647");
        says(
            LaunchConfig::new(1, 1).shared_bytes(50_000),
            "dynamic shared bytes of a block for this kernel is 50000, but the limit is 49152",
        );
        says(LaunchConfig::new(0, 1), "false");
        says(LaunchConfig::new([3, 0, 7], [64, 2]), "false");
        says(LaunchConfig::new(3, 64).cluster(2), "blocks of a cluster is 2, but the limit is 1");
    }

    #[test]
    fn the_kernel_limit_is_named_before_the_shared_memory() {
        let text = refusal(LaunchConfig::new(1, 513).shared_bytes(1 << 20), |info| info.max_block_threads = 512, |_| {});
        assert!(text.contains("threads of a block for this kernel is 513, but the limit is 512"), "{text}");
    }

    #[test]
    fn a_grid_of_two_to_the_32_threads_is_refused_where_the_product_is_limited() {
        let config = LaunchConfig::new(1 << 22, 1024);
        assert_eq!(refusal(config, |_| {}, |_| {}), "true");
        let text = refusal(config, |_| {}, |limits| limits.max_grid_threads = (1 << 32) - 1);
        assert!(text.contains("threads of the grid is 4294967296, but the limit is 4294967295"), "{text}");
    }

    #[test]
    fn clusters_divide_the_grid() {
        let text = refusal(LaunchConfig::new(3, 64).cluster(2), |_| {}, |limits| limits.max_cluster_blocks = 8);
        assert!(text.contains("grid.x is 3, which clusters of 2 blocks do not divide"), "{text}");
    }
}
