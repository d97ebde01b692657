//! From marks to rows: what one landing transaction takes. Pure functions.

use std::collections::HashMap;

use storage_dirty::{Collected, Entry, Fault, Header, Mark, Parked};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Partition, Row, Version};

/// Marks of one partition that are landed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// The partition.
    pub partition: Partition,
    /// Snapshot entries; or, in a replay, one entry for each error mark.
    pub entries: Vec<Entry>,
    /// Whether the entries are error marks that are tried again.
    pub replay: bool,
}

impl Part {
    /// The owners and fields that the entries name, each once, by owner.
    #[must_use]
    pub fn wanted(&self) -> Vec<(Owner, Vec<Field>)> {
        let mut marks: Vec<&Mark> = self.entries.iter().filter_map(|entry| entry.mark.as_ref()).collect();
        marks.sort_by_key(|mark| &mark.owner);
        marks.chunk_by(|a, b| a.owner == b.owner).filter_map(of_owner).collect()
    }
}

/// The fields that the marks of one owner name.
fn of_owner(marks: &[&Mark]) -> Option<(Owner, Vec<Field>)> {
    let (first, others) = marks.split_first()?;
    let mut fields = first.fields.clone();
    if !others.is_empty() {
        fields.extend(others.iter().flat_map(|mark| &mark.fields).cloned());
        fields.sort_unstable();
        fields.dedup();
    }
    Some((first.owner.clone(), fields))
}

/// How many rows an entry may become.
fn weight(entry: &Entry) -> usize {
    entry.mark.as_ref().map_or(1, |mark| mark.fields.len())
}

/// Cuts parts into groups of about `rows` rows each, as even as can be: a transaction of the few that are left over costs as much as
/// one of many. Entries of one owner stay together (R16); an entry that the scan brought twice is kept once (H30).
#[must_use]
pub fn cut(mut parts: Vec<Part>, rows: usize) -> Vec<Vec<Part>> {
    for part in &mut parts {
        part.entries.sort_by(|a, b| (owner(a), &a.raw).cmp(&(owner(b), &b.raw)));
        part.entries.dedup_by(|later, kept| later.raw == kept.raw);
    }
    let all: usize = parts.iter().flat_map(|part| &part.entries).map(weight).sum();
    let rows = rows.max(1);
    let enough = all.div_ceil((all.saturating_add(rows / 2) / rows).max(1));
    let (mut groups, mut group, mut taken) = (Vec::new(), Vec::<Part>::new(), 0);
    for Part { partition, entries, replay } in parts {
        for entry in entries {
            let open = group.last_mut().filter(|last| last.partition == partition);
            let together = open.as_ref().and_then(|open| open.entries.last()).is_some_and(|before| belong(before, &entry));
            let weight = weight(&entry);
            match open {
                Some(open) if taken < enough || together => open.entries.push(entry),
                _ => {
                    if taken >= enough {
                        groups.push(std::mem::take(&mut group));
                        taken = 0;
                    }
                    group.push(Part { partition, entries: vec![entry], replay });
                }
            }
            taken += weight;
        }
    }
    groups.extend((!group.is_empty()).then_some(group));
    groups
}

fn owner(entry: &Entry) -> Option<&Owner> {
    entry.mark.as_ref().map(|mark| &mark.owner)
}

/// Whether two entries go into one transaction in any case.
fn belong(one: &Entry, other: &Entry) -> bool {
    owner(one).is_some() && owner(one) == owner(other) && !broken("R16-cut")
}

/// The rows that a part's marked fields became, and the marked fields that the hot tier does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rows {
    /// A row for each marked field that the hash holds, under the owner's version that was read with it (R3). By owner and field.
    pub rows: Vec<Row>,
    /// Marked fields without a value: landed by somebody else and evicted, or vanished (R6).
    pub missing: Vec<(Owner, Field)>,
}

/// Pairs what was wanted, as [`Part::wanted`] lists it, with what was read.
#[must_use]
pub fn rows(wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let mut out = Rows::default();
    for ((owner, fields), read) in wanted.iter().zip(&collected.reads) {
        // What was asked for and is there comes in the order asked.
        let mut cells = read.cells.iter().peekable();
        for field in fields {
            match (read.header, cells.next_if(|(found, _)| found == field)) {
                (Some(Header { version, .. }), Some((_, cell))) => {
                    out.rows.push(Row { owner: owner.clone(), field: field.clone(), cell: cell.clone(), version });
                }
                _ => out.missing.push((owner.clone(), field.clone())),
            }
        }
    }
    out
}

impl Rows {
    /// The version of the row of a field; `at` is where it is looked for first, and becomes the place behind it.
    fn version(&self, owner: &Owner, field: &Field, at: &mut usize) -> Option<Version> {
        if self.rows.get(*at).is_none_or(|row| (&row.owner, &row.field) != (owner, field)) {
            *at = self.rows.binary_search_by(|row| (&row.owner, &row.field).cmp(&(owner, field))).ok()?;
        }
        *at += 1;
        Some(self.rows.get(*at - 1)?.version)
    }
}

/// What to do with a part's entries after its rows were landed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Entries to settle, with the versions they had.
    pub settle: Vec<(Entry, Version)>,
    /// Fields whose rows are in the database, with their rows' versions, if that was asked for.
    pub rows: Vec<(Owner, Field, Version)>,
    /// Entries to park.
    pub park: Vec<Parked>,
}

/// Why single fields did not land: the database's number and message, or a reason of our own.
pub type Faults = HashMap<(Owner, Field), (u32, String)>;

/// The versions of rows that the database was asked for.
pub type Proofs = HashMap<(Owner, Field), Version>;

