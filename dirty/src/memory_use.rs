//! How full the hot tier is.

/// The memory of one server that is taken and can't be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes taken.
    pub used: u64,
    /// The most bytes that it takes.
    pub limit: u64,
}

impl MemoryUse {
    /// How much of the limit is taken, in percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}
