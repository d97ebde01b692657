//! From marks to rows: the content of one landing transaction. Pure functions.

use std::collections::{BTreeSet, HashMap};

use storage_dirty::{Collected, Entry, Fault, Header, LandedRow, Mark, Rejected, SnapshotId};
use storage_model::sabotage::keeps;
use storage_model::{Epoch, Event, Field, Owner, Partition, Position, Row, Version};

/// Marks of one partition that land together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LandingPart {
    /// The partition.
    pub partition: Partition,
    /// The snapshot that the entries were read from. Ignored in a replay.
    pub snapshot: SnapshotId,
    /// Snapshot entries. In a replay, one entry for each error mark.
    pub entries: Vec<Entry>,
    /// Whether the entries are error marks that are tried again.
    pub replay: bool,
    /// Notes to land with the rows.
    pub notes: Option<PartNotes>,
}

/// Notes of a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartNotes {
    /// The end of the feed, or the last note of the part before.
    pub after: Position,
    /// The epoch in which the notes were read.
    pub epoch: Epoch,
    /// The notes behind it, in their order.
    pub events: Vec<Event>,
    /// Dirty marks of the notes' owners. Their rows land, too, so that no event is ahead of its row.
    /// The marks stay for the next snapshot.
    pub marked: Vec<Entry>,
}

impl LandingPart {
    /// How many entries and notes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        let notes = self.notes.as_ref().map_or(0, |notes| notes.events.len());
        self.entries.len() + notes
    }

    /// The part without its notes.
    #[must_use]
    pub fn without_notes(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            notes: None,
            ..*self
        }
    }

    /// The owners and fields that the entries and the notes' marks name, each once, in the order of
    /// owners. Marks that were put aside name fields of a lost hash, which is not read.
    #[must_use]
    pub fn wanted(&self) -> Vec<(Owner, Vec<Field>)> {
        let dirty = self.notes.iter().flat_map(|notes| &notes.marked);
        let mut marks: Vec<&Mark> = self
            .entries
            .iter()
            .chain(dirty)
            .filter(|entry| !entry.is_aside())
            .filter_map(|entry| entry.mark.as_ref())
            .collect();
        marks.sort_by_key(|mark| &mark.owner);
        marks
            .chunk_by(|a, b| a.owner == b.owner)
            .filter_map(of_owner)
            .collect()
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

/// How many rows an entry can become.
fn weight(entry: &Entry) -> usize {
    entry.mark.as_ref().map_or(1, |mark| mark.fields.len())
}

/// Cuts parts into groups of about `rows` rows each. The groups are as even as possible, because a
/// transaction of a few rows costs as much as one of many. Entries of one owner stay together
/// (R16), including those that were put aside and its error marks. An entry that the scan brought
/// twice is kept once (H30).
#[must_use]
pub fn cut(mut parts: Vec<LandingPart>, rows: usize) -> Vec<Vec<LandingPart>> {
    for part in &mut parts {
        // By owner, and then by mark, because error marks of one owner share a name.
        part.entries
            .sort_by(|a, b| (&a.mark, &a.raw).cmp(&(&b.mark, &b.raw)));
        part.entries
            .dedup_by(|later, kept| later.raw == kept.raw && later.mark == kept.mark);
    }
    let all: usize = parts
        .iter()
        .flat_map(|part| &part.entries)
        .map(weight)
        .sum();
    let rows = rows.max(1);
    let enough = all.div_ceil((all.saturating_add(rows / 2) / rows).max(1));
    let (mut groups, mut group, mut taken) = (Vec::new(), Vec::<LandingPart>::new(), 0);
    for LandingPart {
        partition,
        snapshot,
        entries,
        replay,
        notes,
    } in parts
    {
        for entry in entries {
            let open = group.last_mut().filter(|last| last.partition == partition);
            let together = open
                .as_ref()
                .and_then(|open| open.entries.last())
                .is_some_and(|before| belong(before, &entry));
            let weight = weight(&entry);
            match open {
                Some(open) if taken < enough || together => open.entries.push(entry),
                _ => {
                    if taken >= enough {
                        groups.push(std::mem::take(&mut group));
                        taken = 0;
                    }
                    group.push(LandingPart {
                        partition,
                        snapshot,
                        entries: vec![entry],
                        replay,
                        notes: None,
                    });
                }
            }
            taken += weight;
        }
        let Some(notes) = notes else { continue };
        taken += notes.events.len();
        let empty = LandingPart {
            partition,
            snapshot,
            entries: Vec::new(),
            replay,
            notes: None,
        };
        put_notes(&mut group, empty, notes);
    }
    groups.extend((!group.is_empty()).then_some(group));
    groups
}

/// Puts notes to the last rows of their part, or to an empty part. The rows before them are ahead
/// until then.
fn put_notes(group: &mut Vec<LandingPart>, empty: LandingPart, notes: PartNotes) {
    let last = group.last_mut();
    match last.filter(|last| last.partition == empty.partition) {
        Some(last) => last.notes = Some(notes),
        None => group.push(LandingPart {
            notes: Some(notes),
            ..empty
        }),
    }
}

fn owner(entry: &Entry) -> Option<&Owner> {
    entry.mark.as_ref().map(|mark| &mark.owner)
}

/// Whether two entries must go into one transaction.
fn belong(one: &Entry, other: &Entry) -> bool {
    owner(one).is_some() && owner(one) == owner(other)
}

/// The halves of a part, about as large as each other, without its notes. `None` for the entries of
/// a single owner, which stay together.
#[must_use]
pub fn halves(part: &LandingPart) -> Option<[LandingPart; 2]> {
    let middle = part.entries.len() / 2;
    let pairs = part.entries.windows(2).zip(1..);
    let between = pairs.filter(|(pair, _)| !matches!(pair, [one, other] if belong(one, other)));
    let (_, at) = between.min_by_key(|(_, at)| middle.abs_diff(*at))?;
    let (left, right) = part.entries.split_at_checked(at)?;
    let half = |entries: &[Entry]| LandingPart {
        entries: entries.to_vec(),
        notes: None,
        ..*part
    };
    Some([half(left), half(right)])
}

/// The rows of a part's marked fields that the hash holds. Each has the owner's version that was
/// read with it (R3). In the order of owner and field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// For each row, the birth of its owner's hash. Zero if the hash does not tell.
    pub births: Vec<Version>,
}

