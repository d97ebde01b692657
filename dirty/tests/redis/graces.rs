//! The grace of an epoch that begins twice.

use storage_dirty::*;
use storage_model::*;

use crate::support::*;

const PARTITION: Partition = Partition(1);

/// S8: the sessions that the flush forgot need the whole grace, by whoever measures it.
#[tokio::test]
async fn a_late_copy_of_an_adoption_has_a_grace_of_its_own() {
    let server = server().await;
    let store = open_redis(settings(&server.url())).await.unwrap();
    let seen = store.partition_states(&[PARTITION]).await.remove(0);
    // Above the clock, as after an earlier rewind. So versions begin alike.
    let landed = store.time().await.unwrap().0 + 3_600_000_000;
    let adopt = Adopt {
        partition: PARTITION,
        seen: seen.unwrap(),
        epoch: Epoch(2),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: Version::new(landed).unwrap(),
        landed_here: false,
        compare_all: false,
        feed: Position::ZERO,
        database: None,
    };
    let adoption = async || {
        let adopted = store.adopt(std::slice::from_ref(&adopt)).await.remove(0);
        assert_eq!(adopted, Ok(true));
        let beats = store.beat(&[PARTITION], None).await.remove(0);
        beats.unwrap().adoption
    };
    let first = adoption().await;
    server.call(&["FLUSHALL"]).await.unwrap();
    let copy = adoption().await;
    assert_eq!((first.epoch, copy.epoch), (Epoch(2), Epoch(2)));
    assert_ne!(first.at, copy.at);
    assert_eq!(store.end_grace(PARTITION, first).await, Ok(false));
    assert_eq!(store.end_grace(PARTITION, copy).await, Ok(true));
}
