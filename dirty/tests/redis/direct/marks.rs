//! What becomes of marks that stand for writes without a script, when they are settled or parked.

use storage_servers::Reply;

use super::*;

const PARTITION: Partition = Partition(0);

impl Stage {
    async fn locked(&self) -> Lock {
        let worker = lock("worker");
        assert!(self.store.lock(&[PARTITION], &worker, Duration::from_secs(600)).await.pop().unwrap().unwrap());
        worker
    }

    /// What a worker reads of the marks that it takes: each with its owner's version, and how far a landing reaches.
    async fn collected(&self, worker: &Lock) -> (Vec<(Entry, Version)>, Version) {
        self.store.snapshot(PARTITION, worker).await.unwrap();
        let entries = self.store.scan(PARTITION, Map::Snapshot, 0, 100).await.unwrap().entries;
        let marks = entries.iter().map(|entry| entry.mark.clone().unwrap());
        let wanted: Vec<_> = marks.map(|mark| (mark.owner, mark.fields)).collect();
        let collected = self.store.collect(PARTITION, &wanted).await.unwrap();
        let versions = collected.reads.iter().map(|read| read.header.unwrap().version);
        (entries.into_iter().zip(versions).collect(), collected.reaches)
    }

    async fn settle(&self, worker: &Lock, collected: (Vec<(Entry, Version)>, Version), probation: bool) -> u32 {
        self.try_to_settle(worker, collected, probation).await.unwrap().cleared
    }

    async fn try_to_settle(
        &self,
        worker: &Lock,
        (marks, collected): (Vec<(Entry, Version)>, Version),
        probation: bool,
    ) -> Result<Settled, HotError> {
        let (partition, lock, epoch, landed) = (PARTITION, Some(worker.clone()), Epoch(1), Version::ZERO);
        self.store.settle(&Settle { partition, lock, epoch, landed, collected, marks, rows: vec![], probation }).await
    }

    /// Takes what is marked, and settles it; answers how many marks went.
    async fn pass(&self, worker: &Lock) -> u32 {
        let collected = self.collected(worker).await;
        self.settle(worker, collected, false).await
    }

    /// The marks of a map: their fields, versions, and whether they have landed.
    async fn marks(&self, map: Map) -> Vec<(String, Version, bool)> {
        let entries = self.store.scan(PARTITION, map, 0, 100).await.unwrap().entries;
        let fields =
            |entry: &Entry| entry.mark.as_ref().unwrap().fields.iter().map(Field::to_string).collect::<Vec<_>>().join(" ");
        let mut marks: Vec<_> = entries.iter().map(|entry| (fields(entry), entry.version, entry.landed)).collect();
        marks.sort();
        marks
    }

    async fn is_lasting(&self) -> bool {
        let left = self.server.call(&["PTTL", "my game-data:{0}:game:eu:player:ann"]).await.unwrap();
        matches!(left, Reply::Integer(-1))
    }

    async fn count(&self) -> Option<u32> {
        read(&self.store, &owner("ann")).await.header.unwrap().marks
    }
}

#[tokio::test]
async fn a_write_without_a_script_while_its_mark_is_landed_keeps_it() {
    let stage = Stage::new().await;
    let first = stage.apply("ann", "1").await;
    stage.apply("ann", "2").await;
    let worker = stage.locked().await;
    let collected = stage.collected(&worker).await;
    stage.went_direct().await;
    let last = stage.apply("ann", "3").await;
    assert!(stage.went_direct().await, "a snapshot ends no grant");
    let since = collected.1;
    assert_eq!(stage.settle(&worker, collected, false).await, 0);
    assert_eq!(stage.marks(Map::Dirty).await, [("gold".to_owned(), first, false)], "it stands for the last write");
    assert!(stage.count().await == Some(1) && stage.is_lasting().await);
    let peek = stage.store.peek(&[PARTITION]).await.pop().unwrap().unwrap();
    assert_eq!((peek.live, peek.snapshot, peek.snapshot_since), (1, 0, None));
    let live_since = peek.live_since.unwrap().0;
    assert!(first.get() < live_since && live_since <= since.get(), "what waits is younger than what was read");
    let (marks, _) = stage.collected(&worker).await;
    assert_eq!(marks[0].1, last);
}

