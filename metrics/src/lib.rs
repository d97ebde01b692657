//! Metrics: one table of names, and the page of them that Prometheus and its kin read.
//!
//! | module | concept |
//! | --- | --- |
//! | [`name`] | [`Name`]: what a figure is called, and its kind |
//! | [`names`] | the table of all names |
//! | [`durations`] | [`Durations`]: how long calls took |
//! | [`page`] | [`Page`]: the figures of one moment, as OpenMetrics text |
//!
//! A part of the storage that has figures implements [`Measure`]. Nothing is counted here: each
//! part keeps its own counters, and gives their values when somebody asks.
//!
//! ```
//! use storage_metrics::{Measure, Page, names};
//!
//! struct Worker {
//!     rows: u64,
//! }
//!
//! impl Measure for Worker {
//!     fn measure(&self, page: &mut Page) {
//!         page.set(&names::LANDED_ROWS, self.rows);
//!     }
//! }
//!
//! let text = Page::of(&[&Worker { rows: 7 }]).text();
//! assert!(text.contains("storage_landed_rows_total 7"));
//! ```

pub mod durations;
pub mod name;
pub mod names;
pub mod page;

pub use durations::Durations;
pub use name::{Kind, Name};
pub use page::{Measure, Page};
