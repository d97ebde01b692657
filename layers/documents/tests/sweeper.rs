//! The sweeper, with a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use storage_documents::clean::{Sweeper, Swept};
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
