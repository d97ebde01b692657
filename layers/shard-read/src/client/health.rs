//! Whether an endpoint should get calls: failures in a row, silence, and what it asks for (V13).

use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row eject an endpoint.
const FAILURES_MAX: u32 = 5;
/// The first ejection. Each further one takes twice as long.
const OUT_MIN: Duration = Duration::from_secs(1);
const OUT_MAX: Duration = Duration::from_secs(30);
/// The least silence that ejects an endpoint. A half-open connection or a stopped process is found long before
/// the keep-alive of the connection finds it.
const SILENCE_MIN: Duration = Duration::from_millis(100);

/// How long an endpoint may be silent, if calls of its data centre take this long.
pub(crate) fn silence_max(usual: Option<Duration>) -> Duration {
    usual.map_or(SILENCE_MIN, |usual| SILENCE_MIN.max(usual * 10))
}

/// The health of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: u32,
    under_way: u32,
    /// Since when calls are under way and no reply came.
    silent_since: Option<Instant>,
    out_until: Option<Instant>,
    ejections: u32,
    /// It asked for a pause.
    rests_until: Option<Instant>,
}

impl Health {
    /// A request is sent.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.under_way = self.under_way.saturating_add(1);
        self.silent_since.get_or_insert(now);
    }

    /// A request has come to its end, whatever it was.
    pub(crate) fn end(&mut self, now: Instant, silence_max: Duration) {
        self.look(now, silence_max);
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.silent_since = None;
        }
    }

    /// A reply came. An ejected endpoint is back.
    pub(crate) fn replied(&mut self, now: Instant, is_value: bool) {
        self.failures = 0;
        self.out_until = None;
        if is_value {
            self.ejections = 0;
        }
        if self.silent_since.is_some() {
            self.silent_since = Some(now);
        }
    }

    /// A request failed, and the endpoint is to blame.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.eject(now);
        }
    }

    /// It asked for a pause.
    pub(crate) fn rest(&mut self, until: Instant) {
        self.rests_until = Some(until);
    }

    /// Ejects an endpoint that has been silent for too long.
    pub(crate) fn look(&mut self, now: Instant, silence_max: Duration) {
        let is_silent = self
            .silent_since
            .is_some_and(|since| now.saturating_duration_since(since) > silence_max);
        if is_silent {
            self.eject(now);
        }
    }

    fn eject(&mut self, now: Instant) {
        if self.is_out(now) {
            return;
        }
        let factor = 1_u32 << self.ejections.min(5);
        self.out_until = Some(now + (OUT_MIN * factor).min(OUT_MAX));
        self.ejections = self.ejections.saturating_add(1);
        self.failures = 0;
    }

    /// Whether it is ejected. Such an endpoint goes last in the choice.
    pub(crate) fn is_out(&self, now: Instant) -> bool {
        self.out_until.is_some_and(|until| now < until)
    }

    /// Whether it has asked for a pause that is not over. Hedges and retries pass it over.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// The number of requests under way.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_eject_and_a_reply_brings_back() {
        let (mut health, now) = (Health::default(), Instant::now());
        for _ in 0..4 {
            health.failed(now);
        }
        health.replied(now, true);
        for _ in 0..4 {
            health.failed(now);
        }
        assert!(!health.is_out(now), "a reply came in between");
        health.failed(now);
        assert!(health.is_out(now + 999 * MS) && !health.is_out(now + 1_000 * MS));
        health.replied(now + MS, false);
        assert!(!health.is_out(now + MS));
    }

    #[tokio::test(start_paused = true)]
    async fn each_ejection_takes_twice_as_long_up_to_half_a_minute() {
        let (mut health, mut now) = (Health::default(), Instant::now());
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            for _ in 0..FAILURES_MAX {
                health.failed(now);
            }
            let end = now + Duration::from_secs(seconds);
            assert!(health.is_out(end - MS) && !health.is_out(end), "{seconds}");
            now = end;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_reply_while_calls_are_under_way() {
        let (mut health, now) = (Health::default(), Instant::now());
        let limit = silence_max(None);
        health.begin(now);
        health.begin(now + 90 * MS);
        health.replied(now + 90 * MS, true);
        health.end(now + 90 * MS, limit);
        health.look(now + 180 * MS, limit);
        assert!(!health.is_out(now + 180 * MS));
        health.look(now + 191 * MS, limit);
        assert!(health.is_out(now + 191 * MS));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_without_calls_is_not_silent_and_one_whose_calls_were_given_up_is() {
        let (mut health, now) = (Health::default(), Instant::now());
        let limit = silence_max(None);
        health.look(now + 500 * MS, limit);
        assert!(!health.is_out(now + 500 * MS));
        health.begin(now);
        health.end(now + 101 * MS, limit);
        assert!(health.is_out(now + 101 * MS));
    }

    #[test]
    fn slow_data_centres_may_be_silent_for_longer() {
        assert_eq!(silence_max(Some(2 * MS)), 100 * MS);
        assert_eq!(silence_max(Some(30 * MS)), 300 * MS);
    }
}
