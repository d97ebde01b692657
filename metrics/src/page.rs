//! The figures of one moment.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::{Durations, Kind, Name};

/// The prefix of all names.
const PREFIX: &str = "storage";

/// A part of the storage that has figures.
pub trait Measure {
    /// Puts its figures on a page.
    fn measure(&self, page: &mut Page);
}

/// The figures of one moment.
#[derive(Debug)]
pub struct Page {
    registry: Registry,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            registry: Registry::with_prefix(PREFIX),
        }
    }
}

impl Page {
    /// The figures of these parts. Two parts must not have a figure in common.
    #[must_use]
    pub fn of(parts: &[&dyn Measure]) -> Self {
        let mut page = Self::default();
        for part in parts {
            part.measure(&mut page);
        }
        page
    }

    /// Puts a figure on the page.
    pub fn set(&mut self, name: &Name, value: u64) {
        match name.kind {
            Kind::Counter => self
                .registry
                .register(name.name, name.help, ConstCounter::new(value)),
            Kind::Gauge => self.set_exact(name, number(value)),
            // It has more than one value: see `set_durations`.
            Kind::Histogram => {}
        }
    }

    /// Puts a histogram on the page.
    pub fn set_durations(&mut self, name: &Name, durations: &Durations) {
        self.registry
            .register(name.name, name.help, durations.family());
    }

    /// Puts a gauge with fractions on the page, such as seconds.
    pub fn set_exact(&mut self, name: &Name, value: f64) {
        self.registry
            .register(name.name, name.help, ConstGauge::new(value));
    }

    /// The page as OpenMetrics text; see [`CONTENT_TYPE`].
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The media type of [`Page::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// As a number of Prometheus, which are all of this kind. Counts stay exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge of more than 2^53 is rounded"
)]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    struct Part;

    impl Measure for Part {
        fn measure(&self, page: &mut Page) {
            page.set(&names::LANDED_ROWS, u64::MAX);
            page.set(&names::SESSIONS, 3);
            page.set_exact(&names::OLDEST_DIRTY, 1.5);
        }
    }

    #[test]
    fn a_page_has_the_help_kind_and_value_of_each_figure() {
        let text = Page::of(&[&Part]).text();
        for line in [
            "# TYPE storage_landed_rows counter",
            "storage_landed_rows_total 18446744073709551615",
            "# TYPE storage_sessions gauge",
            "storage_sessions 3.0",
            "storage_oldest_dirty_seconds 1.5",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(
            text.contains("# HELP storage_sessions Sessions that this process holds or opens.")
        );
    }
}
