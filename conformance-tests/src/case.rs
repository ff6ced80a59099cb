//! A case: one sentence of the contract and the function that tries it.

use crate::context::Context;
use polywarp_core::backend::{Backend, Feature};
use polywarp_core::{Device, Result};
use std::fmt;

/// One sentence of the contract and the function that tries it.
///
/// The function answers by returning, by an error, or by a failed assertion. Afterwards, whatever it made must be gone, or the case fails.
///
/// ```
/// use polywarp_conformance::{Context, case};
/// use polywarp_core::{Result, backend::{Backend, Feature}, decorate::Nop};
///
/// fn zeros<B: Backend>(cx: &Context<B>) -> Result<()> {
///     let stream = cx.stream()?;
///     assert_eq!(stream.zeros::<u32>(3)?.download(&stream)?, [0; 3]);
///     Ok(())
/// }
/// let case = case::<Nop>("buffer.zeros", "B1", "`zeros` yields zeros", zeros);
/// assert_eq!((case.family(), case.level(), case.hazard), ("buffer", 5, false));
/// assert_ne!(case.seed(1), case.seed(2));
/// ```
pub struct Case<B: Backend> {
    /// Stable and never used again for anything else: `family.what_is_tried`, parameters after a colon.
    pub id: &'static str,
    /// Its code in the first plan of the suite.
    pub alias: &'static str,
    /// What holds if it passes.
    pub proves: &'static str,
    /// Without these it is not run.
    pub requires: Vec<Requirement>,
    /// Whether it leaves the device unusable for the process, as kernel faults do on GPUs.
    pub hazard: bool,
    /// Whether polywarp takes the device for lost in the end, and gives nothing back; the device itself is well.
    pub abandons: bool,
    pub(crate) run: fn(&Context<B>) -> Result<()>,
}

/// What a case cannot do without.
///
/// ```
/// use polywarp_conformance::{Requirement, case};
/// use polywarp_core::{backend::Feature, decorate::Nop};
/// let copies = case::<Nop>("copy.peers", "C7", "peers copy directly", |_| Ok(())).needs(Feature::PeerAccess).devices(2);
/// assert_eq!(copies.requires, [Requirement::Feature(Feature::PeerAccess), Requirement::Devices(2)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// A capability of the device.
    Feature(Feature),
    /// So many devices.
    Devices(u32),
}

/// A case without requirements.
///
/// ```
/// use polywarp_conformance::{Context, case};
/// use polywarp_core::{Result, backend::{Backend, Feature}, decorate::Nop};
///
/// fn zeros<B: Backend>(cx: &Context<B>) -> Result<()> {
///     let stream = cx.stream()?;
///     assert_eq!(stream.zeros::<u32>(3)?.download(&stream)?, [0; 3]);
///     Ok(())
/// }
/// let case = case::<Nop>("buffer.zeros", "B1", "`zeros` yields zeros", zeros).gated();
/// assert_eq!(case.requires.len(), 1);                         // gates are host functions
/// ```
pub fn case<B: Backend>(id: &'static str, alias: &'static str, proves: &'static str, run: fn(&Context<B>) -> Result<()>) -> Case<B> {
    Case { id, alias, proves, requires: Vec::new(), hazard: false, abandons: false, run }
}

impl<B: Backend> Case<B> {
    /// The same, holding streams at gates.
    #[must_use]
    pub fn gated(self) -> Self {
        self.needs(Feature::HostFunctions)
    }

    /// The same, requiring a capability.
    #[must_use]
    pub fn needs(mut self, feature: Feature) -> Self {
        self.requires.push(Requirement::Feature(feature));
        self
    }

    /// The same, requiring so many devices.
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        self.requires.push(Requirement::Devices(count));
        self
    }

    /// The same, leaving the device unusable.
    ///
    /// ```
    /// # use polywarp_conformance::case;
    /// # use polywarp_core::decorate::Nop;
    /// let fault = case::<Nop>("fault.kernel", "F1", "a kernel fault is told", |_| Ok(())).hazard();
    /// assert!(fault.hazard);                                      // so it is left out where GPUs would stay unusable
    /// ```
    #[must_use]
    pub fn hazard(mut self) -> Self {
        self.hazard = true;
        self
    }

    /// The same, ending with a device that polywarp takes for lost.
    #[must_use]
    pub fn abandons(mut self) -> Self {
        self.abandons = true;
        self
    }

    /// The first part of the id.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }

    /// The step of the ladder that its family stands on: a new backend's author climbs from 1.
    #[must_use]
    pub fn level(&self) -> u8 {
        match self.family() {
            "xstream" => 3,
            "conv" => 4,
            _ => 5,
        }
    }

    /// The case's own seed: the same for the same id in every run with the same suite seed.
    ///
    /// ```
    /// # use polywarp_conformance::case;
    /// # use polywarp_core::decorate::Nop;
    /// let [one, other] = ["track.one", "track.other"].map(|id| case::<Nop>(id, "", "", |_| Ok(())));
    /// assert_ne!(one.seed(0), other.seed(0));                     // cases do not share their random data
    /// ```
    #[must_use]
    pub fn seed(&self, suite: u64) -> u64 {
        // FNV-1a: stable over platforms and compilers.
        self.id.bytes().fold(0xcbf2_9ce4_8422_2325 ^ suite, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// What the device lacks for it.
    pub(crate) fn lacks(&self, device: &Device<B>) -> Option<Requirement> {
        self.requires.iter().copied().find(|requirement| match *requirement {
            Requirement::Feature(feature) => !device.info().features.contains(feature),
            Requirement::Devices(count) => device.runtime().device_count() < count,
        })
    }
}

impl<B: Backend> fmt::Debug for Case<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("alias", &self.alias).field("proves", &self.proves).finish_non_exhaustive()
    }
}
