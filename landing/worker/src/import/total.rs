//! The fate of the lines, and the line up to which all is done.

use std::collections::BTreeSet;
use std::fmt;

/// How many lines that hold no owner are printed. One cause often makes all lines bad.
const UNREAD_PRINTED_MAX: u64 = 20;

/// Counts of an import.
///
/// Each line that was read ends as written, waiting or bad. A blank line is none of them. A waiting
/// line may not be written when the import ends early. Import it again: a repeat does no harm if it
/// was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) written: u64,
    pub(super) fields: u64,
    pub(super) waiting: u64,
    pub(super) bad: u64,
    /// The bad lines that hold no owner.
    unread: u64,
    /// The first line of the import.
    first: u64,
    /// The first line that is not done.
    next: u64,
    /// Done lines after it.
    done: BTreeSet<u64>,
}

impl Total {
    pub(super) fn new(first: u64) -> Self {
        Self {
            written: 0,
            fields: 0,
            waiting: 0,
            bad: 0,
            unread: 0,
            first,
            next: first,
            done: BTreeSet::new(),
        }
    }

    /// Records a line as written, bad or blank.
    pub(super) fn done(&mut self, number: u64) {
        // A line before the first was skipped, not done.
        if number >= self.next {
            self.done.insert(number);
        }
        while self.done.remove(&self.next) {
            self.next += 1;
        }
    }

    /// Counts a line that holds no owner. Returns whether it is to be printed.
    pub(super) fn count_unread(&mut self) -> bool {
        self.bad += 1;
        self.unread += 1;
        self.unread <= UNREAD_PRINTED_MAX
    }

    /// The number of lines without an owner that were not printed, in words. `None` if all were.
    pub(super) fn unprinted(&self) -> Option<String> {
        let more = self.unread.saturating_sub(UNREAD_PRINTED_MAX);
        (more > 0).then(|| format!("{more} more lines that hold no owner are not printed"))
    }

    /// The line up to which all is done, and the line to continue from.
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
            "no line is remembered for longer than needed"
        );
    }

    #[test]
    fn twenty_bad_lines_are_printed_and_the_further_ones_are_counted() {
        let mut total = Total::new(1);
        let printed = (0..20).filter(|_| total.count_unread()).count();
        assert_eq!((printed, total.unprinted()), (20, None));
        assert!(!total.count_unread() && !total.count_unread());
        assert_eq!(
            total.unprinted().as_deref(),
            Some("2 more lines that hold no owner are not printed")
        );
        assert_eq!(total.bad, 22);
    }
}
