//! What a server holds now.

use std::sync::Arc;

use storage_shard_read::{ShardInfo, ShardRange, State};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// What a server holds now. A range keeps its number and its calls from its load to its end.
#[derive(Debug, Clone)]
pub(crate) struct Tenure {
    /// The number of the claim. Each has another one.
    pub(crate) number: u64,
    /// What replies tell, without an age.
    pub(crate) shard: ShardInfo,
    /// A call holds it for reading, and the end of the range waits for all of them.
    calls: Arc<RwLock<()>>,
}

impl Tenure {
    /// No range.
    pub(crate) fn standby(number: u64, dc: &str) -> Self {
        Self {
            number,
            shard: ShardInfo::standby(dc),
            calls: Arc::default(),
        }
    }

    /// A range that is not loaded yet.
    pub(crate) fn loading(number: u64, dc: &str, range: ShardRange, plan: u32) -> Self {
        Self {
            shard: ShardInfo::holding(dc, State::Loading, range, plan),
            ..Self::standby(number, dc)
        }
    }

    /// The same range in another state.
    pub(crate) fn turned(mut self, state: State) -> Self {
        self.shard.state = state;
        self
    }

    /// Whether the server answers to all of these sharding keys.
    pub(crate) fn answers(&self, keys: &[u64]) -> bool {
        self.shard.state.answers() && keys.iter().all(|key| self.shard.answers(*key))
    }

    /// A call of the range begins. None: its end has begun.
    pub(crate) fn begin_call(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.calls).try_read_owned().ok()
    }

    /// Waits until no call is under way.
    ///
    /// ORDER: after the server has another tenure. A call that begins later sees that one.
    pub(crate) async fn end_calls(&self) {
        drop(self.calls.write().await);
    }
}
