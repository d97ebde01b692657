//! How long to wait after a failure.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use storage_model::OpId;

/// Waits that double from `min` to `max` until a success. Each has jitter: it lasts between half
/// and all of its length.
///
/// Jitter as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), the variant with
/// equal jitter.
#[derive(Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    random: StdRng,
}

impl Backoff {
    /// Waits from `min` to `max`, with jitter drawn from `seed`.
    #[must_use]
    pub fn new(min: Duration, max: Duration, seed: OpId) -> Self {
        let mut bytes = [0; 32];
        bytes
            .iter_mut()
            .zip(seed.as_bytes())
            .for_each(|(to, from)| *to = *from);
        Self {
            min,
            max,
            next: min,
            random: StdRng::from_seed(bytes),
        }
    }

    /// The wait after one more failure.
    pub fn wait(&mut self) -> Duration {
        let full = self.next;
        self.next = full.saturating_mul(2).min(self.max);
        full.mul_f64(self.random.random_range(0.5..=1.0))
    }

    /// Begins again with the shortest wait, after a success.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}
