//! How many events a sink gets at a time, and where events are missing.

use std::ops::Range;

use storage_model::{Content, Event, Position};

/// How many events the first read takes.
pub(super) const ROWS_FIRST: usize = 64;
/// The most events of one read.
const ROWS_MAX: usize = 512;
/// About how many bytes one batch has.
const BYTES_MAX: usize = 1 << 20;

/// The bytes of an event, about as a sink writes them.
fn size(event: &Event) -> usize {
    match &event.content {
        Content::Note(note) => 256 + 21 * note.counters.len() + note.body.len(),
        _ => 256,
    }
}

/// Cuts events into batches of about [`BYTES_MAX`]. A larger event comes alone.
pub(super) fn cut(events: &[Event]) -> Vec<Range<usize>> {
    let (mut ranges, mut start, mut bytes) = (Vec::new(), 0, 0_usize);
    for (at, event) in events.iter().enumerate() {
        bytes = bytes.saturating_add(size(event));
        if bytes > BYTES_MAX && at > start {
            ranges.push(start..at);
            (start, bytes) = (at, size(event));
        }
    }
    if start < events.len() {
        ranges.push(start..events.len());
    }
    ranges
}

/// How many events the next read takes, after a read that took up to `rows`. Large events are read
/// few at a time, since all of them are in memory at once.
pub(super) fn rows_next(rows: usize, read: &[Event]) -> usize {
    let bytes: usize = read.iter().map(size).sum();
    if bytes > BYTES_MAX {
        (rows / 2).max(1)
    } else if read.len() >= rows {
        (rows * 2).min(ROWS_MAX)
    } else {
        rows
    }
}

/// The last event that is missing between a position and the next event. `None` if none is.
///
/// Events up to `trimmed` were dropped for their age. Without such a drop, an event can be missing
/// if somebody deleted it in the database.
pub(super) fn gap_before(
    after: Position,
    trimmed: Position,
    next: Option<&Event>,
) -> Option<Position> {
    if trimmed > after {
        return Some(trimmed);
    }
    let next = next.filter(|next| !next.follows(after))?;
    let before = next.position.number.saturating_sub(1);
    Some(Position::new(next.position.epoch.0, before))
}

#[cfg(test)]
mod tests {
    use storage_model::{Bytes, Note, Owner, Partition, Version};

    use super::*;

    fn note(number: u64, bytes: usize) -> Event {
        Event {
            partition: Partition(0),
            position: Position::new(2, number),
            content: Content::Note(Note {
                owner: Owner::new("a", "r", "t", "1").unwrap(),
                version: Version::ZERO,
                previous: None,
                counters: Vec::new(),
                body: Bytes::from(vec![0; bytes]),
            }),
        }
    }

    #[test]
    fn a_batch_has_about_a_mebibyte_and_a_larger_event_comes_alone() {
        let half = BYTES_MAX / 2 - 256;
        let sizes = [1, 1, half, half, half, BYTES_MAX, 1];
        let events: Vec<Event> = sizes.iter().map(|bytes| note(1, *bytes)).collect();
        assert_eq!(cut(&events), [0..3, 3..5, 5..6, 6..7]);
        assert_eq!(cut(&[]), []);
    }

    #[test]
    fn large_events_are_read_few_at_a_time() {
        let small = |count: usize| vec![note(1, 1); count];
        assert_eq!(rows_next(64, &small(64)), 128);
        assert_eq!(rows_next(64, &small(63)), 64);
        assert_eq!(rows_next(ROWS_MAX, &small(ROWS_MAX)), ROWS_MAX);
        assert_eq!(rows_next(64, &vec![note(1, BYTES_MAX); 3]), 32);
        assert_eq!(rows_next(1, &[note(1, BYTES_MAX)]), 1);
    }

    #[test]
    fn missing_events_are_found_whoever_dropped_them() {
        let at = Position::new;
        let next = |number| Some(note(number, 1));
        let gap = |after, trimmed, next: Option<Event>| gap_before(after, trimmed, next.as_ref());
        assert_eq!(gap(at(1, 4), Position::ZERO, next(5)), None);
        assert_eq!(gap(at(1, 4), at(1, 4), next(5)), None);
        assert_eq!(gap(at(1, 4), at(1, 7), next(8)), Some(at(1, 7)));
        assert_eq!(gap(at(1, 4), at(1, 7), None), Some(at(1, 7)));
        assert_eq!(gap(at(1, 4), at(1, 2), next(8)), Some(at(2, 7)));
        assert_eq!(gap(Position::ZERO, at(2, 3), next(4)), Some(at(2, 3)));
        assert_eq!(gap(at(1, 4), Position::ZERO, None), None);
    }
}
