//! How full the hot tier is.

/// The memory of one server that is in use and can't be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// The bytes in use.
    pub used: u64,
    /// The most bytes that the server may use.
    pub limit: u64,
}

impl MemoryUse {
    /// The used share of the limit, in percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}
