//! The order of lines: those of one owner follow each other, others are written concurrently.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};

use storage_sdk::Owner;

use super::line::Entry;

/// Bytes of concurrent lines. A single line can be longer.
const BYTES_MAX: u64 = 64 << 20;

/// A line to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) entry: Entry,
    /// The line's length in the file.
    pub(super) bytes: u64,
}

/// The lines that were read but are not written yet.
#[derive(Debug)]
pub(super) struct Order {
    at_once: usize,
    /// Owners with a line under way, and the lines that wait for it.
    owners: HashMap<Owner, VecDeque<Job>>,
    lines: usize,
    bytes: u64,
}

impl Order {
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            at_once,
            owners: HashMap::new(),
            lines: 0,
            bytes: 0,
        }
    }

    /// Whether another line can be read: neither lines nor bytes are at their limit.
    pub(super) fn has_room(&self) -> bool {
        self.lines == 0 || self.lines < self.at_once && self.bytes < BYTES_MAX
    }

    /// Adds a line. Returns it if it can be written now. Otherwise it waits for another line of its
    /// owner.
    pub(super) fn add(&mut self, job: Job) -> Option<Job> {
        self.lines += 1;
        self.bytes += job.bytes;
        match self.owners.entry(job.entry.owner.clone()) {
            Place::Vacant(place) => {
                place.insert(VecDeque::new());
                Some(job)
            }
            Place::Occupied(mut waiting) => {
                waiting.get_mut().push_back(job);
                None
            }
        }
    }

    /// Removes a line that was written or given up. Returns the owner's next line, which can be
    /// written now.
    pub(super) fn ended(&mut self, owner: &Owner, bytes: u64) -> Option<Job> {
        self.left(bytes);
        let next = self.owners.get_mut(owner)?.pop_front();
        if next.is_none() {
            self.owners.remove(owner);
        }
        next
    }

    /// Removes a line that was given up, and all lines that wait for it. Returns the waiting ones.
    pub(super) fn given_up(&mut self, owner: &Owner, bytes: u64) -> VecDeque<Job> {
        self.left(bytes);
        let waited = self.owners.remove(owner).unwrap_or_default();
        waited.iter().for_each(|job| self.left(job.bytes));
        waited
    }

    fn left(&mut self, bytes: u64) {
        self.lines = self.lines.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64, id: &str, bytes: u64) -> Job {
        Job {
            number,
            entry: Entry {
                owner: Owner::new("a", "r", "t", id).unwrap(),
                fields: Vec::new(),
                removed: Vec::new(),
                base: None,
            },
            bytes,
        }
    }

    fn number(job: Option<Job>) -> Option<u64> {
        job.map(|job| job.number)
    }

    #[test]
    fn a_line_waits_for_those_of_its_owner_before_it_and_for_no_other() {
        let mut order = Order::new(9);
        let (ann, bob) = (job(1, "ann", 1).entry.owner, job(2, "bob", 1).entry.owner);
        assert_eq!(number(order.add(job(1, "ann", 1))), Some(1));
        assert_eq!(number(order.add(job(2, "bob", 1))), Some(2));
        assert_eq!(number(order.add(job(3, "ann", 1))), None);
        assert_eq!(number(order.add(job(4, "ann", 1))), None);
        assert_eq!(number(order.ended(&bob, 1)), None);
        assert_eq!(number(order.ended(&ann, 1)), Some(3));
        assert_eq!(
            number(order.add(job(5, "ann", 1))),
            None,
            "3 is being written"
        );
        assert_eq!(number(order.ended(&ann, 1)), Some(4));
        let waited: Vec<_> = order
            .given_up(&ann, 1)
            .iter()
            .map(|job| job.number)
            .collect();
        assert_eq!((waited, order.lines, order.bytes), (vec![5], 0, 0));
        assert_eq!(number(order.add(job(6, "ann", 1))), Some(6));
    }

    #[test]
    fn lines_and_bytes_under_way_are_bounded_and_one_line_is_always_let_in() {
        let mut order = Order::new(2);
        assert!(order.add(job(1, "ann", 1)).is_some() && order.has_room());
        assert!(
            order.add(job(2, "ann", 1)).is_none() && !order.has_room(),
            "lines that wait count, too"
        );
        let mut order = Order::new(100);
        assert!(order.add(job(1, "ann", BYTES_MAX)).is_some() && !order.has_room());
        order.ended(&job(1, "ann", 0).entry.owner, BYTES_MAX);
        assert!(order.has_room());
        assert!(Order::new(1).has_room());
    }
}