#[tokio::test]
async fn a_mark_of_an_owner_that_is_written_again_and_again_stays_until_nothing_was_written() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let second = stage.apply("ann", "2").await;
    let worker = stage.locked().await;
    assert_eq!(stage.pass(&worker).await, 0);
    assert_eq!(stage.marks(Map::Dirty).await, [("gold".to_owned(), second, true)]);
    stage.went_direct().await;
    let third = stage.apply("ann", "3").await;
    assert!(stage.went_direct().await, "its grant goes on");
    assert_eq!(stage.pass(&worker).await, 0);
    assert_eq!(stage.marks(Map::Dirty).await, [("gold".to_owned(), third, true)]);
    assert_eq!(stage.pass(&worker).await, 1);
    assert!(stage.marks(Map::Dirty).await.is_empty() && !stage.is_lasting().await);
    stage.went_direct().await;
    stage.apply("ann", "4").await;
    assert!(!stage.went_direct().await, "its writer was told");
    assert!(stage.count().await == Some(1) && stage.is_lasting().await);
}

#[tokio::test]
async fn an_owner_that_is_written_once_is_granted_to_nobody_and_its_mark_goes_when_it_has_landed() {
    let stage = Stage::new().await;
    apply(&stage.store, &owner("ann"), &[("gold", set("1"))]).await;
    let key = "my game-data:{0}:game:eu:player:ann";
    assert!(matches!(stage.server.call(&["HEXISTS", key, ":o"]).await.unwrap(), Reply::Integer(0)));
    let worker = stage.locked().await;
    assert_eq!(stage.pass(&worker).await, 1);
    assert!(!stage.is_lasting().await);
}

#[tokio::test]
async fn a_landed_mark_stays_for_nobody_where_the_owner_has_others_or_is_to_go_or_landed_marks_are_on_probation() {
    let stage = Stage::new().await;
    let worker = stage.locked().await;
    for value in ["1", "2"] {
        stage.set(&stage.store, "ann", &["gold"], value).await;
    }
    stage.set(&stage.store, "ann", &["bag"], "1").await;
    assert_eq!(stage.pass(&worker).await, 2, "each of two");

    for value in ["3", "4"] {
        stage.apply("ann", value).await;
    }
    let collected = stage.collected(&worker).await;
    assert_eq!(stage.settle(&worker, collected, true).await, 1);
    assert_eq!(stage.marks(Map::Landed).await.len(), 1);

    for value in ["5", "6"] {
        stage.apply("bob", value).await;
    }
    assert_eq!(stage.store.evict(&[owner("bob")]).await.pop().unwrap().unwrap(), Evicted::WhenLanded);
    assert_eq!(stage.pass(&worker).await, 1);
    assert_eq!(read(&stage.store, &owner("bob")).await.header, None);
}

/// Who could write without a script when the mark was read can't any more when it is settled.
#[tokio::test]
async fn a_write_without_a_script_whose_grant_has_ended_since_keeps_its_mark() {
    let stage = Stage::new().await;
    let other = stage.other().await;
    for removal in [false, true] {
        let first = stage.set(&stage.store, "ann", &["gold"], "1").await;
        let worker = stage.locked().await;
        let collected = stage.collected(&worker).await;
        let kept = stage.set(&stage.store, "ann", &["gold"], "2").await;
        if removal {
            apply(&other, &owner("ann"), &[("bag", Change::Remove)]).await;
        } else {
            stage.set(&other, "ann", &["bag"], "full").await;
        }
        assert_eq!(stage.settle(&worker, collected, false).await, 0);
        let marks = stage.marks(Map::Dirty).await;
        assert!(marks.contains(&("gold".to_owned(), first, false)), "of {kept}: {marks:?}");
        assert_eq!(stage.count().await, Some(2));
        // Read once more, it is known to have landed.
        assert_eq!(stage.pass(&worker).await, 2);
    }
}

#[tokio::test]
async fn a_mark_that_a_script_made_anew_stands_for_the_one_before_too() {
    let stage = Stage::new().await;
    stage.set(&stage.store, "ann", &["gold"], "1").await;
    let worker = stage.locked().await;
    let collected = stage.collected(&worker).await;
    let made = stage.set(&stage.other().await, "ann", &["gold"], "2").await;
    stage.set(&stage.store, "ann", &["gold"], "3").await;
    assert_eq!(stage.count().await, Some(2));
    let since = collected.1;
    stage.settle(&worker, collected, false).await;
    let peek = stage.store.peek(&[PARTITION]).await.pop().unwrap().unwrap();
    assert!(peek.live_since.unwrap().0 <= since.get(), "of both");
    assert!(stage.marks(Map::Dirty).await.iter().any(|(_, version, _)| *version >= made));
    assert_eq!(stage.count().await, Some(1));
    assert_eq!(stage.pass(&worker).await + stage.pass(&worker).await, 1);
    assert!(!stage.is_lasting().await);
}

