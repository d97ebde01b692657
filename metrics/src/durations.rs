//! How long calls took.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// The upper ends of the buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Two labels with their values. Few of them may exist, since each pair has buckets of its own.
pub type Labels = [(&'static str, &'static str); 2];

pub(crate) type Buckets = Family<Labels, Histogram, fn() -> Histogram>;

/// How long calls took, by two labels. Clones share their counts.
#[derive(Debug, Clone)]
pub struct Durations(Buckets);

impl Default for Durations {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl Durations {
    /// Counts a call.
    pub fn add(&self, labels: Labels, took: Duration) {
        self.0.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn family(&self) -> Buckets {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Page, names};

    #[test]
    fn a_call_is_in_each_bucket_that_ends_behind_its_time() {
        let durations = Durations::default();
        durations.add(
            [("method", "GET"), ("resource", "item")],
            Duration::from_millis(7),
        );
        let mut page = Page::default();
        page.set_durations(&names::DOCUMENT_SECONDS, &durations);
        let text = page.text();
        let labels = r#"method="GET",resource="item""#;
        for line in [
            format!(r#"storage_document_seconds_count{{{labels}}} 1"#),
            format!(r#"storage_document_seconds_bucket{{le="0.005",{labels}}} 0"#),
            format!(r#"storage_document_seconds_bucket{{le="0.01",{labels}}} 1"#),
            format!(r#"storage_document_seconds_bucket{{le="+Inf",{labels}}} 1"#),
        ] {
            assert!(
                text.lines().any(|have| have == line),
                "{line} is not in\n{text}"
            );
        }
    }
}
