//! V1 and V4: versions follow time. An operation that ended before another began has no higher
//! version.

use super::{Flaw, Rewind, era_of};
use crate::torture::history::{Call, End, Operation};
use crate::torture::moment::Micros;

struct Seen<'a> {
    operation: &'a Operation,
    version: u64,
    /// The operation made the version, so no other operation has the same one.
    made: bool,
}

fn seen(operation: &Operation) -> Option<Seen<'_>> {
    let (version, made) = match (&operation.call, &operation.end) {
        (
            Call::Write { .. },
            End::Acked {
                version, changed, ..
            },
        ) => (*version, *changed > 0),
        (Call::Read(_), End::Found { version, .. }) => (*version, false),
        _ => return None,
    };
    Some(Seen {
        operation,
        version,
        made,
    })
}

/// Checks the operations of one owner.
#[must_use]
pub fn check(name: &str, operations: &[&Operation], rewinds: &[Rewind]) -> Option<Flaw> {
    (0..=rewinds.len()).find_map(|era| {
        let in_era = |operation: &&&Operation| {
            era_of(rewinds, operation.begun, operation.ended) == Some(era)
        };
        let begun: Vec<Seen<'_>> = operations
            .iter()
            .filter(in_era)
            .filter_map(|operation| seen(operation))
            .collect();
        in_order(name, begun)
    })
}

fn in_order(name: &str, mut by_begin: Vec<Seen<'_>>) -> Option<Flaw> {
    by_begin.sort_by_key(|seen| seen.operation.begun);
    let mut by_end: Vec<(Micros, u64, usize)> = by_begin
        .iter()
        .enumerate()
        .map(|(at, seen)| (seen.operation.ended, seen.version, at))
        .collect();
    by_end.sort_unstable();
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<(u64, usize)> = None;
    for seen in &by_begin {
        while let Some((_, version, at)) =
            ended.next_if(|(ended, ..)| *ended < seen.operation.begun)
        {
            newest = newest.max(Some((version, at)));
        }
        let Some((version, at)) = newest else {
            continue;
        };
        if seen.version < version || (seen.made && seen.version == version) {
            let before = by_begin.get(at).map(|seen| seen.operation);
            let detail = format!(
                "version {} at {} came after version {version}: {:?} {:?}, before it {before:?}",
                seen.version, seen.operation.begun, seen.operation.call, seen.operation.end
            );
            return Some(
                Flaw::new(if seen.made { "V1" } else { "V4" }, name, detail)
                    .at(seen.operation.ended),
            );
        }
    }
    None
}

/// V9 of conditions, over the operations of an owner's only writer. A write that builds on the last
/// version of its writer meets no conflict, unless a write of unknown outcome may have come in
/// between.
#[must_use]
pub fn check_conflicts(name: &str, operations: &[&Operation], rewinds: &[Rewind]) -> Option<Flaw> {
    let mut known: Option<(u64, Option<usize>)> = None;
    let mut unknown_until = 0;
    for operation in operations {
        let era = era_of(rewinds, operation.begun, operation.ended);
        match (&operation.call, &operation.end) {
            (
                Call::Write {
                    if_version: Some(version),
                    ..
                },
                End::Conflict,
            ) if era.is_some()
                && known == Some((*version, era))
                && operation.begun > unknown_until =>
            {
                let detail = format!(
                    "a write on version {version} at {} met a conflict, and nothing came between",
                    operation.begun
                );
                return Some(Flaw::new("V9", name, detail));
            }
            (Call::Write { .. }, End::Acked { version, .. })
            | (Call::Read(_), End::Found { version, .. }) => {
                known = Some((*version, era));
            }
            // It may have been applied, so nobody knows the version. It may also be applied later.
            (Call::Write { .. }, End::Unknown(_)) => {
                known = None;
                unknown_until = unknown_until.max(operation.expires);
            }
            (Call::Write { .. }, End::Applied(_)) => known = None,
            _ => {}
        }
    }
    None
}
