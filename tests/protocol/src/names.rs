//! The one owner, its fields, and the inputs of the model's transitions.

use std::time::Duration;

use storage_dirty::Lock;
use storage_dirty::memory::Present;
use storage_model::{Field, Owner, Partition, Timestamp};

pub(super) const PARTITION: Partition = Partition(0);

/// The inputs of transitions beside the state, at first.
pub(super) const PRESENT: Present = Present {
    now: Timestamp(0),
    hash_ttl: Duration::from_secs(20),
    absent_ttl: Duration::from_secs(10),
    // Markers vanish in a step of their own, which is bounded.
    marker_ttl: None,
    bytes_max: usize::MAX,
};

/// A moment at which everything with a time to live has expired. Operation ids have not.
pub(super) const LATER: Timestamp = Timestamp(30_000_000);

thread_local! {
    static OWNER: Owner = named(Owner::new("a", "r", "t", "o"));
    static FIELDS: [Field; 2] = ["f", "g"].map(|name| named(Field::new(name)));
    static LOCK: Lock = Lock { holder: "w".into(), token: "t".into() };
}

#[expect(clippy::expect_used, reason = "the names are constants")]
fn named<T, E: std::fmt::Debug>(name: Result<T, E>) -> T {
    name.expect("a fine name")
}

pub(super) fn owner() -> Owner {
    OWNER.with(Clone::clone)
}

/// The first of the two fields, or both.
pub(super) fn fields(count: usize) -> Vec<Field> {
    FIELDS.with(|fields| fields.iter().take(count).cloned().collect())
}

/// All workers share one lock. Locks only save work, so nothing may depend on them.
pub(super) fn lock() -> Lock {
    LOCK.with(Clone::clone)
}
