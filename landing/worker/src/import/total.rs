//! What became of the lines, and up to which one all is done.

use std::collections::BTreeSet;
use std::fmt;

/// Counts of an import.
///
/// A line that was read is written, waiting or bad in the end; a blank one is none of them. Waiting
/// is one that is not known to be written when the import ends early: it has to be imported again,
/// which does no harm if it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) written: u64,
    pub(super) fields: u64,
    pub(super) waiting: u64,
    pub(super) bad: u64,
    /// The line that the import began with.
    first: u64,
    /// The first line that is not done yet.
    next: u64,
    /// Lines behind it that are done.
    done: BTreeSet<u64>,
}

impl Total {
    pub(super) fn new(first: u64) -> Self {
        Self {
            written: 0,
            fields: 0,
            waiting: 0,
            bad: 0,
            first,
            next: first,
            done: BTreeSet::new(),
        }
    }

    /// This line is written, bad or blank.
    pub(super) fn done(&mut self, number: u64) {
        // A line before the first was left out, not done.
        if number >= self.next {
            self.done.insert(number);
        }
        while self.done.remove(&self.next) {
            self.next += 1;
        }
    }

    /// Up to which line all is done, and where to go on.
    pub(super) fn so_far(&self) -> String {
        let Self {
            first, next, bad, ..
        } = self;
        let last = next - 1;
        match last.checked_sub(*first) {
            None => format!("no line is known to be written; go on with --from-line {next}"),
            Some(_) => {
                let but = if *bad > 0 {
                    " but for the bad ones"
                } else {
                    ""
                };
                format!("lines {first} to {last} are written{but}; go on with --from-line {next}")
            }
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            written,
            fields,
            waiting,
            bad,
            ..
        } = self;
        write!(
            f,
            "{written} lines written ({fields} fields), {waiting} waiting, {bad} bad"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_as_written_up_to_the_first_that_is_not() {
        let mut total = Total::new(10);
        assert_eq!(
            total.so_far(),
            "no line is known to be written; go on with --from-line 10"
        );
        total.done(12);
        total.done(10);
        assert_eq!(
            total.so_far(),
            "lines 10 to 10 are written; go on with --from-line 11"
        );
        total.done(11);
        total.bad = 1;
        assert_eq!(
            total.so_far(),
            "lines 10 to 12 are written but for the bad ones; go on with --from-line 13"
        );
        assert!(
            total.done.is_empty(),
            "no line is remembered for longer than it has to"
        );
    }
}
