//! From marks to rows: what one landing transaction takes. Pure functions.

use std::collections::{BTreeMap, HashMap};

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

/// The rows that a part's marked fields became: of each that the hash holds, under the owner's version that was read with it (R3). By
/// owner and field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// Of each row, when its owner's hash was born.
    pub births: Vec<Version>,
    /// Owners of whom nothing is to be landed, since their marks have landed at the version that they still have.
    pub landed: BTreeMap<Owner, Version>,
}

/// Pairs what was wanted, as [`Part::wanted`] lists it, with what was read.
#[must_use]
pub fn rows(part: &Part, wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let (mut out, landed) = (Rows::default(), landed(part));
    for ((owner, _), read) in wanted.iter().zip(&collected.reads) {
        let Some(Header { version, born, .. }) = read.header else { continue };
        if landed.get(owner).is_some_and(|landed| *landed == version || broken("R17-still")) {
            out.landed.insert(owner.clone(), version);
            continue;
        }
        for (field, cell) in &read.cells {
            out.rows.push(Row { owner: owner.clone(), field: field.clone(), cell: cell.clone(), version });
            out.births.push(born.unwrap_or(version));
        }
    }
    out
}

/// The owners whose marks have all landed, and at which version.
fn landed(part: &Part) -> HashMap<&Owner, Version> {
    part.entries.chunk_by(|a, b| owner(a) == owner(b)).filter_map(landed_at).collect()
}

/// The owner of these marks, if there is one that has landed, and at which version.
fn landed_at(marks: &[Entry]) -> Option<(&Owner, Version)> {
    match marks {
        [Entry { mark: Some(mark), version, landed: true, .. }] => Some((&mark.owner, *version)),
        _ => None,
    }
}

impl Rows {
    /// The version of the row of a field, and when its owner's hash was born; `at` is where it is looked for first, and becomes the place
    /// behind it.
    fn find(&self, owner: &Owner, field: &Field, at: &mut usize) -> Option<(Version, Version)> {
        if self.rows.get(*at).is_none_or(|row| (&row.owner, &row.field) != (owner, field)) {
            *at = self.rows.binary_search_by(|row| (&row.owner, &row.field).cmp(&(owner, field))).ok()?;
        }
        *at += 1;
        Some((self.rows.get(*at - 1)?.version, *self.births.get(*at - 1)?))
    }
}

/// What to do with a part's entries after its rows were landed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Entries to settle, with the versions at which their owners were read.
    pub settle: Vec<(Entry, Version)>,
    /// Fields whose rows are in the database, with their rows' versions, if that was asked for.
    pub rows: Vec<(Owner, Field, Version)>,
    /// Entries to park.
    pub park: Vec<Parked>,
}

/// Why single fields did not land: the database's number and message, or a reason of our own.
pub type Faults = HashMap<(Owner, Field), (u32, String)>;

/// Judges each entry by its fields: settled if each has landed, else parked with the faults.
///
/// A marked field has landed if its row has, and the hash that it was read from is the one that was marked: the mark lies between its
/// birth and its version (R6). What is missing, or was read from another hash, has vanished; a row that the database has proves nothing,
/// since later writes of the fields may have left the mark as it was. Rows are named only where there are error marks that they may
/// clear.
#[must_use]
pub fn judge(part: &Part, rows: &Rows, faults: &Faults, has_errors: bool) -> Verdict {
    let mut verdict = Verdict { settle: Vec::with_capacity(part.entries.len()), ..Verdict::default() };
    // Entries and rows are both in the order of their owners.
    let mut at = 0;
    for entry in &part.entries {
        let source = || (!part.replay).then(|| entry.clone());
        let Some(mark) = &entry.mark else {
            verdict.park.push(Parked { source: source(), read: Version::MAX, owner: None, faults: vec![] });
            continue;
        };
        if let Some(version) = rows.landed.get(&mark.owner) {
            verdict.settle.push((entry.clone(), *version));
            continue;
        }
        let mut read = Version::MAX;
        let mut found = Vec::new();
        for field in &mark.fields {
            let row = rows.find(&mark.owner, field, &mut at);
            read = row.map_or(read, |(version, _)| version);
            let refused = if faults.is_empty() { None } else { faults.get(&(mark.owner.clone(), field.clone())) };
            match (refused, row) {
                (Some((code, message)), row) => {
                    let newest = row.map(|(version, _)| version).filter(|_| !broken("R5-marks-error"));
                    let version = newest.map_or(entry.version, |version| version.max(entry.version));
                    found.push(Fault { field: field.clone(), version, code: *code, message: message.clone() });
                }
                (None, Some((version, born))) if is_of(entry.version, born, version) => {
                    if has_errors || part.replay {
                        verdict.rows.push((mark.owner.clone(), field.clone(), version));
                    }
                }
                _ if broken("R6-unproven") => {}
                _ => found.push(Fault { field: field.clone(), version: entry.version, code: 0, message: VANISHED.to_owned() }),
            }
        }
        if !found.is_empty() {
            verdict.park.push(Parked { source: source(), read, owner: Some(mark.owner.clone()), faults: found });
        } else if !part.replay {
            verdict.settle.push((entry.clone(), read));
        }
    }
    verdict
}

