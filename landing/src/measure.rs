//! The figures of a worker, and of everything that waits, for the page of metrics.

use storage_metrics::{Measure, Page, names};

use crate::{Backlog, Counts};

impl Measure for Counts {
    fn measure(&self, page: &mut Page) {
        page.set(&names::LANDED_ROWS, self.rows);
        page.set(&names::LANDED_MARKS, self.marks);
        page.set(&names::LANDING_TRANSACTIONS, self.transactions);
        page.set(&names::REJECTED_ROWS, self.rejected);
        page.set(&names::FENCED_TRANSACTIONS, self.fenced);
        page.set(&names::REQUEUED_MARKS, self.requeued);
        page.set(&names::LANDED_NOTES, self.notes);
        page.set(&names::TORN_OWNERS, self.torn);
        page.set(&names::SWEPT_ROWS, self.swept);
        page.set(&names::EXPIRED_MARKS, self.expired);
        page.set(&names::LANDING_FAILURES, self.failures);
        page.set(&names::RESCUES, self.rescues);
        page.set(&names::UNRESCUED_ROWS, self.unrescued);
        page.set(&names::SINK_EVENTS, self.sent);
        page.set(&names::PARKED_EVENTS, self.parked);
        page.set(&names::SINK_FAILURES, self.sink_failures);
        page.set(&names::SINK_LAG, self.sink_lag);
        page.set(&names::REPLACED, self.replaced.into());
        page.set(&names::RESTARTS, self.panics);
    }
}

impl Measure for Backlog {
    fn measure(&self, page: &mut Page) {
        page.set(&names::DIRTY_OWNERS, self.marks());
        // A backlog whose age is unknown has no age on the page: 0 would be an all-clear.
        match self.oldest() {
            Some(oldest) => page.set_exact(&names::OLDEST_DIRTY, oldest.as_secs_f64()),
            None if self.marks() == 0 && self.away.is_empty() => {
                page.set_exact(&names::OLDEST_DIRTY, 0.0);
            }
            None => {}
        }
        page.set(&names::WAITING_NOTES, self.notes());
        page.set(&names::REJECTED_OWNERS, self.errors());
        page.set(&names::PROBATION_OWNERS, self.probation());
        let away = u64::try_from(self.away.len()).unwrap_or(u64::MAX);
        page.set(&names::UNREACHABLE_PARTITIONS, away);
    }
}

#[cfg(test)]
mod tests {
    use storage_dirty::PartitionPeek;
    use storage_model::Partition;

    use super::*;

    #[test]
    fn a_backlog_whose_age_nobody_tells_is_not_said_to_be_young() {
        let age = |backlog: &Backlog| {
            Page::of(&[backlog])
                .text()
                .contains("oldest_dirty_seconds ")
        };
        assert!(age(&Backlog::default()));
        let mut backlog = Backlog::default();
        let peek = PartitionPeek {
            live: 1,
            ..PartitionPeek::default()
        };
        backlog.partitions.push((Partition(0), peek));
        assert!(!age(&backlog));
    }
}
