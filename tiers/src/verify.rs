//! Whether both tiers say the same of what has landed (H55): against what an operator, another
//! program or a fault did to either.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use storage_dirty::{Fields, Header, HotError, HotKind, HotRead, Read};
use storage_model::{Cell, Field, Owner, Row, Version};
use storage_sql::{ColdError, ColdKind, Loaded};

use crate::{TierError, Tiers};

/// How often owners are looked at that are written meanwhile.
const LOOKS_MAX: u32 = 5;

/// How the tiers differ about an owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Whose data.
    pub owner: Owner,
    /// Of which field, if it is one's.
    pub field: Option<Field>,
    /// In which way; never a value.
    pub difference: Difference,
}

/// A difference that landing does not make good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Difference {
    /// The row is newer than the whole hash, which nothing says is older than it should be.
    Ahead {
        /// The row's version.
        row: Version,
        /// The hash's.
        hash: Version,
    },
    /// The hash has landed, and holds something else than its row.
    Differs,
    /// The hash has landed and says that it has all fields, but lacks this one.
    NotHot,
    /// The hash has landed, but there is no row.
    NotCold,
    /// The hash holds what no version of this program wrote.
    HotUnreadable,
    /// A row is as no version of this program wrote it.
    ColdUnreadable,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict: {}", self.owner)?;
        if let Some(field) = &self.field {
            write!(f, " field {:?}", field.as_str())?;
        }
        match self.difference {
            Difference::Ahead { row, hash } => write!(
                f,
                ": the row is ahead, version {row}, of the hot tier's {hash}"
            ),
            Difference::Differs => f.write_str(": has landed, and the row holds something else"),
            Difference::NotHot => {
                f.write_str(": has a row, and is missing from a hash that has all fields")
            }
            Difference::NotCold => f.write_str(": has landed, and has no row"),
            Difference::HotUnreadable => f.write_str(": its hash can't be read"),
            Difference::ColdUnreadable => f.write_str(": a row of it can't be read"),
        }
    }
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    /// Owners whose hash was compared with their rows.
    pub owners: u64,
    /// Owners that only the database holds, or whose hash is suspect and is compared before it is
    /// used.
    pub cold: u64,
    /// Owners that were written at every look.
    pub moving: u64,
    /// By owner and field.
    pub conflicts: Vec<Conflict>,
}

/// What one look at an owner, in both tiers, found.
enum Look {
    /// It was written meanwhile.
    Moves,
    /// Only the database holds it, or it is compared before it is used.
    Cold,
    /// One of the tiers can't be read.
    Unreadable(Difference),
    /// In what the tiers differ, of which field if it is one's.
    Compared(Vec<(Option<Field>, Difference)>),
}

impl Tiers {
    /// Compares the hashes of owners with their rows. What has not landed yet is no difference, nor
    /// is a suspect hash. Changes nothing; but partitions that were not in use are prepared, as by
    /// any read.
    ///
    /// # Errors
    /// A tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare(&self, owners: &[Owner]) -> Result<Compared, TierError> {
        let mut compared = Compared::default();
        let mut left: Vec<Owner> = owners.to_vec();
        for _ in 0..LOOKS_MAX {
            let before = self.read_whole(&left).await?;
            // ORDER: between the hash and its rows: of a hash that stays the same and that no map
            // names, the rows that are read then are those that it landed as.
            let marked = self.hot.marked(&left, None).await;
            let rows = self.rows_of_each(&left, usize::MAX).await?;
            // ORDER: last, so that of a hash that is the same as before all that was read between
            // is about the same moment.
            let after = self.read_whole(&left).await?;
            let mut moving = Vec::new();
            for ((((owner, before), is_marked), loaded), after) in
                left.iter().zip(before).zip(marked).zip(rows).zip(after)
            {
                let is_marked = is_marked?;
                let of = |(field, difference)| Conflict {
                    owner: owner.clone(),
                    field,
                    difference,
                };
                match look(before.as_ref(), loaded, after, is_marked)? {
                    Look::Moves => moving.push(owner.clone()),
                    Look::Cold => compared.cold += 1,
                    Look::Unreadable(difference) => compared.conflicts.push(of((None, difference))),
                    Look::Compared(differences) => {
                        compared.owners += 1;
                        compared.conflicts.extend(differences.into_iter().map(of));
                    }
                }
            }
            left = moving;
            if left.is_empty() {
                break;
            }
        }
        compared.moving = u64::try_from(left.len()).unwrap_or(u64::MAX);
        compared.conflicts.sort();
        Ok(compared)
    }

    /// Owners' hashes; none for one that makes no sense.
    async fn read_whole(&self, owners: &[Owner]) -> Result<Vec<Option<HotRead>>, TierError> {
        let reads: Vec<Read> = owners
            .iter()
            .map(|owner| Read {
                owner: owner.clone(),
                fields: Fields::All,
            })
            .collect();
        let mut whole = Vec::with_capacity(reads.len());
        for (read, answer) in reads.iter().zip(self.hot.read(&reads).await) {
            whole.push(match readable(answer) {
                Ok(found) => found,
                Err(error) => {
                    self.prepare_after(error).await?;
                    let again = self.hot.read(std::slice::from_ref(read)).await.pop();
                    again.map(readable).transpose()?.flatten()
                }
            });
        }
        Ok(whole)
    }
}

/// What was read; none of a hash that makes no sense.
fn readable(answer: Result<HotRead, HotError>) -> Result<Option<HotRead>, HotError> {
    match answer {
        Err(error) if error.kind == HotKind::Corrupt => {
            tracing::warn!(%error, "a hash can't be read");
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Judges an owner by its hash before and after its rows were loaded.
fn look(
    before: Option<&HotRead>,
    loaded: Result<Loaded, ColdError>,
    after: Option<HotRead>,
    is_marked: bool,
) -> Result<Look, ColdError> {
    let Some(hot) = after else {
        return Ok(Look::Unreadable(Difference::HotUnreadable));
    };
    let rows = match loaded {
        Err(error) if error.kind == ColdKind::Unreadable => {
            tracing::warn!(%error, "a row can't be read");
            return Ok(Look::Unreadable(Difference::ColdUnreadable));
        }
        loaded => loaded?.rows,
    };
    if before != Some(&hot) {
        return Ok(Look::Moves);
    }
    let Some(header) = hot.header.filter(|header| !header.suspect) else {
        return Ok(Look::Cold);
    };
    Ok(Look::Compared(differences(
        header, is_marked, &hot.cells, &rows,
    )))
}

/// In which ways hash and rows differ that can't be by landing's being behind.
fn differences(
    header: Header,
    is_marked: bool,
    cells: &[(Field, Cell)],
    rows: &[Row],
) -> Vec<(Option<Field>, Difference)> {
    let held: BTreeMap<&Field, &Cell> = cells.iter().map(|(field, cell)| (field, cell)).collect();
    let mut differences = Vec::new();
    for row in rows {
        let difference = match held.get(&row.field) {
            _ if row.version > header.version => Difference::Ahead {
                row: row.version,
                hash: header.version,
            },
            _ if is_marked => continue,
            Some(cell) if **cell == row.cell => continue,
            Some(_) => Difference::Differs,
            None if header.complete => Difference::NotHot,
            None => continue,
        };
        differences.push((Some(row.field.clone()), difference));
    }
    if !is_marked {
        let rows: BTreeSet<&Field> = rows.iter().map(|row| &row.field).collect();
        let missing = held.keys().filter(|field| !rows.contains(*field));
        differences.extend(missing.map(|field| (Some((*field).clone()), Difference::NotCold)));
    }
    differences
}
