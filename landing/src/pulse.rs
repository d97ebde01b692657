//! Whether a worker's loop moves.

use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use tokio::time::Instant;

/// When the loop last began a pass or a batch.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Instant>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Pulse {
    pub(crate) fn beat(&self) {
        *locked(&self.0) = Instant::now();
    }

    pub(crate) fn age(&self) -> Duration {
        locked(&self.0).elapsed()
    }
}