/// Why a mark is parked whose write nobody has any more.
const VANISHED: &str = "vanished: marked, but the hot tier lost the hash of this write, perhaps before it landed";

/// Whether a mark is of the hash that was born and has the version then.
fn is_of(mark: Version, born: Version, version: Version) -> bool {
    (mark > born || broken("R6-reborn")) && (mark <= version || broken("R6-older-row"))
}

#[cfg(test)]
mod tests {
    use storage_dirty::HotRead;
    use storage_model::{Bytes, Cell, Epoch};

    use super::*;

    fn part(partition: u32, owners: &[&str]) -> Part {
        let entry = |(at, id): (usize, &&str)| {
            let mark = Mark { owner: Owner::new("a", "r", "t", id).unwrap(), fields: vec![Field::new(&at.to_string()).unwrap()] };
            Entry { raw: Bytes::from(format!("{id} {at}")), mark: Some(mark), version: Version::new(1).unwrap(), landed: false }
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
        let births = vec![Version::ZERO; rows.len()];
        let rows = Rows { rows, births, ..Rows::default() };
        // Above its own row's version, but not above others'.
        part.entries[2].version = version(13);
        let judged = |part: &Part, has_errors| judge(part, &rows, &Faults::new(), has_errors);
        let verdict = judged(&part, true);
        assert_eq!(verdict.rows.iter().map(|(_, _, version)| version.get()).collect::<Vec<_>>(), [10, 11, 13, 14]);
        assert_eq!((verdict.settle.len(), verdict.park.len()), (4, 1), "the row of d is older than its mark");
        assert!(judged(&part, false).rows.is_empty(), "no error mark is there to be cleared");
        part.replay = true;
        assert_eq!(judged(&part, false).rows.len(), 4, "error marks are tried again");
    }

    #[test]
    fn a_mark_is_of_a_hash_between_its_birth_and_its_version_and_any_other_has_vanished() {
        let version = |number| Version::new(number).unwrap();
        let mut part = part(0, &["a"]);
        let Mark { owner, fields } = part.entries[0].mark.clone().unwrap();
        let row = Row { owner: owner.clone(), field: fields[0].clone(), cell: Cell::Live(Bytes::new()), version: version(9) };
        let rows = Rows { rows: vec![row], births: vec![version(4)], ..Rows::default() };
        for (mark, parks) in [(4, 1), (5, 0), (9, 0), (10, 1)] {
            part.entries[0].version = version(mark);
            let verdict = judge(&part, &rows, &Faults::new(), true);
            assert_eq!((verdict.park.len(), verdict.settle.len(), verdict.rows.len()), (parks, 1 - parks, 1 - parks), "{mark}");
        }
        assert_eq!(judge(&part, &Rows::default(), &Faults::new(), true).park[0].faults[0].version, version(10));
        part.entries[0].version = version(5);
        let refused = Faults::from([((owner, fields[0].clone()), (1_406, "too long".to_owned()))]);
        let parked = judge(&part, &rows, &refused, true).park;
        assert_eq!(parked[0].faults[0].version, version(9), "the row's that was refused");
    }

    #[test]
    fn an_owner_that_still_has_the_version_at_which_its_mark_has_landed_is_settled_without_a_row() {
        let mut part = part(0, &["a", "b", "c"]);
        let version = |number| Version::new(number).unwrap();
        for (entry, landed) in part.entries.iter_mut().zip([true, true, false]) {
            (entry.version, entry.landed) = (version(5), landed);
        }
        let (epoch, born, cell) = (Epoch(1), Some(version(1)), Cell::Live(Bytes::new()));
        let header = Header { version: version(5), complete: true, generation: epoch, suspect: false, marks: None, born };
        let wanted = part.wanted();
        let read = |(owner, version)| {
            let (_, fields): &(Owner, Vec<Field>) = owner;
            let cells = vec![(fields[0].clone(), cell.clone())];
            HotRead { header: Some(Header { version, ..header }), cells }
        };
        let reads = wanted.iter().zip([5, 7, 5].map(version)).map(read).collect();
        let zero = Version::ZERO;
        let collected = Collected { epoch, landed: zero, reaches: zero, database: None, has_errors: false, reads };
        let rows = rows(&part, &wanted, &collected);
        assert_eq!(rows.rows.iter().map(|row| row.owner.id()).collect::<Vec<_>>(), ["b", "c"]);
        let verdict = judge(&part, &rows, &Faults::new(), false);
        assert_eq!(verdict.settle.iter().map(|(_, read)| read.get()).collect::<Vec<_>>(), [5, 7, 5]);
        let gone = Collected { reads: vec![HotRead::default(); 3], ..collected };
        assert_eq!(
            judge(&part, &super::rows(&part, &wanted, &gone), &Faults::new(), false).park.len(),
            3,
            "without a hash all vanished"
        );
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
