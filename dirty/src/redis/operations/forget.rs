//! Stores that are gone. In time, partitions forget the calls of such stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use redis::Value;
use storage_model::{Partition, times};
use tokio::time::Instant;

use crate::HotError;
use crate::redis::RedisStore;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use storage_coalesce::locked;

/// The shortest time between two looks at a partition.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The most last calls that one call of `forget_calls.lua` drops.
const CALL_MAX: usize = 200;

/// The stores whose calls partitions remember. Judged by this process' own clock, since the
/// server's clock may leap.
#[derive(Debug, Default)]
pub(in crate::redis) struct Stores(Mutex<BTreeMap<Partition, StoreCalls>>);

/// The state of a partition at the last look.
#[derive(Debug, Default)]
struct StoreCalls {
    at: Option<Instant>,
    /// The number of each store's last call, and the time since which the number is the same.
    calls: BTreeMap<String, (String, Instant)>,
}

impl Stores {
    /// The last calls to forget now. `None` if it is too early to look.
    fn gone(&self, partition: Partition, now: Instant) -> Option<Vec<(String, String)>> {
        let mut all = locked(&self.0);
        let seen = all.entry(partition).or_default();
        if seen
            .at
            .is_some_and(|at| now.saturating_duration_since(at) < LOOK_EVERY)
        {
            return None;
        }
        seen.at = Some(now);
        let old = seen
            .calls
            .iter()
            .filter(|(_, (_, since))| now.saturating_duration_since(*since) >= times::STORE_GONE);
        Some(
            old.map(|(store, (number, _))| (store.clone(), number.clone()))
                .collect(),
        )
    }

    /// Notes the last calls that the partition remembers now.
    fn saw(&self, partition: Partition, left: Vec<(String, String)>, now: Instant) {
        let mut all = locked(&self.0);
        let seen = all.entry(partition).or_default();
        let mut before = std::mem::take(&mut seen.calls);
        for (store, number) in left {
            let since = before
                .remove(&store)
                .filter(|(last, _)| *last == number)
                .map_or(now, |(_, since)| since);
            seen.calls.insert(store, (number, since));
        }
    }
}

impl RedisStore {
    pub(in crate::redis) async fn forget_stores(
        &self,
        partitions: &[Partition],
    ) -> Result<(), HotError> {
        let now = Instant::now();
        let mut failed = Ok(());
        for partition in partitions {
            let Some(gone) = self.stores.gone(*partition, now) else {
                continue;
            };
            match self.forget_in(*partition, &gone).await {
                Ok(left) => self.stores.saw(*partition, left, now),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Drops these last calls of a partition, page by page. Returns those that are left.
    async fn forget_in(
        &self,
        partition: Partition,
        gone: &[(String, String)],
    ) -> Result<Vec<(String, String)>, HotError> {
        let (mut left, mut cursor) = (BTreeMap::new(), 0);
        let mut drops = gone.chunks(CALL_MAX).peekable();
        loop {
            let some = drops.next().unwrap_or_default();
            let command = scripts::forget_calls(&self.space, partition, cursor, some);
            let page = self.one("forget_calls", Some(partition), command, page_of);
            let (next, page) = page.await?;
            left.extend(page);
            if next == 0 && drops.peek().is_none() {
                break;
            }
            cursor = next;
        }
        // A page can have named a call that a later step has dropped.
        let gone: BTreeSet<&(String, String)> = gone.iter().collect();
        let left = left.into_iter().filter(|last| !gone.contains(last));
        Ok(left.collect())
    }
}

/// The cursor of the next page, and the last calls of this one.
fn page_of(value: Value) -> Result<(u64, Vec<(String, String)>), Failure> {
    let mut texts = reply::list(value)?.into_iter();
    let cursor = texts
        .next()
        .ok_or_else(|| Failure::Nonsense("a page of last calls has no cursor".to_owned()))?;
    let texts = texts.map(reply::text).collect::<Result<Vec<_>, _>>()?;
    let (pairs, _) = texts.as_chunks::<2>();
    let last_calls = pairs
        .iter()
        .map(|[store, number]| (store.clone(), number.clone()))
        .collect();
    Ok((reply::number::<u64>(cursor)?, last_calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: Partition = Partition(3);

    fn calls(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(store, number)| ((*store).to_owned(), (*number).to_owned()))
            .collect()
    }

    #[test]
    fn a_store_is_gone_once_its_last_call_has_stayed_the_same_for_two_minutes_of_the_own_clock() {
        let stores = Stores::default();
        let start = Instant::now();
        let minute = |number: u32| start + LOOK_EVERY * number;
        assert_eq!(stores.gone(PARTITION, start), Some(vec![]));
        stores.saw(PARTITION, calls(&[("a", "7"), ("b", "1")]), start);
        assert_eq!(stores.gone(PARTITION, start), None, "too early");
        assert_eq!(
            stores.gone(Partition(4), start),
            Some(vec![]),
            "each partition has a look of its own"
        );
        assert_eq!(stores.gone(PARTITION, minute(1)), Some(vec![]));
        stores.saw(PARTITION, calls(&[("a", "7"), ("b", "2")]), minute(1));
        assert_eq!(
            stores.gone(PARTITION, minute(2)),
            Some(calls(&[("a", "7")]))
        );
        stores.saw(PARTITION, calls(&[("b", "2")]), minute(2));
        assert_eq!(
            stores.gone(PARTITION, minute(3)),
            Some(calls(&[("b", "2")]))
        );
    }
}
