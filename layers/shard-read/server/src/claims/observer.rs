//! Which ranges a server without a range may claim (V3). A pure function of what it read.

use std::collections::HashMap;

use rand::Rng;
use rand::seq::SliceRandom as _;
use storage_sdk::layer::claims::{ClaimToken, Holder, ShardKey, ShardRow};

/// A claim whose beat stood still in so many reads has no server any more.
pub(super) const READS: u32 = 5;

/// What a server without a range has seen of the claims of others.
#[derive(Debug)]
pub(super) struct Observer {
    holder: Holder,
    seen: HashMap<ShardKey, Sight>,
}

/// A claim as it was in the last reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sight {
    token: ClaimToken,
    beat: u64,
    /// So many reads in a row saw it so.
    reads: u32,
}

impl Observer {
    pub(super) fn new(holder: Holder) -> Self {
        Self {
            holder,
            seen: HashMap::new(),
        }
    }

    /// A statement has failed. While the database is away, the beats of all claims stand still.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Takes what was read, and returns the rows to try, the best one first: the server's own by name, then
    /// free ones, then those whose beat stood still. Only the newest plan counts.
    pub(super) fn see(&mut self, rows: Vec<ShardRow>, chance: &mut impl Rng) -> Vec<ShardRow> {
        let newest = rows.iter().map(|row| row.key.plan).max();
        let before = std::mem::take(&mut self.seen);
        let (mut own, mut free, mut still) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            if Some(row.key.plan) != newest {
                continue;
            }
            if row.holder.as_ref() == Some(&self.holder) {
                own.push(row);
            } else if let Some(token) = row.token {
                let sight = sight(before.get(&row.key), token, row.beat);
                self.seen.insert(row.key.clone(), sight);
                if sight.reads >= READS {
                    still.push(row);
                }
            } else {
                free.push(row);
            }
        }
        // Servers that start together try different rows first.
        free.shuffle(chance);
        still.shuffle(chance);
        own.into_iter().chain(free).chain(still).collect()
    }
}

fn sight(before: Option<&Sight>, token: ClaimToken, beat: u64) -> Sight {
    let is_same = |before: &&Sight| before.token == token && before.beat == beat;
    let reads = before.filter(is_same).map_or(0, |before| before.reads);
    Sight {
        token,
        beat,
        reads: reads + 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng as _;
    use rand::rngs::StdRng;
    use storage_sdk::layer::claims::{DataCentre, ServiceName};

    use super::*;

    fn row(plan: u32, begin: u64, token: Option<u8>, beat: u64, holder: Option<&str>) -> ShardRow {
        ShardRow {
            key: ShardKey {
                service: ServiceName::new("words-1").unwrap(),
                dc: DataCentre::new("a").unwrap(),
                plan,
                begin,
            },
            end: None,
            token: token.map(|token| ClaimToken::new([token; 16])),
            beat,
            holder: holder.map(|holder| Holder::new(holder).unwrap()),
            transitions: 0,
            claimed_ago: Duration::ZERO,
            renewed_ago: Duration::ZERO,
        }
    }

    fn observer() -> Observer {
        Observer::new(Holder::new("me:1").unwrap())
    }

    fn begins(observer: &mut Observer, rows: &[ShardRow]) -> Vec<u64> {
        let rows = observer.see(rows.to_vec(), &mut StdRng::seed_from_u64(7));
        rows.into_iter().map(|row| row.key.begin).collect()
    }

    #[test]
    fn the_own_former_row_comes_first_and_then_free_ones() {
        let rows = [
            row(1, 0, None, 4, None),
            row(1, 5, Some(1), 9, Some("me:1")),
            row(1, 7, Some(2), 9, Some("other:1")),
        ];
        assert_eq!(begins(&mut observer(), &rows), [5, 0]);
    }

    #[test]
    fn only_the_newest_plan_counts() {
        let rows = [
            row(1, 0, None, 0, None),
            row(2, 0, Some(1), 3, Some("other:1")),
        ];
        assert_eq!(begins(&mut observer(), &rows), [0_u64; 0]);
    }

    #[test]
    fn a_claim_is_taken_when_its_beat_stood_still_in_five_reads_in_a_row() {
        let mut observer = observer();
        let still = [row(1, 0, Some(1), 9, Some("other:1"))];
        for _ in 0..4 {
            assert_eq!(begins(&mut observer, &still), [0_u64; 0]);
        }
        assert_eq!(begins(&mut observer, &still), [0]);
        for changed in [
            row(1, 0, Some(1), 10, Some("other:1")),
            row(1, 0, Some(2), 9, Some("other:1")),
        ] {
            assert_eq!(begins(&mut observer, &[changed]), [0_u64; 0], "it moved");
        }
    }

    #[test]
    fn an_observer_that_was_blind_begins_anew() {
        let mut observer = observer();
        let still = [row(1, 0, Some(1), 9, Some("other:1"))];
        for _ in 1..READS {
            begins(&mut observer, &still);
        }
        observer.forget();
        for _ in 1..READS {
            assert_eq!(begins(&mut observer, &still), [0_u64; 0]);
        }
        assert_eq!(begins(&mut observer, &still), [0]);
    }

    #[test]
    fn a_row_that_a_read_did_not_have_begins_anew() {
        let mut observer = observer();
        let still = [row(1, 0, Some(1), 9, Some("other:1"))];
        for _ in 1..READS {
            begins(&mut observer, &still);
        }
        assert_eq!(begins(&mut observer, &[]), [0_u64; 0]);
        assert_eq!(begins(&mut observer, &still), [0_u64; 0]);
    }
}