/// Two writes came since: the hash was deleted after its mark was read.
#[tokio::test]
async fn a_mark_of_a_hash_that_was_deleted_takes_the_place_of_no_later_one() {
    let stage = Stage::new().await;
    apply(&stage.store, &owner("ann"), &[("gold", set("1"))]).await;
    let worker = stage.locked().await;
    let collected = stage.collected(&worker).await;
    stage.server.call(&["DEL", "my game-data:{0}:game:eu:player:ann"]).await.unwrap();
    let last = stage.apply("ann", "3").await;
    assert_eq!(stage.settle(&worker, collected, false).await, 0);
    assert_eq!(stage.marks(Map::Dirty).await, [("gold".to_owned(), last, false)]);
    assert_eq!(stage.pass(&worker).await, 1);
    assert!(!stage.is_lasting().await);
}

#[tokio::test]
async fn a_record_that_somebody_spoilt_keeps_each_mark_where_it_is() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let worker = stage.locked().await;
    let collected = stage.collected(&worker).await;
    stage.apply("ann", "2").await;
    stage.apply("bob", "1").await;
    stage.server.call(&["HSET", "my game-part:{0}", "first", "spoilt"]).await.unwrap();
    let error = stage.try_to_settle(&worker, collected, false).await.unwrap_err();
    assert_eq!(error.kind, HotKind::Corrupt, "{error}");
    assert_eq!(stage.marks(Map::Snapshot).await.len(), 1);
    assert_eq!(stage.marks(Map::Dirty).await.len(), 1, "bob's");
}

/// Of a mark of two fields one is refused; the other was written again since it was read.
#[tokio::test]
async fn a_write_without_a_script_while_its_mark_is_parked_keeps_it() {
    let stage = Stage::new().await;
    stage.set(&stage.store, "ann", &["bag", "gold"], "1").await;
    let worker = stage.locked().await;
    let (marks, _) = stage.collected(&worker).await;
    stage.went_direct().await;
    stage.set(&stage.store, "ann", &["bag", "gold"], "2").await;
    assert!(stage.went_direct().await);
    let (entry, read) = marks[0].clone();
    let fault = Fault { field: field("gold"), version: read, code: 1_406, message: "too long".to_owned() };
    let parked = vec![Parked { source: Some(entry.clone()), read, owner: Some(owner("ann")), faults: vec![fault] }];
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(1));
    let park = Park {
        partition: PARTITION,
        lock: worker.clone(),
        epoch: Epoch(1),
        collected: Version::MAX,
        retry_min,
        retry_max,
        probation: false,
        parked,
    };
    assert_eq!(stage.store.park(&park).await.unwrap(), [true]);
    assert_eq!(stage.marks(Map::Dirty).await, [("bag gold".to_owned(), entry.version, false)]);
    assert_eq!(stage.count().await, Some(2), "with the error mark");
    stage.set(&stage.store, "ann", &["bag", "gold"], "3").await;
    assert!(!stage.went_direct().await, "its writer was told");
}

/// A writer that is gone is not told for ever.
#[tokio::test]
async fn a_partition_forgets_writers_that_are_gone() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let writers = async || match stage.server.call(&["HGET", "my game-part:{0}", "writers"]).await.unwrap() {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => format!("{other:?}"),
    };
    let own = writers().await;
    assert!(own.contains("my game-writer:"), "{own}");
    stage.server.call(&["HSET", "my game-part:{0}", "writers", &format!("my game-writer:0-0\x1f{own}")]).await.unwrap();
    let worker = stage.locked().await;
    stage.pass(&worker).await;
    assert_eq!(writers().await, own);
    // Also while a snapshot can't be landed.
    stage.apply("bob", "1").await;
    for found in [Snapshot::Taken, Snapshot::Leftover] {
        stage.server.call(&["HSET", "my game-part:{0}", "writers", &format!("my game-writer:0-0\x1f{own}")]).await.unwrap();
        assert_eq!(stage.store.snapshot(PARTITION, &worker).await, Ok(found));
        assert_eq!(writers().await, own);
    }
}
