//! From marks to rows: what one landing transaction takes. Pure functions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use storage_dirty::{Collected, Entry, Fault, Parked};
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
        let mut wanted: BTreeMap<&Owner, BTreeSet<&Field>> = BTreeMap::new();
        for mark in self.entries.iter().filter_map(|entry| entry.mark.as_ref()) {
            wanted.entry(&mark.owner).or_default().extend(&mark.fields);
        }
        wanted.into_iter().map(|(owner, fields)| (owner.clone(), fields.into_iter().cloned().collect())).collect()
    }

    /// How many rows the entries may become.
    fn weight(entry: &Entry) -> usize {
        entry.mark.as_ref().map_or(1, |mark| mark.fields.len())
    }
}

/// Cuts parts into groups of at most about `rows` rows each. Entries of one owner stay together (R16); an entry that the scan
/// brought twice is kept once (H30).
#[must_use]
pub fn cut(parts: Vec<Part>, rows: usize) -> Vec<Vec<Part>> {
    let mut groups = Vec::new();
    let mut group: Vec<Part> = Vec::new();
    let mut weight = 0;
    for part in parts {
        for entries in by_owner(part.entries) {
            if weight >= rows {
                groups.push(std::mem::take(&mut group));
                weight = 0;
            }
            weight += entries.iter().map(Part::weight).sum::<usize>();
            match group.last_mut().filter(|last| last.partition == part.partition) {
                Some(last) => last.entries.extend(entries),
                None => group.push(Part { partition: part.partition, entries, replay: part.replay }),
            }
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

fn by_owner(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    if broken("R16-cut") {
        return entries.into_iter().map(|entry| vec![entry]).collect();
    }
    let mut seen = HashSet::new();
    let mut owners: BTreeMap<Option<Owner>, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        if seen.insert(entry.raw.clone()) {
            owners.entry(entry.mark.as_ref().map(|mark| mark.owner.clone())).or_default().push(entry);
        }
    }
    owners.into_values().collect()
}

/// The rows that a part's marked fields became, and the marked fields that the hot tier does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rows {
    /// A row for each marked field that the hash holds, under the owner's version that was read with it (R3).
    pub rows: Vec<Row>,
    /// Marked fields without a value: landed by somebody else and evicted, or vanished (R6).
    pub missing: Vec<(Owner, Field)>,
}

/// Pairs what was wanted with what was read.
#[must_use]
pub fn rows(wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let mut out = Rows::default();
    for ((owner, fields), read) in wanted.iter().zip(&collected.reads) {
        let version = read.header.map(|header| header.version);
        let cells: HashMap<_, _> = read.cells.iter().map(|(field, cell)| (field, cell)).collect();
        for field in fields {
            match (version, cells.get(field)) {
                (Some(version), Some(cell)) => {
                    out.rows.push(Row { owner: owner.clone(), field: field.clone(), cell: (*cell).clone(), version });
                }
                _ => out.missing.push((owner.clone(), field.clone())),
            }
        }
    }
    out
}

/// What to do with a part's entries after its rows were landed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Entries to settle, with the versions they had.
    pub settle: Vec<(Entry, Version)>,
    /// Fields whose rows are in the database, with their rows' versions.
    pub rows: Vec<(Owner, Field, Version)>,
    /// Entries to park.
    pub park: Vec<Parked>,
}

/// Why single fields did not land: the database's number and message, or a reason of our own.
pub type Faults = HashMap<(Owner, Field), (u32, String)>;

/// Judges each entry by its fields: settled if each has landed (`landed` holds the row versions), else parked with the faults.
///
/// A marked field that the hot tier lacked counts as landed only if its row is at least as new as the mark (R6).
#[must_use]
pub fn judge(part: &Part, landed: &HashMap<(Owner, Field), Version>, faults: &Faults) -> Verdict {
    let mut verdict = Verdict::default();
    for entry in &part.entries {
        let source = (!part.replay).then(|| entry.clone());
        let Some(mark) = &entry.mark else {
            verdict.park.push(Parked { source, owner: None, faults: vec![] });
            continue;
        };
        let mut found = Vec::new();
        for field in &mark.fields {
            let key = (mark.owner.clone(), field.clone());
            let fault = match (landed.get(&key), faults.get(&key)) {
                (_, Some((code, message))) => Some((*code, message.clone())),
                (Some(version), None) if *version >= entry.version || broken("R6-older-row") => {
                    verdict.rows.push((key.0, key.1, *version));
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
            verdict.park.push(Parked { source, owner: Some(mark.owner.clone()), faults: found });
        } else if !part.replay {
            verdict.settle.push((entry.clone(), entry.version));
        }
    }
    verdict
}
