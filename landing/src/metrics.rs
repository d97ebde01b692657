//! The counters of a worker since its start.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Rescued;

/// Counters of one worker.
#[derive(Debug, Default)]
pub struct Metrics {
    rows: AtomicU64,
    marks: AtomicU64,
    notes: AtomicU64,
    transactions: AtomicU64,
    rejected: AtomicU64,
    torn: AtomicU64,
    swept: AtomicU64,
    fenced: AtomicU64,
    requeued: AtomicU64,
    expired: AtomicU64,
    failures: AtomicU64,
    sent: AtomicU64,
    parked: AtomicU64,
    sink_failures: AtomicU64,
    /// Counted by `caught`.
    pub(crate) panics: AtomicU64,
    rescues: AtomicU64,
    unrescued: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rows sent to the database and committed.
    pub rows: u64,
    /// Marks cleared.
    pub marks: u64,
    /// Events that were added to the feed.
    pub notes: u64,
    /// Landing transactions that committed.
    pub transactions: u64,
    /// Entries moved to an error map, including repeated attempts.
    pub rejected: u64,
    /// Owners that landed apart from others of their transaction, because one of them was rejected
    /// for too long, or because too many were linked.
    pub torn: u64,
    /// Rows of fields that were purged long ago, and are deleted.
    pub swept: u64,
    /// Transactions that a fence rejected.
    pub fenced: u64,
    /// Marks on probation that became live again.
    pub requeued: u64,
    /// Marks whose probation ended.
    pub expired: u64,
    /// Passes that ended with a failure of either tier.
    pub failures: u64,
    /// Whether another hot tier took partitions from this one.
    pub replaced: bool,
    /// Events that sinks have taken, repeats included.
    pub sent: u64,
    /// Events that sinks have refused. They were parked.
    pub parked: u64,
    /// Rounds of sinks that ended because the sink or the database was away.
    pub sink_failures: u64,
    /// The events that the slowest sink is behind, in the partitions of this worker.
    pub sink_lag: u64,
    /// Panics that ended a part of the work. That part began again.
    pub panics: u64,
    /// Complete rescues: everything that can land was landed while the hot tier took no writes. The
    /// marks stay.
    pub rescues: u64,
    /// How many fields and marks the last rescue could not land. See
    /// [`Rescued::refused`](crate::Rescued::refused).
    pub unrescued: u64,
}

impl Metrics {
    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(u64::try_from(n).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn swept(&self, rows: u64) {
        self.swept.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn torn(&self, owners: usize) {
        Self::add(&self.torn, owners);
    }

    pub(crate) fn committed(&self, rows: usize) {
        Self::add(&self.rows, rows);
        Self::add(&self.transactions, 1);
    }

    pub(crate) fn settled(&self, marks: u32) {
        self.marks.fetch_add(marks.into(), Ordering::Relaxed);
    }

    pub(crate) fn noted(&self, events: usize) {
        Self::add(&self.notes, events);
    }

    pub(crate) fn rejected(&self, entries: usize) {
        Self::add(&self.rejected, entries);
    }

    pub(crate) fn fenced(&self) {
        Self::add(&self.fenced, 1);
    }

    pub(crate) fn requeued(&self, marks: u32) {
        self.requeued.fetch_add(marks.into(), Ordering::Relaxed);
    }

    pub(crate) fn expired(&self, marks: u32) {
        self.expired.fetch_add(marks.into(), Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, events: usize) {
        Self::add(&self.sent, events);
    }

    pub(crate) fn parked(&self) {
        Self::add(&self.parked, 1);
    }

    pub(crate) fn sink_failed(&self) {
        Self::add(&self.sink_failures, 1);
    }

    /// A rescue ended.
    pub(crate) fn rescued(
        &self,
        Rescued {
            rows,
            refused,
            skipped,
        }: Rescued,
    ) {
        Self::add(&self.rows, rows);
        // ORDER: before the rescue is counted, because a reader that sees the count asks for this
        // figure.
        self.unrescued.store(
            u64::try_from(refused).unwrap_or(u64::MAX),
            Ordering::Release,
        );
        Self::add(&self.rescues, usize::from(skipped == 0));
    }

    pub(crate) fn failed(&self) {
        Self::add(&self.failures, 1);
    }

    /// The counters now. Those that know the sinks add the lag.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            rows: get(&self.rows),
            marks: get(&self.marks),
            notes: get(&self.notes),
            transactions: get(&self.transactions),
            rejected: get(&self.rejected),
            torn: get(&self.torn),
            swept: get(&self.swept),
            fenced: get(&self.fenced),
            requeued: get(&self.requeued),
            expired: get(&self.expired),
            failures: get(&self.failures),
            sent: get(&self.sent),
            parked: get(&self.parked),
            sink_failures: get(&self.sink_failures),
            sink_lag: 0,
            replaced: false,
            panics: get(&self.panics),
            rescues: get(&self.rescues),
            unrescued: get(&self.unrescued),
        }
    }
}