/// Pairs the requested fields, as [`LandingPart::wanted`] lists them, with the collected reads.
#[must_use]
pub fn rows(wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let mut out = Rows::default();
    for ((owner, _), read) in wanted.iter().zip(&collected.reads) {
        let Some(Header { version, born, .. }) = read.header else {
            continue;
        };
        for (field, cell) in &read.cells {
            out.rows.push(Row {
                owner: owner.clone(),
                field: field.clone(),
                cell: cell.clone(),
                version,
            });
            out.births.push(born);
        }
    }
    out
}

impl Rows {
    /// The version of a field's row, and the birth of its owner's hash. The search begins at `at`,
    /// which then becomes the next place.
    fn find(&self, owner: &Owner, field: &Field, at: &mut usize) -> Option<(Version, Version)> {
        if self
            .rows
            .get(*at)
            .is_none_or(|row| (&row.owner, &row.field) != (owner, field))
        {
            *at = self
                .rows
                .binary_search_by(|row| (&row.owner, &row.field).cmp(&(owner, field)))
                .ok()?;
        }
        *at += 1;
        Some((self.rows.get(*at - 1)?.version, *self.births.get(*at - 1)?))
    }
}

/// How to treat a part's entries after its rows landed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Entries to settle.
    pub settle: Vec<Entry>,
    /// Rows that are in the database now. Empty if no error mark needs them.
    pub rows: Vec<LandedRow>,
    /// Entries to move to the error map.
    pub reject: Vec<Rejected>,
}

/// Why single fields did not land: the database's number and message, or a reason of the storage.
pub type Faults = HashMap<(Owner, Field), (u32, String)>;

