//! Operation ids: what makes a mutation recognisable when it is sent again.

use std::fmt;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::Version;

/// The id of one mutation. Two mutations never share one; a repeat carries its first sending's.
///
/// Either 16 bytes that a caller drew at random, or 24 that the hot tier gave a mutation without an id of its caller's: they say where
/// to look for what became of it, so that nothing need be remembered for that mutation alone.
///
/// ```
/// use storage_model::OpId;
/// let id = OpId::new([7; 16]);
/// assert_eq!(OpId::from_bytes(id.as_bytes()), Some(id));
/// assert_eq!(OpId::from_bytes(&[7; 15]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId {
    bytes: [u8; GIVEN],
    given: bool,
}

/// Bytes of an id that a caller drew, and of one that the hot tier gave.
const DRAWN: usize = 16;
const GIVEN: usize = 24;

impl OpId {
    /// An id drawn at random, so that nobody else has it.
    #[must_use]
    pub fn new(drawn: [u8; DRAWN]) -> Self {
        let mut bytes = [0; GIVEN];
        if let Some(to) = bytes.first_chunk_mut() {
            *to = drawn;
        }
        Self { bytes, given: false }
    }

    /// The id of the mutation that was this one of a writer of the hot tier, and gave its owner this version.
    #[must_use]
    pub fn given(writer: u64, number: u64, version: Version) -> Self {
        let mut bytes = [0; GIVEN];
        for (to, part) in bytes.chunks_exact_mut(8).zip([writer, number, version.get()]) {
            to.copy_from_slice(&part.to_be_bytes());
        }
        Self { bytes, given: true }
    }

    /// Whether the hot tier gave it.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.given
    }

    /// The id as bytes, 16 or 24, for a caller that keeps it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let drawn = self.bytes.first_chunk::<DRAWN>().filter(|_| !self.given);
        drawn.map_or(&self.bytes, <[u8; DRAWN]>::as_slice)
    }

    /// The id that was kept as these bytes. None if there are neither 16 nor 24 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let drawn = bytes.try_into().map(Self::new);
        drawn.ok().or_else(|| Some(Self { bytes: bytes.try_into().ok()?, given: true }))
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A source of operation ids, lock tokens and worker names.
pub trait Ids: Send + Sync + fmt::Debug {
    /// An id that was never given before.
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

/// Ids that one seed decides, for tests that replay.
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
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill_bytes(&mut bytes);
        OpId::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_both_kinds_are_kept_as_bytes_and_shown_whole() {
        let given = OpId::given(1, 2, Version::new(3).unwrap());
        let drawn = OpId::new([0xab; 16]);
        for (id, length) in [(given, 24), (drawn, 16)] {
            assert_eq!((id.as_bytes().len(), id.to_string().len()), (length, 2 * length));
            assert_eq!(OpId::from_bytes(id.as_bytes()), Some(id));
        }
        assert!(given.is_given() && !drawn.is_given());
        assert_eq!(given.as_bytes().chunks(8).map(|part| part[7]).collect::<Vec<_>>(), [1, 2, 3]);
        // Not taken for one another though one begins as the other.
        assert_ne!(OpId::new([0; 16]), OpId::given(0, 0, Version::ZERO));
    }
}
