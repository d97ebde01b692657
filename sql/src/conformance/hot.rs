//! The hot tier that has a partition (R14).

use std::time::Duration;

use storage_model::{Epoch, HotId, LAYOUT, Paired, Partition, SeededIds, Stamp, Timestamp, Token};

use super::{Harness, fence, live, owner};
use crate::{Batch, Fence, HotTier, LandError, Pair, Raise};

const AT: Partition = Partition(3);
/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(600);

/// A raise from this epoch and stamp, for a hot tier.
fn raise(seen: (u64, u64), by: HotId, stamp: u64) -> Raise {
    Raise {
        seen_stamp: Stamp(seen.1),
        by,
        stamp: Stamp(stamp),
        ..Raise::by_one(AT, Epoch(seen.0))
    }
}

/// Epoch, stamp and hot tier of the partition, and whether the raise changed them.
async fn raised(h: &Harness, raise: Raise) -> (u64, u64, HotId, bool) {
    let raised = h.store.partitions.raise(&[raise]).await.unwrap()[0];
    let record = h.store.partitions.partitions(&[AT]).await.unwrap()[0];
    assert_eq!(raised.record, record);
    (record.epoch.0, record.stamp.0, record.hot, raised.moved)
}

async fn known(h: &Harness, id: HotId) -> HotTier {
    let known = h.store.hot_tiers.hot_tiers().await.unwrap();
    known.into_iter().find(|known| known.id == id).unwrap()
}

/// Two hot tiers that the database knows.
async fn two(h: &Harness) -> (HotId, HotId) {
    let (one, other) = (HotId::of("one"), HotId::of("other"));
    h.store.hot_tiers.introduce(one, "one:6379").await.unwrap();
    h.store
        .hot_tiers
        .introduce(other, "other:6379")
        .await
        .unwrap();
    (one, other)
}

/// R14: whoever reads an epoch sees whose it is.
pub async fn a_raise_gives_the_partition_to_a_hot_tier(h: &Harness) {
    let (one, other) = two(h).await;
    assert_eq!(raised(h, raise((0, 0), one, 7)).await, (1, 7, one, true));
    assert_eq!(
        h.store.database.pairing().await.unwrap().last_raise,
        Stamp(7)
    );
    let has = known(h, one).await;
    assert_eq!((has.partitions, &*has.address), (1, "one:6379"));
    assert!(has.is_heard(LONG) && !known(h, other).await.is_heard(LONG));
    h.store
        .hot_tiers
        .introduce(one, "moved:6379")
        .await
        .unwrap();
    assert_eq!(known(h, one).await.address, "moved:6379");
    h.store
        .hot_tiers
        .introduce(other, &"long.example.com, ".repeat(40))
        .await
        .unwrap();
    assert_eq!(
        raised(h, raise((1, 7), other, 8)).await,
        (2, 8, other, true)
    );
    assert_eq!(known(h, one).await.partitions, 0);
    assert_eq!(
        h.store.database.pairing().await.unwrap().last_raise,
        Stamp(8)
    );
}

/// R14: a restored database gives an epoch a second time. The stamp tells the two apart.
pub async fn a_fence_of_another_stamp_does_not_match(h: &Harness) {
    let (one, _) = two(h).await;
    raised(h, raise((0, 0), one, 7)).await;
    let land = async |stamp| {
        let fence = Fence {
            stamp: Stamp(stamp),
            ..fence(3, 1, 0, 9)
        };
        let batch = Batch {
            fences: vec![fence],
            rows: vec![live(&owner("ann"), "gold", "1", 9)],
            ..Batch::default()
        };
        h.store.landing.land(&batch).await
    };
    for stamp in [0, 8] {
        assert_eq!(land(stamp).await, Err(LandError::Fenced(vec![AT])));
    }
    assert!(h.rows(&owner("ann")).await.is_empty());
    land(7).await.unwrap();
}

/// R14: a raise was decided for a record, and changes no other one.
pub async fn a_raise_of_another_record_changes_nothing(h: &Harness) {
    let (one, other) = two(h).await;
    raised(h, raise((0, 0), one, 7)).await;
    let same = (1, 7, one, false);
    assert_eq!(
        raised(h, raise((1, 6), other, 8)).await,
        same,
        "another stamp"
    );
    assert_eq!(
        raised(h, raise((2, 7), other, 8)).await,
        same,
        "another epoch"
    );
    let reach = |reach| Raise {
        reach: Some(super::version(reach)),
        ..raise((1, 7), other, 8)
    };
    assert_eq!(
        raised(h, reach(5)).await,
        same,
        "something landed meanwhile"
    );
    assert_eq!(raised(h, reach(0)).await, (2, 8, other, true));
}

