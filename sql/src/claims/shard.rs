//! A shard and its claim.

use std::time::Duration;

use super::{ClaimToken, DataCentre, Holder, ServiceName};
use crate::engine::{Fault, Record};

/// The key of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardKey {
    /// The service.
    pub service: ServiceName,
    /// The data centre.
    pub dc: DataCentre,
    /// The number of the plan.
    pub plan: u32,
    /// The first sharding key of the range.
    pub begin: u64,
}

/// A shard with its claim, as the database has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRow {
    /// The key.
    pub key: ShardKey,
    /// The first sharding key behind the range. `None`: the range goes up to the greatest one.
    pub end: Option<u64>,
    /// The token of the claim. `None`: the shard is free.
    pub token: Option<ClaimToken>,
    /// A number that each claim and each renewal change. It says only whether the holder is alive. That
    /// of a new shard is random, so that no claim takes a shard for one of a plan that was dropped.
    pub beat: u64,
    /// The last holder, also of a free shard. `None`: nobody has claimed it.
    pub holder: Option<Holder>,
    /// How often the shard went to another holder than its last one. For people, as the times are.
    pub transitions: u64,
    /// How long ago the shard was claimed, or added if nobody has claimed it, by the database's clock.
    pub claimed_ago: Duration,
    /// How long ago its claim was renewed, or made.
    pub renewed_ago: Duration,
}

impl ShardRow {
    /// Whether nobody has a claim of the shard.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.token.is_none()
    }
}

impl ShardKey {
    fn is_of_plan_of(&self, other: &Self) -> bool {
        self.plan == other.plan && self.dc == other.dc && self.service == other.service
    }
}

/// The rows with their ends. They are in the order of their keys, and of each plan all rows are there.
pub(super) fn with_ends(rows: Vec<ShardRow>) -> Vec<ShardRow> {
    let mut rows = rows.into_iter().peekable();
    let mut ended = Vec::new();
    while let Some(row) = rows.next() {
        let next = rows.peek().filter(|next| next.key.is_of_plan_of(&row.key));
        let end = next.map(|next| next.key.begin);
        ended.push(ShardRow { end, ..row });
    }
    ended
}

/// The shard of a service in this record, without its end.
pub(super) fn shard(service: &ServiceName, record: &dyn Record) -> Result<ShardRow, Fault> {
    let millis = |column| record.number(column).map(Duration::from_millis);
    Ok(ShardRow {
        key: ShardKey {
            service: service.clone(),
            dc: DataCentre::new(text(record, 0)?).map_err(foreign)?,
            plan: u32::try_from(record.number(1)?).map_err(foreign)?,
            begin: begin(record.bytes(2)?)?,
        },
        end: None,
        token: token(record.bytes(3)?)?,
        beat: record.number(4)?,
        holder: holder(text(record, 5)?)?,
        transitions: record.number(6)?,
        claimed_ago: millis(7)?,
        renewed_ago: millis(8)?,
    })
}

fn text(record: &dyn Record, column: usize) -> Result<&str, Fault> {
    std::str::from_utf8(record.bytes(column)?).map_err(foreign)
}

fn begin(bytes: &[u8]) -> Result<u64, Fault> {
    let begin = bytes.try_into().map(u64::from_be_bytes);
    begin.map_err(|_| foreign(format!("its begin has {} bytes, not 8", bytes.len())))
}

/// Of a free shard the column is empty.
fn token(bytes: &[u8]) -> Result<Option<ClaimToken>, Fault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let token = bytes.try_into().map(ClaimToken::new).map(Some);
    token.map_err(|_| foreign(format!("its token has {} bytes, not 16", bytes.len())))
}

/// Of a shard that nobody has claimed the column is empty.
fn holder(text: &str) -> Result<Option<Holder>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    Holder::new(text).map(Some).map_err(foreign)
}

fn foreign(error: impl std::fmt::Display) -> Fault {
    Fault::unreadable(format!(
        "a shard that no version of this program writes: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dc: &str, plan: u32, begin: u64) -> ShardRow {
        ShardRow {
            key: ShardKey {
                service: ServiceName::new("goals-2").unwrap(),
                dc: DataCentre::new(dc).unwrap(),
                plan,
                begin,
            },
            end: None,
            token: None,
            beat: 0,
            holder: None,
            transitions: 0,
            claimed_ago: Duration::ZERO,
            renewed_ago: Duration::ZERO,
        }
    }

    #[test]
    fn a_range_ends_where_the_next_one_of_its_plan_begins() {
        let rows = [
            ("a", 1, 0),
            ("a", 1, 7),
            ("a", 2, 0),
            ("a", 2, 1),
            ("a", 2, u64::MAX),
            ("b", 2, 0),
        ];
        let rows = rows.map(|(dc, plan, begin)| row(dc, plan, begin));
        let ends = with_ends(rows.to_vec()).into_iter().map(|row| row.end);
        let expected = [Some(7), None, Some(1), Some(u64::MAX), None, None];
        assert_eq!(ends.collect::<Vec<_>>(), expected);
        assert_eq!(with_ends(Vec::new()), []);
    }
}