/// Judges each entry by its fields. The entry is settled if each field has landed. Otherwise it
/// goes to the error map with the faults.
///
/// A marked field has landed if its row has, and if the hash that it was read from is the one that
/// was marked. That is so if the mark was not put aside and does not lie below the hash's birth or
/// above its version (R6). A field that is missing, or was read from another hash, has vanished.
/// The verdict names rows only if error marks may need clearing.
#[must_use]
pub fn judge(part: &LandingPart, rows: &Rows, faults: &Faults, has_errors: bool) -> Verdict {
    let mut verdict = Verdict {
        settle: Vec::with_capacity(part.entries.len()),
        ..Verdict::default()
    };
    // Entries and rows are both sorted by owner.
    let mut at = 0;
    for entry in &part.entries {
        let source = || (!part.replay).then(|| entry.clone());
        let Some(mark) = &entry.mark else {
            verdict.reject.push(Rejected {
                leaves: Vec::new(),
                source: source(),
                owner: None,
                faults: vec![],
            });
            continue;
        };
        let mut found = Vec::new();
        for field in &mark.fields {
            let row = rows.find(&mark.owner, field, &mut at);
            let refused = if faults.is_empty() {
                None
            } else {
                faults.get(&(mark.owner.clone(), field.clone()))
            };
            match (refused, row) {
                (Some((code, message)), row) if !entry.is_aside() => {
                    let version =
                        row.map_or(entry.version, |(version, _)| version.max(entry.version));
                    found.push(Fault {
                        field: field.clone(),
                        version,
                        code: *code,
                        message: message.clone(),
                    });
                }
                (None, row) if keeps("R6-unproven", row.is_some_and(|row| is_of(entry, row))) => {
                    if let Some((version, _)) = row
                        && (has_errors || part.replay)
                    {
                        verdict.rows.push(LandedRow {
                            owner: mark.owner.clone(),
                            field: field.clone(),
                            version,
                            from: Version::ZERO,
                        });
                    }
                }
                _ => found.push(Fault {
                    field: field.clone(),
                    version: entry.version,
                    code: 0,
                    message: VANISHED.to_owned(),
                }),
            }
        }
        if !found.is_empty() {
            verdict.reject.push(Rejected {
                leaves: Vec::new(),
                source: source(),
                owner: Some(mark.owner.clone()),
                faults: found,
            });
        } else if !part.replay {
            verdict.settle.push(entry.clone());
        }
    }
    verdict
}

/// The landed rows that no entry of the part names. They clear error marks, too (R16).
#[must_use]
pub fn landed_beside(part: &LandingPart, rows: &Rows, faults: &Faults) -> Vec<LandedRow> {
    let marks = part.entries.iter().filter_map(|entry| entry.mark.as_ref());
    let fields = marks.flat_map(|mark| mark.fields.iter().map(|field| (&mark.owner, field)));
    let own: BTreeSet<(&Owner, &Field)> = fields.collect();
    let is_beside = |row: &&Row, faults: &Faults| {
        !own.contains(&(&row.owner, &row.field))
            && !faults.contains_key(&(row.owner.clone(), row.field.clone()))
    };
    let births = rows.rows.iter().zip(&rows.births);
    let beside = births.filter(|(row, _)| is_beside(row, faults));
    let landed = beside.map(|(row, born)| LandedRow {
        owner: row.owner.clone(),
        field: row.field.clone(),
        version: row.version,
        from: *born,
    });
    landed.collect()
}

/// The fault of a mark whose written value is gone.
const VANISHED: &str =
    "vanished: the hot tier lost the hash of this marked write, perhaps before it landed";

/// Whether a mark belongs to the hash with this version and birth.
fn is_of(mark: &Entry, (version, born): (Version, Version)) -> bool {
    let of_this_hash = !mark.is_aside() && born <= mark.version;
    keeps("R6-reborn", of_this_hash) && mark.version <= version
}

#[cfg(test)]
mod tests;