/// R14: a copy that has everything takes all partitions of another hot tier, or none.
pub async fn raises_with_a_reach_are_made_together_or_not_at_all(h: &Harness) {
    let (one, other) = two(h).await;
    let of = |partition, seen: (u64, u64), by, stamp| Raise {
        partition: Partition(partition),
        ..raise(seen, by, stamp)
    };
    let first = [3, 4, 5].map(|partition| of(partition, (0, 0), one, 7));
    h.store.partitions.raise(&first).await.unwrap();
    let reaching = |partition, reach| Raise {
        reach: Some(super::version(reach)),
        ..of(partition, (1, 7), other, 8)
    };
    let moved = async |raises: [Raise; 3]| {
        let raised = h.store.partitions.raise(&raises).await.unwrap();
        raised.iter().map(|raised| raised.moved).collect::<Vec<_>>()
    };
    // Something landed in one of them meanwhile. One without a reach is made all the same.
    let plain = of(5, (1, 7), other, 8);
    assert_eq!(
        moved([reaching(3, 0), reaching(4, 5), plain]).await,
        [false, false, true]
    );
    let raises = [reaching(3, 0), reaching(4, 0), of(5, (1, 7), one, 9)];
    assert_eq!(moved(raises).await, [true, true, false]);
}

/// R14: a comparison looks at all partitions if the last raise is new.
pub async fn raises_of_several_hot_tiers_are_told_once(h: &Harness) {
    let (one, other) = two(h).await;
    let of = |partition, by, above| Raise {
        partition: Partition(partition),
        above: Epoch(above),
        ..raise((0, 0), by, 7)
    };
    let raises = [of(3, other, 0), of(4, one, 5), of(5, one, 0)];
    h.store.partitions.raise(&raises).await.unwrap();
    assert_eq!(
        h.store.database.pairing().await.unwrap().last_raise,
        Stamp(7)
    );
    let all = [3, 4, 5].map(Partition);
    let records = h.store.partitions.partitions(&all).await.unwrap();
    let places: Vec<_> = records
        .iter()
        .map(|r| (r.epoch.0, r.stamp.0, r.hot))
        .collect();
    assert_eq!(places, [(1, 7, other), (6, 7, one), (1, 7, one)]);
    assert!(known(h, one).await.is_heard(LONG) && known(h, other).await.is_heard(LONG));
}

/// R14: a hot tier that lacks landed data waits for one that is used.
pub async fn a_hot_tier_that_is_used_keeps_its_partitions(h: &Harness) {
    let (one, other) = two(h).await;
    raised(h, raise((0, 0), one, 7)).await;
    let if_silent = |within, by| Raise {
        if_silent: Some(within),
        ..raise((1, 7), by, 8)
    };
    assert_eq!(raised(h, if_silent(LONG, other)).await, (1, 7, one, false));
    // Nobody waits for itself, and nobody has used any for this moment.
    assert_eq!(raised(h, if_silent(LONG, one)).await, (2, 8, one, true));
    let silent = Raise {
        if_silent: Some(Duration::ZERO),
        ..raise((2, 8), other, 9)
    };
    assert_eq!(raised(h, silent).await, (3, 9, other, true));
}

/// A hot tier is silent only for as long as nobody uses it.
pub async fn a_touch_tells_that_a_hot_tier_is_used(h: &Harness) {
    let (one, other) = two(h).await;
    raised(h, raise((0, 0), one, 7)).await;
    let second = Duration::from_secs(1);
    while known(h, one).await.seen_ago <= second {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    h.store
        .hot_tiers
        .touch(&[one, HotId::of("unknown")])
        .await
        .unwrap();
    let (touched, rests) = (known(h, one).await, known(h, other).await);
    assert!(touched.seen_ago < rests.seen_ago, "{touched:?} {rests:?}");
    assert!(touched.known_for > second && rests.known_for > second);
    assert_eq!(h.store.hot_tiers.hot_tiers().await.unwrap().len(), 2);
}

/// H76: a blank hot tier waits for one that is used. A wiped one does not wait for itself.
pub async fn a_blank_hot_tier_waits_for_one_that_is_used(h: &Harness) {
    let (one, other) = two(h).await;
    let ids = SeededIds::new(4);
    let identity = Token::draw(&ids);
    let pair = |by, if_silent| Pair {
        identity,
        partitions: 4,
        layout: LAYOUT,
        hot: Paired {
            token: Token::draw(&ids),
            since: Timestamp(7),
            prefix: "slug".into(),
            address: "localhost".into(),
        },
        by,
        stamp: Stamp::draw(&ids),
        if_silent,
    };
    let paired = async |pair: Pair| {
        let seen = h.store.database.pairing().await.unwrap();
        h.store.database.pair(&seen, &pair).await.unwrap()
    };
    assert!(paired(pair(one, Some(LONG))).await, "the first one");
    raised(h, raise((0, 0), one, 7)).await;
    let before = h.store.database.pairing().await.unwrap();
    assert!(
        !paired(pair(other, Some(LONG))).await,
        "the first one is used"
    );
    assert_eq!(h.store.database.pairing().await.unwrap(), before);
    assert!(paired(pair(one, Some(LONG))).await, "it was wiped");
    assert!(paired(pair(other, None)).await, "Sentinels name it");
    let record = h.store.partitions.partitions(&[AT]).await.unwrap()[0];
    assert_eq!((record.epoch, record.hot), (Epoch(3), other));
}
