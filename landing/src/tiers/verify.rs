//! Whether both tiers say the same of what has landed (H55): against what an operator, another program or a fault did to either.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use storage_dirty::{Fields, HotRead, PartitionPeek, Read};
use storage_model::{Cell, Field, Owner, Partition, Row, Version};

use super::{TierError, Tiers};

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
    /// The hash counts unlanded marks, but the partition has none: what it holds will not be landed.
    Unmarked,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict: {}", self.owner)?;
        if let Some(field) = &self.field {
            write!(f, " field {:?}", field.as_str())?;
        }
        match self.difference {
            Difference::Ahead { row, hash } => write!(f, ": the row is ahead, version {row}, of the hot tier's {hash}"),
            Difference::Differs => f.write_str(": has landed, and the row holds something else"),
            Difference::NotHot => f.write_str(": has a row, and is missing from a hash that has all fields"),
            Difference::NotCold => f.write_str(": has landed, and has no row"),
            Difference::Unmarked => f.write_str(": the hash counts unlanded marks, and there are none"),
        }
    }
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    /// Owners whose hash was compared with their rows.
    pub owners: u64,
    /// Owners that only the database holds, or whose hash is suspect and is compared before it is used.
    pub cold: u64,
    /// Owners that were written at every look.
    pub moving: u64,
    /// By owner and field.
    pub conflicts: Vec<Conflict>,
}

/// An owner as it was found in both tiers.
struct Found {
    hot: HotRead,
    rows: Vec<Row>,
}

impl Tiers {
    /// Compares the hashes of owners with their rows. What has not landed yet is no difference, nor is a suspect hash. Changes
    /// nothing; but partitions that were not in use are prepared, as by any read.
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
            let rows = self.cold.load(&left, usize::MAX).await?;
            let marked = self.marked(&left).await?;
            // ORDER: last, so that of a hash that is the same as before all that was read between is about the same moment.
            let after = self.read_whole(&left).await?;
            let mut moving = Vec::new();
            for (((owner, before), loaded), after) in left.iter().zip(before).zip(rows).zip(after) {
                if before != after {
                    moving.push(owner.clone());
                    continue;
                }
                let Some(header) = after.header.filter(|header| !header.suspect) else {
                    compared.cold += 1;
                    continue;
                };
                compared.owners += 1;
                let found = Found { hot: after, rows: loaded.rows };
                let of = |(field, difference)| Conflict { owner: owner.clone(), field, difference };
                compared.conflicts.extend(differences(&found).into_iter().map(of));
                let is_marked = marked.contains(&owner.partition(self.hot.partition_count()));
                if header.marks > Some(0) && !is_marked {
                    compared.conflicts.push(of((None, Difference::Unmarked)));
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

    async fn read_whole(&self, owners: &[Owner]) -> Result<Vec<HotRead>, TierError> {
        let reads: Vec<Read> = owners.iter().map(|owner| Read { owner: owner.clone(), fields: Fields::All }).collect();
        let mut whole = Vec::with_capacity(reads.len());
        for (read, answer) in reads.iter().zip(self.hot.read(&reads).await) {
            whole.push(match answer {
                Ok(read) => read,
                Err(error) => {
                    self.prepare_after(error).await?;
                    self.hot.read(std::slice::from_ref(read)).await.pop().transpose()?.unwrap_or_default()
                }
            });
        }
        Ok(whole)
    }

    /// The partitions of owners that hold any mark.
    async fn marked(&self, owners: &[Owner]) -> Result<BTreeSet<Partition>, TierError> {
        let partitions: BTreeSet<_> = owners.iter().map(|owner| owner.partition(self.hot.partition_count())).collect();
        let partitions: Vec<_> = partitions.into_iter().collect();
        let mut marked = BTreeSet::new();
        for (partition, peek) in partitions.iter().zip(self.hot.peek(&partitions).await) {
            let PartitionPeek { live, snapshot, errors, probation, .. } = peek?;
            marked.extend((live + snapshot + errors + probation > 0).then_some(*partition));
        }
        Ok(marked)
    }
}

/// In which ways hash and rows differ that can't be by landing's being behind.
fn differences(found: &Found) -> Vec<(Option<Field>, Difference)> {
    let Some(header) = found.hot.header else { return Vec::new() };
    let held: BTreeMap<&Field, &Cell> = found.hot.cells.iter().map(|(field, cell)| (field, cell)).collect();
    let mut differences = Vec::new();
    for row in &found.rows {
        let difference = match held.get(&row.field) {
            _ if row.version > header.version => Difference::Ahead { row: row.version, hash: header.version },
            _ if header.marks > Some(0) => continue,
            Some(cell) if **cell == row.cell => continue,
            Some(_) => Difference::Differs,
            None if header.complete => Difference::NotHot,
            None => continue,
        };
        differences.push((Some(row.field.clone()), difference));
    }
    if header.marks == Some(0) {
        let rows: BTreeSet<&Field> = found.rows.iter().map(|row| &row.field).collect();
        let missing = held.keys().filter(|field| !rows.contains(*field));
        differences.extend(missing.map(|field| (Some((*field).clone()), Difference::NotCold)));
    }
    differences
}
