//! Chains: each link was put after the one that its writer saw, by compare-and-set. A lost update
//! shows as a fork or a gap.

use std::collections::{BTreeMap, HashSet};

use super::{Flaw, Rewind, era_of};
use crate::torture::history::{Call, End, Operation};
use crate::torture::moment::Micros;

struct Link<'a> {
    token: &'a str,
    behind: &'a str,
    number: u64,
    begun: Micros,
    ended: Micros,
    era: Option<usize>,
}

/// The stored end of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The number of the last link. 0 if there is none.
    pub number: u64,
    /// Its token.
    pub token: String,
}

/// Checks one chain. `landed` is its end in the database at each rewind, and `last` its stored end
/// after the run.
#[must_use]
pub fn check(
    name: &str,
    operations: &[&Operation],
    rewinds: &[Rewind],
    landed: &[Stored],
    last: &Stored,
) -> Option<Flaw> {
    let flaw = |at: Micros, detail: String| Some(Flaw::new("V6", name, detail).at(at));
    let mut unknown: HashSet<&str> = HashSet::new();
    let mut links: Vec<Link<'_>> = Vec::new();
    for operation in operations {
        let (begun, ended) = (operation.begun, operation.ended);
        match (&operation.call, &operation.end) {
            (Call::Append(token), End::Appended { behind, number }) => {
                let era = era_of(rewinds, begun, ended);
                if era.is_none() {
                    unknown.insert(token);
                }
                links.push(Link {
                    token,
                    behind,
                    number: *number,
                    begun,
                    ended,
                    era,
                });
            }
            (Call::Append(token), End::Unknown(_) | End::Applied(_)) => {
                unknown.insert(token);
            }
            _ => {}
        }
    }
    for era in 0..=rewinds.len() {
        let mut by_number: BTreeMap<u64, &Link<'_>> = BTreeMap::new();
        for link in links.iter().filter(|link| link.era == Some(era)) {
            if let Some(other) = by_number.insert(link.number, link) {
                return flaw(
                    link.ended,
                    format!(
                        "{} and {} are both link {}",
                        other.token, link.token, link.number
                    ),
                );
            }
        }
        let floor = era
            .checked_sub(1)
            .and_then(|before| landed.get(before))
            .map_or(0, |stored| stored.number);
        let mut before: Option<&Link<'_>> = None;
        for link in by_number.values() {
            let fits = match before {
                Some(before) if before.number + 1 == link.number => before.token == link.behind,
                Some(before) => {
                    let gap =
                        usize::try_from(link.number - before.number - 1).unwrap_or(usize::MAX);
                    gap <= unknown.len() && unknown.contains(link.behind)
                }
                None if era == 0 => {
                    (link.number == 1) == link.behind.is_empty()
                        && (link.number == 1 || unknown.contains(link.behind))
                }
                None => link.number > floor,
            };
            if !fits {
                let seen = before.map(|before| (before.number, before.token));
                let detail = format!(
                    "{} became link {} behind {:?}; known before it: {seen:?}, landed: {floor}",
                    link.token, link.number, link.behind
                );
                return flaw(link.ended, detail);
            }
            if let Some(before) = before.filter(|before| before.begun > link.ended) {
                return flaw(
                    link.ended,
                    format!(
                        "link {} was put there after link {}",
                        before.number, link.number
                    ),
                );
            }
            before = Some(link);
        }
        if era == rewinds.len() {
            let newest = before.map_or((floor, ""), |link| (link.number, link.token));
            let fits = if last.number == newest.0 {
                newest.1.is_empty() || newest.1 == last.token
            } else {
                last.number > newest.0 && unknown.contains(last.token.as_str())
            };
            // If no link came after a rewind, the chain may end with any link from before.
            if !(fits || (before.is_none() && era > 0 && last.number >= floor)) {
                return flaw(
                    Micros::MAX,
                    format!("{last:?} is stored; the last acknowledged link was {newest:?}"),
                );
            }
        }
    }
    None
}
