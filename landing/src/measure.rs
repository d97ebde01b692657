//! The figures of a worker, and of everything that waits, for the page of metrics.

use storage_metrics::{Measure, Page, names};

use crate::{Backlog, Counts};

impl Measure for Counts {
    fn measure(&self, page: &mut Page) {
        page.set(&names::LANDED_ROWS, self.rows);
        page.set(&names::LANDED_MARKS, self.marks);
        page.set(&names::LANDING_TRANSACTIONS, self.transactions);
        page.set(&names::REJECTED_ROWS, self.parked);
        page.set(&names::FENCED_TRANSACTIONS, self.fenced);
        page.set(&names::REQUEUED_MARKS, self.relived);
        page.set(&names::EXPIRED_MARKS, self.acquitted);
        page.set(&names::LANDING_FAILURES, self.failures);
        page.set(&names::RESCUES, self.rescues);
        page.set(&names::UNRESCUED_ROWS, self.unrescued);
        page.set(&names::RESTARTS, self.panics);
    }
}

impl Measure for Backlog {
    fn measure(&self, page: &mut Page) {
        page.set(&names::DIRTY_OWNERS, self.marks());
        let oldest = self.oldest().unwrap_or_default();
        page.set_exact(&names::OLDEST_DIRTY, oldest.as_secs_f64());
        page.set(&names::REJECTED_OWNERS, self.errors());
        page.set(&names::PROBATION_OWNERS, self.probation());
        let away = u64::try_from(self.away.len()).unwrap_or(u64::MAX);
        page.set(&names::UNREACHABLE_PARTITIONS, away);
    }
}
