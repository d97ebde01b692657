//! Whether both tiers agree on landed data (H55). An operator, another program or a fault may have
//! changed either tier.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use storage_dirty::{Fields, Header, HotKind, HotRead, Read};
use storage_model::{Cell, Field, Owner, Row, Version, tries};
use storage_sql::{ColdError, ColdKind, Loaded};

use crate::{TierError, Tiers};

/// A difference of the tiers about an owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The owner.
    pub owner: Owner,
    /// The field, if the difference is about one field.
    pub field: Option<Field>,
    /// The kind of difference. It never holds a value.
    pub difference: Difference,
}

/// A difference that landing does not repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Difference {
    /// The row is newer than the whole hash, and the hash is not suspect.
    Ahead {
        /// The row's version.
        row: Version,
        /// The hash's.
        hash: Version,
    },
    /// The hash has landed, but the row has another value.
    Differs,
    /// The hash has landed and is complete, but lacks this field.
    NotHot,
    /// The hash has landed, but there is no row.
    NotCold,
    /// No version of this program writes such a hash.
    HotUnreadable,
    /// The connection breaks whenever the hash is read, perhaps at a limit of the server.
    HotBreaks,
    /// No version of this program writes such a row.
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
                ": the row is ahead: it has version {row}, the hash has version {hash}"
            ),
            Difference::Differs => f.write_str(": the hash has landed, but the row differs"),
            Difference::NotHot => {
                f.write_str(": the field has a row, but a complete hash lacks it")
            }
            Difference::NotCold => f.write_str(": the hash has landed, but there is no row"),
            Difference::HotUnreadable => f.write_str(": the hash can't be read"),
            Difference::HotBreaks => f.write_str(
                ": the connection breaks whenever the hash is read, perhaps at client-output-buffer-limit of the server or a limit of a proxy: raise it",
            ),
            Difference::ColdUnreadable => f.write_str(": a row can't be read"),
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    /// Owners whose hash was compared with their rows.
    pub owners: u64,
    /// Owners without a hash, and owners with a suspect hash, which is compared before it is used.
    pub cold: u64,
    /// Owners that were written during every look.
    pub moving: u64,
    /// Sorted by owner and field.
    pub conflicts: Vec<Conflict>,
}

/// The result of one look at an owner in both tiers.
enum Look {
    /// A concurrent write changed the owner.
    Moves,
    /// Only the database holds the owner, or its hash is suspect.
    Cold,
    /// One of the tiers can't be read.
    Unreadable(Difference),
    /// The differences, each with its field if it is about one field.
    Compared(Vec<(Option<Field>, Difference)>),
}

impl Tiers {
    /// Compares the hashes of owners with their rows. Unlanded data is no difference, and neither
    /// is a suspect hash. Writes no data. As with any read, partitions that were not in use are
    /// prepared.
    ///
    /// # Errors
    /// A tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare(&self, owners: &[Owner]) -> Result<Compared, TierError> {
        let mut compared = Compared::default();
        let mut left: Vec<Owner> = owners.to_vec();
        for _ in 0..tries::COMPARE {
            let before = self.read_whole(&left).await?;
            // ORDER: between the hash and its rows. If the hash stays the same and no map names it,
            // then the rows are the ones that it landed as.
            let marked = self.hot.owners.marked(&left, None).await;
            let rows = self.rows_of_each(&left, usize::MAX).await?;
            // ORDER: last. If the hash is the same as before, all reads in between belong to one
            // moment.
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
                match look(before, loaded, after, is_marked)? {
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

    /// The owners' hashes.
    async fn read_whole(&self, owners: &[Owner]) -> Result<Vec<Whole>, TierError> {
        let reads: Vec<Read> = owners
            .iter()
            .map(|owner| Read {
                owner: owner.clone(),
                fields: Fields::All,
            })
            .collect();
        let mut whole = Vec::with_capacity(reads.len());
        for (owner, answer) in owners.iter().zip(self.hot.owners.read(&reads).await) {
            let first = match answer {
                // Another owner may have broken the connection.
                Err(error) if error.is_cut_off() => self.whole_hash(owner).await,
                Err(error) if matches!(error.kind, HotKind::Unprepared(_)) => {
                    self.prepare_after(error).await?;
                    self.whole_hash(owner).await
                }
                answer => answer.map_err(TierError::from),
            };
            whole.push(judged(first)?);
        }
        Ok(whole)
    }
}

/// A hash, as a comparison sees it.
#[derive(Debug, PartialEq, Eq)]
enum Whole {
    Hash(HotRead),
    /// It can't be read.
    Unreadable(Difference),
    /// It was written while it was read in parts.
    Moves,
}

fn judged(read: Result<HotRead, TierError>) -> Result<Whole, TierError> {
    match read {
        Err(TierError::Hot(error)) if error.kind == HotKind::Corrupt => {
            tracing::warn!(%error, "a hash can't be read");
            Ok(Whole::Unreadable(Difference::HotUnreadable))
        }
        Err(TierError::Unreadable { .. }) => Ok(Whole::Unreadable(Difference::HotBreaks)),
        Err(TierError::Contended { .. }) => Ok(Whole::Moves),
        read => read.map(Whole::Hash),
    }
}

/// Judges an owner by its hash before and after its rows were loaded.
fn look(
    before: Whole,
    loaded: Result<Loaded, ColdError>,
    after: Whole,
    is_marked: bool,
) -> Result<Look, ColdError> {
    let is_same = before == after;
    let hot = match after {
        Whole::Hash(hot) => hot,
        Whole::Unreadable(difference) => return Ok(Look::Unreadable(difference)),
        Whole::Moves => return Ok(Look::Moves),
    };
    let rows = match loaded {
        Err(error) if error.kind == ColdKind::Unreadable => {
            tracing::warn!(%error, "a row can't be read");
            return Ok(Look::Unreadable(Difference::ColdUnreadable));
        }
        loaded => loaded?.rows,
    };
    if !is_same {
        return Ok(Look::Moves);
    }
    let Some(header) = hot.header.filter(|header| !header.suspect) else {
        return Ok(Look::Cold);
    };
    Ok(Look::Compared(differences(
        header, is_marked, &hot.cells, &rows,
    )))
}

/// The differences between hash and rows that a late landing does not explain.
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
        // The row of a purged field may have been swept.
        let missing = held
            .iter()
            .filter(|(field, cell)| !rows.contains(*field) && **cell != &Cell::Purged);
        differences.extend(missing.map(|(field, _)| (Some((*field).clone()), Difference::NotCold)));
    }
    differences
}
