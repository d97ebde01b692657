//! The sweeper, with a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use storage_documents::clean::{Sweeper, Swept};
use storage_documents::once::Once;
use storage_documents::{Call, Documents, Path};
use storage_sdk::{Clock, Durability, Storage, Timestamp};

/// A clock that stands until it is set.
#[derive(Debug)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

const SOON: Duration = Duration::from_secs(30);

/// A whole pass. Returns what it did.
async fn pass(sweeper: &mut Sweeper) -> Result<Swept> {
    let mut all = Swept::default();
    while !all.is_whole {
        let step = sweeper.step().await?;
        all.ended += step.ended;
        all.removed += step.removed;
        all.forgotten += step.forgotten;
        all.is_whole = step.is_whole;
    }
    Ok(all)
}

/// D15: a document that is written again does not end by its earlier time to live.
#[tokio::test]
async fn a_sweep_ends_what_has_ended_and_nothing_that_was_written_since() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let clock = Arc::new(Still(AtomicU64::new(1_700_000_000_000_000)));
    let documents = Documents::new(&storage, "a", "r")?.with_clock(clock.clone());
    let landed = Call {
        durability: Durability::Landed { timeout: SOON },
        ..Call::default()
    };
    let ending = Call {
        lives: Some(Duration::from_secs(10)),
        ..landed.clone()
    };
    let [one, two, item, old] = ["one", "two", "a~/1", "b~/1"].map(|path| Path::new(path).unwrap());
    for path in [&one, &two, &item] {
        documents.put(path, b"{}", &ending).await?;
    }
    documents.put(&old, b"{}", &landed).await?;
    documents.delete(&Path::new("b~")?, &landed).await?;
    let mut sweeper = documents.sweeper()?;
    let nothing_ends = pass(&mut sweeper).await?;
    assert_eq!((nothing_ends.ended, nothing_ends.removed), (0, 1));

    clock.0.fetch_add(11_000_000, Ordering::SeqCst);
    assert_eq!(documents.get(&one).await?, None);
    // It is written again before the sweep comes, which reads the row from before.
    documents.put(&one, b"2", &Call::default()).await?;
    let swept = pass(&mut sweeper).await?;
    assert_eq!((swept.ended, swept.removed), (2, 0));
    let kept = documents.get(&one).await?;
    assert_eq!(kept.map(|document| document.revision), Some(2));
    let again = documents.put(&two, b"3", &Call::default()).await?;
    assert_eq!(again.revision, 3, "the end was a change");
    assert_eq!(pass(&mut sweeper).await?.ended, 0);
    storage.close(SOON).await;
    Ok(())
}

/// A key that is used again after a day is a new one, and the sweep of the old one leaves it.
#[tokio::test]
async fn keys_are_forgotten_after_a_day_and_not_before() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let clock = Arc::new(Still(AtomicU64::new(1_700_000_000_000_000)));
    let documents = Documents::new(&storage, "a", "r")?.with_clock(clock.clone());
    let path = Path::new("a")?;
    let call = |key: &str| -> Result<Call> {
        Ok(Call {
            once: Some(Once::new(key, &[b"put"])?),
            durability: Durability::Landed { timeout: SOON },
            ..Call::default()
        })
    };
    for key in ["old", "again"] {
        assert!(!documents.put(&path, b"1", &call(key)?).await?.is_repeat);
        assert!(documents.put(&path, b"1", &call(key)?).await?.is_repeat);
    }
    let mut sweeper = documents.sweeper()?;
    assert_eq!(pass(&mut sweeper).await?.forgotten, 0);
    clock.0.fetch_add(25 * 3_600_000_000, Ordering::SeqCst);
    let cached = Call {
        durability: Durability::Cached,
        ..call("again")?
    };
    assert!(!documents.put(&path, b"1", &cached).await?.is_repeat);
    assert_eq!(pass(&mut sweeper).await?.forgotten, 1);
    assert_eq!(pass(&mut sweeper).await?.forgotten, 0);
    assert!(documents.put(&path, b"1", &cached).await?.is_repeat);
    // The values of the old one are given up, once the worker has cleared its marks.
    let scope = storage.world("a", "r")?.scope().clone();
    let fields = vec![storage_sdk::Field::new("d")?];
    let removed = storage_sdk::layer::RowRange::new(scope, "key", fields).removed();
    let cold = storage_sdk::layer::ColdTier::of(&storage);
    storage
        .world("a", "r")?
        .bytes()
        .owner("x", 1)?
        .update([("x", "1")])
        .durability(Durability::Landed { timeout: SOON })
        .await?;
    let end = std::time::Instant::now() + SOON;
    while !cold.rows(&removed).await?.is_empty() {
        pass(&mut sweeper).await?;
        assert!(std::time::Instant::now() < end, "its rows stay");
    }
    storage.close(SOON).await;
    Ok(())
}
