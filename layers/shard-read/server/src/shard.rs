//! What a service implements.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_shard_read::{KeyFailure, Place, Schema, ShardRange};
use tokio::time::Instant;

use crate::Moment;

/// The value of a key, or why the server has none.
pub type KeyOutcome<V> = Result<V, KeyFailure>;

/// The values of a range of keys, as a service has them.
///
/// A server calls [`load`](Shard::load), then [`get`](Shard::get) for keys of that range alone, and after the
/// last of them [`unload`](Shard::unload). Then it may load another range.
#[async_trait]
pub trait Shard<S: Schema>: Send + Sync + 'static {
    /// Prepares a range, before keys of it come.
    ///
    /// # Errors
    /// The range can't be loaded now. The server tries again, and after five minutes leaves the range to
    /// another server.
    ///
    /// # Cancel safety
    /// A server that loses the range drops the call. [`Shard::unload`] follows.
    async fn load(&self, range: ShardRange) -> Result<(), LoadError>;

    /// The values of keys, one for each key, in their order.
    ///
    /// A panic fails its key alone: the server asks again for each key of the call by itself.
    ///
    /// # Cancel safety
    /// The server drops the call when its caller has gone or its time is up.
    async fn get(&self, call: &Call, keys: &[S::Key]) -> Vec<KeyOutcome<S::Value>>;

    /// Frees what a range holds. No call of it is under way, and none follows.
    async fn unload(&self, range: ShardRange);

    /// A moment up to which every change is reflected in the values that are read from now on. None: the
    /// service does not know, so calls that ask for a greatest age fail.
    fn fresh_at(&self) -> Option<Moment> {
        None
    }

    /// Waits until the values reflect the events of these places. The server ends the wait with the call.
    ///
    /// # Errors
    /// The values will never reflect them.
    async fn reach(&self, places: &[Place]) -> Result<(), Unreachable> {
        let _ = places;
        Err(Unreachable::new("this service follows no events"))
    }
}

/// A call of a client, as a service sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// When its time is up.
    pub until: Instant,
    /// 1 for the first request of a call, 2 for a retry or a hedge.
    pub attempt: u32,
}

impl Call {
    /// The time that is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

macro_rules! reason {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// With the reason, for people.
            #[must_use]
            pub fn new(reason: impl Into<String>) -> Self {
                Self(reason.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::error::Error for $name {}
    };
}

reason! {
    /// A range that can't be loaded now.
    LoadError
}

reason! {
    /// Events that the values will never reflect.
    Unreachable
}
