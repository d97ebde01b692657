//! How long first requests to a data centre take: the 95th percentile of the last ones.
//!
//! Hedges and retries do not count. They would make the percentile shorter with each slow reply that a
//! hedge overtakes, so that more and more calls are hedged (a report of `ScyllaDB`, issue 8783).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of times that count.
const KEPT: usize = 512;
/// The percentile is computed again after so many times.
const EVERY: usize = 32;

/// The times of one data centre.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    times: Mutex<Times>,
    /// The percentile in microseconds. 0: there are too few times.
    usual: AtomicU64,
}

#[derive(Debug, Default)]
struct Times {
    micros: Vec<u64>,
    next: usize,
}

impl Latency {
    /// Notes the time of a first request.
    pub(crate) fn note(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let Ok(mut times) = self.times.lock() else {
            return;
        };
        let next = times.next;
        match times.micros.get_mut(next % KEPT) {
            Some(slot) => *slot = micros,
            None => times.micros.push(micros),
        }
        times.next = next.wrapping_add(1);
        if times.next.is_multiple_of(EVERY) {
            self.usual
                .store(percentile(&times.micros), Ordering::Relaxed);
        }
    }

    /// The 95th percentile. None while there are too few times.
    pub(crate) fn usual(&self) -> Option<Duration> {
        let micros = self.usual.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }
}

fn percentile(micros: &[u64]) -> u64 {
    let mut sorted = micros.to_vec();
    let at = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    if at >= sorted.len() {
        return 0;
    }
    let (_, value, _) = sorted.select_nth_unstable(at);
    *value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_known_after_some_times_and_follows_the_last_ones() {
        let latency = Latency::default();
        for ms in 1..=31 {
            latency.note(Duration::from_millis(ms));
        }
        assert_eq!(latency.usual(), None);
        latency.note(Duration::from_millis(32));
        assert_eq!(latency.usual(), Some(Duration::from_millis(31)));
        for _ in 0..KEPT {
            latency.note(Duration::from_millis(7));
        }
        assert_eq!(latency.usual(), Some(Duration::from_millis(7)));
    }
}
