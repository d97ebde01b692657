//! What a figure is called.

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, and begins at 0 with its process.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How long calls took, as counts of buckets.
    Histogram,
}

/// The name of a figure, without the prefix `storage_`. All names are in
/// [`names`](crate::names).
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    /// Lower-case words, joined by `_`. The unit comes last, unless the figure is a plain number.
    pub name: &'static str,
    /// Counter, gauge or histogram. The page adds `_total` to a counter's name.
    pub kind: Kind,
    /// What it says, in one sentence without a full stop.
    pub help: &'static str,
}
