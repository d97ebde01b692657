//! R14: how long this process has looked at the database without a break.
//!
//! While the database is away, no program can tell it that a hot tier is used. So silence counts only
//! for as long as this process could have told it something itself.

use std::time::Duration;

use storage_model::times;
use tokio::time::Instant;

/// Looks that succeeded, one soon after the other.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<Looks>);

#[derive(Debug, Clone, Copy)]
struct Looks {
    first: Instant,
    last: Instant,
}

impl Watch {
    /// Notes a look that succeeded.
    pub(crate) fn looked(&mut self, now: Instant) {
        let goes_on = |looks: &Looks| now.saturating_duration_since(looks.last) <= times::WATCH_GAP;
        let first = self.0.filter(goes_on).map_or(now, |looks| looks.first);
        self.0 = Some(Looks { first, last: now });
    }

    /// Notes a look that failed. What was before it does not count.
    pub(crate) fn failed(&mut self) {
        self.0 = None;
    }

    /// The time between the first look and the last one.
    pub(crate) fn lasts(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |looks| {
            looks.last.saturating_duration_since(looks.first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_look_that_failed_and_a_time_without_looks_begin_the_watch_anew() {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let at = |seconds: u32| start + SECOND * seconds;
        assert_eq!(watch.lasts(), Duration::ZERO);
        for (seconds, lasts) in [(0, 0), (2, 2), (5, 5), (9, 0), (11, 2)] {
            watch.looked(at(seconds));
            assert_eq!(watch.lasts(), SECOND * lasts, "after {seconds} s");
        }
        watch.failed();
        assert_eq!(watch.lasts(), Duration::ZERO);
        watch.looked(at(12));
        watch.looked(at(13));
        assert_eq!(watch.lasts(), SECOND);
    }
}
