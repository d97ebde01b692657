//! How long to wait after a failure.

use std::time::Duration;

use rand::RngExt as _;

/// Waits that double from `min` to `max`, each with jitter (between half of it and all of it), until a success.
///
/// Jitter as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), the variant with equal jitter.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `min` to `max`.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, next: min }
    }

    /// The wait after one more failure.
    pub fn wait(&mut self) -> Duration {
        let full = self.next;
        self.next = full.saturating_mul(2).min(self.max);
        full.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Begins anew after a success.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}