/// Judges each entry by its fields: settled if each has landed, else parked with the faults.
///
/// A marked field that the hot tier lacked counts as landed only if the row that was found is at least as new as the mark (R6). Rows
/// are named only where there are error marks that they may clear.
#[must_use]
pub fn judge(part: &Part, rows: &Rows, proofs: &Proofs, faults: &Faults, has_errors: bool) -> Verdict {
    let mut verdict = Verdict { settle: Vec::with_capacity(part.entries.len()), ..Verdict::default() };
    // Entries and rows are both in the order of their owners.
    let mut at = 0;
    for entry in &part.entries {
        let source = || (!part.replay).then(|| entry.clone());
        let Some(mark) = &entry.mark else {
            verdict.park.push(Parked { source: source(), owner: None, faults: vec![] });
            continue;
        };
        let mut found = Vec::new();
        for field in &mark.fields {
            let key = || (mark.owner.clone(), field.clone());
            let refused = if faults.is_empty() { None } else { faults.get(&key()) };
            let landed = rows.version(&mark.owner, field, &mut at).or_else(|| proofs.get(&key()).copied());
            let fault = match (refused, landed) {
                (Some((code, message)), _) => Some((*code, message.clone())),
                (None, Some(version)) if version >= entry.version || broken("R6-older-row") => {
                    if has_errors || part.replay {
                        verdict.rows.push((mark.owner.clone(), field.clone(), version));
                    }
                    None
                }
                _ if broken("R6-unproven") => None,
                _ => Some((0, "vanished: marked, but neither the hot tier nor the database holds this write".to_owned())),
            };
            if let Some((code, message)) = fault {
                found.push(Fault { field: field.clone(), version: entry.version, code, message });
            }
        }
        if !found.is_empty() {
            verdict.park.push(Parked { source: source(), owner: Some(mark.owner.clone()), faults: found });
        } else if !part.replay {
            verdict.settle.push((entry.clone(), entry.version));
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use storage_model::{Bytes, Cell};

    use super::*;

    fn part(partition: u32, owners: &[&str]) -> Part {
        let entry = |(at, id): (usize, &&str)| {
            let mark = Mark { owner: Owner::new("a", "r", "t", id).unwrap(), fields: vec![Field::new(&at.to_string()).unwrap()] };
            Entry { raw: Bytes::from(format!("{id} {at}")), mark: Some(mark), version: Version::default() }
        };
        Part { partition: Partition(partition), entries: owners.iter().enumerate().map(entry).collect(), replay: false }
    }

    fn sizes(groups: &[Vec<Part>]) -> Vec<Vec<usize>> {
        groups.iter().map(|group| group.iter().map(|part| part.entries.len()).collect()).collect()
    }

    #[test]
    fn groups_are_even_and_a_few_that_are_left_over_are_no_group() {
        let ten = part(0, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
        assert_eq!(sizes(&cut(vec![ten.clone()], 9)), [[10]]);
        assert_eq!(sizes(&cut(vec![ten.clone()], 4)), [[4], [4], [2]]);
        assert_eq!(sizes(&cut(vec![ten.clone()], 1)), [[1]; 10]);
        assert_eq!(sizes(&cut(vec![part(1, &["x"]), ten.clone(), part(2, &["y"])], 6)), [vec![1, 5], vec![5, 1]]);
        assert_eq!(sizes(&cut(vec![ten], usize::MAX)), [[10]]);
        assert!(cut(vec![part(0, &[])], 5).is_empty());
    }

    #[test]
    fn each_mark_is_judged_by_its_own_row_in_whatever_order_they_come() {
        let mut part = part(0, &["c", "a", "d", "b", "a"]);
        let version = |number| Version::new(number).unwrap();
        let row = |entry: &Entry, number| {
            let mark = entry.mark.clone().unwrap();
            Row { owner: mark.owner, field: mark.fields[0].clone(), cell: Cell::Live(Bytes::new()), version: version(number) }
        };
        let mut rows: Vec<Row> = part.entries.iter().zip(10..).map(|(entry, number)| row(entry, number)).collect();
        rows.sort_by(|a, b| (&a.owner, &a.field).cmp(&(&b.owner, &b.field)));
        let rows = Rows { rows, missing: Vec::new() };
        // Above its own row's version, but not above others'.
        part.entries[2].version = version(13);
        let judged = |part: &Part, has_errors| judge(part, &rows, &Proofs::new(), &Faults::new(), has_errors);
        let verdict = judged(&part, true);
        assert_eq!(verdict.rows.iter().map(|(_, _, version)| version.get()).collect::<Vec<_>>(), [10, 11, 13, 14]);
        assert_eq!((verdict.settle.len(), verdict.park.len()), (4, 1), "the row of d is older than its mark");
        assert!(judged(&part, false).rows.is_empty(), "no error mark is there to be cleared");
        part.replay = true;
        assert_eq!(judged(&part, false).rows.len(), 4, "error marks are tried again");
    }

    #[test]
    fn an_owner_is_in_one_group_and_an_entry_that_came_twice_in_it_once() {
        let mut entries = part(0, &["b", "a", "b", "a", "a", "c"]).entries;
        entries.extend(entries.clone());
        let groups = cut(vec![Part { partition: Partition(0), entries, replay: false }], 2);
        assert_eq!(sizes(&groups), [[3], [2], [1]]);
        let wanted: Vec<_> =
            groups.iter().flatten().flat_map(Part::wanted).map(|(owner, fields)| (owner.id().to_owned(), fields.len())).collect();
        assert_eq!(wanted, [("a".to_owned(), 3), ("b".to_owned(), 2), ("c".to_owned(), 1)]);
    }
}
