//! Operation ids. A mutation that is sent again is recognised by its id.

use std::fmt;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The id of one mutation: 16 bytes drawn at random. Two mutations never share an id. A repeat has
/// the id of the first copy.
///
/// ```
/// # use storage_model as storage_sdk;
/// use storage_sdk::OpId;
/// let id = OpId::new([7; 16]);
/// assert_eq!(OpId::from_bytes(id.as_bytes()), Some(id));
/// assert_eq!(OpId::from_bytes(&[7; 15]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId([u8; 16]);

impl OpId {
    /// An id from bytes that the caller drew at random.
    #[must_use]
    pub const fn new(drawn: [u8; 16]) -> Self {
        Self(drawn)
    }

    /// The id as 16 bytes, for a caller that keeps it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id that was kept as these bytes. `None` unless there are 16 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A source of operation ids, lock tokens and worker names.
pub trait Ids: Send + Sync + fmt::Debug {
    /// A new id. No id is given twice.
    fn next(&self) -> OpId;
}

/// Ids from the thread's random generator, which the operating system seeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self) -> OpId {
        OpId::new(rand::random())
    }
}

/// Ids that depend on a seed alone, for tests that replay.
#[derive(Debug)]
pub struct SeededIds(Mutex<StdRng>);

impl SeededIds {
    /// The ids of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Ids for SeededIds {
    fn next(&self) -> OpId {
        let mut bytes = [0; 16];
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .fill_bytes(&mut bytes);
        OpId::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_as_bytes_and_shown_whole() {
        let id = OpId::new([0xab; 16]);
        assert_eq!(OpId::from_bytes(id.as_bytes()), Some(id));
        assert_eq!(id.to_string(), "ab".repeat(16));
        for length in [0, 15, 17, 24] {
            assert_eq!(OpId::from_bytes(&vec![0; length]), None);
        }
    }
}
