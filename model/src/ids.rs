//! Operation ids: what makes a mutation recognisable when it is sent again.

use std::fmt;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The id of one mutation: 16 random bytes. Two mutations never share one; a repeat carries its first sending's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub [u8; 16]);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        OpId(rand::random())
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
        OpId(bytes)
    }
}
