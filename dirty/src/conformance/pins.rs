//! The hash of a held owner has no time to live, also after its marks are gone (S2). Saves are
//! plain sets, which would make half a hash after an expiry.

use storage_model::{Condition, Owner, Version};

use super::Life;
use super::field;
use super::harness::{
    Harness, above, accepted, all_rows, applied, fault, landed_rows, live, owner,
};
use super::sessions::{HOLDER, Held, open};
use crate::{Claimed, Expire, Map, Probation, Rejected, Settle};

async fn life(h: &Harness, owner: &Owner) -> Life {
    h.rig().life(owner).await
}

/// Asserts that the hash stays until its session ends.
async fn assert_pinned(h: &Harness, held: &Held, why: &str) {
    assert_eq!(life(h, &held.owner).await, Life::Lasting, "{why}");
    assert!(
        h.store()
            .sessions
            .close_session(&held.owner, held.fence)
            .await
            .unwrap()
    );
    assert!(
        matches!(life(h, &held.owner).await, Life::Ends(_)),
        "nothing keeps it but the session: {why}"
    );
}

/// A session that has saved once.
async fn saved(h: &Harness) -> (Held, Version) {
    let held = open(h, &owner("ann")).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    (held, version)
}

/// Landed, touched, evicted.
pub async fn the_hash_of_a_held_owner_stays(h: &Harness) {
    let (held, _) = saved(h).await;
    let ann = held.owner.clone();
    h.land(&ann).await;
    assert_eq!(life(h, &ann).await, Life::Lasting);
    h.store()
        .owners
        .refresh_ttl(std::slice::from_ref(&ann))
        .await
        .unwrap();
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(life(h, &ann).await, Life::Lasting);
    h.store()
        .sessions
        .close_session(&ann, held.fence)
        .await
        .unwrap();
    assert_eq!(
        life(h, &ann).await,
        Life::Gone,
        "the requested eviction comes with the end"
    );
    let bob = owner("bob");
    h.set(&bob, "gold", "1").await;
    h.land(&bob).await;
    assert!(matches!(life(h, &bob).await, Life::Ends(_)));
    let held = open(h, &bob).await;
    assert_pinned(h, &held, "it was clean when the session was opened").await;
}

/// The mark is from before the opening, its landing from after.
pub async fn a_landing_from_before_the_opening_leaves_the_hash_of_a_held_owner(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let held = open(h, &ann).await;
    let entries = h.scan(partition).await;
    assert_eq!(
        h.settle(partition, Some(&lock), &entries)
            .await
            .unwrap()
            .cleared,
        1
    );
    assert_pinned(h, &held, "settled").await;
}

/// With a rejected field, and once that field has landed.
pub async fn a_refused_field_that_lands_at_last_leaves_the_hash_of_a_held_owner(h: &Harness) {
    let (held, version) = saved(h).await;
    let ann = held.owner.clone();
    let partition = h.partition(&ann);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop();
    let faults = vec![fault("gold", version, "bad")];
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source,
            owner: Some(ann.clone()),
            faults,
        }],
    )
    .await
    .unwrap();
    assert_eq!(life(h, &ann).await, Life::Lasting);
    let rows = vec![(ann.clone(), field("gold"), version)];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        ..h.settling(partition, Some(&lock))
    };
    assert_eq!(
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared,
        1
    );
    assert!(!h.is_marked(&ann).await);
    assert_pinned(h, &held, "its error mark is cleared").await;
}

/// An entry without a rejected field just goes.
pub async fn an_entry_that_is_rejected_without_a_fault_leaves_the_hash_of_a_held_owner(
    h: &Harness,
) {
    let (held, _) = saved(h).await;
    let ann = held.owner.clone();
    let partition = h.partition(&ann);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop();
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source,
            owner: Some(ann.clone()),
            faults: vec![],
        }],
    )
    .await
    .unwrap();
    assert!(!h.is_marked(&ann).await);
    assert_pinned(h, &held, "rejected").await;
}

/// H33.
pub async fn the_end_of_a_probation_leaves_the_hash_of_a_held_owner(h: &Harness) {
    let (held, version) = saved(h).await;
    let ann = held.owner.clone();
    let partition = h.partition(&ann);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let marks = h.scan(partition).await;
    let settle = Settle {
        landed: version,
        marks,
        probation: true,
        ..h.settling(partition, Some(&lock))
    };
    h.store().marks.settle(&settle).await.unwrap();
    let Probation::Leaves(window) = h
        .store()
        .probations
        .probation(partition, &lock)
        .await
        .unwrap()
    else {
        panic!("it leaves")
    };
    let entries = h
        .store()
        .marks
        .scan(partition, Map::Expiring, 0, 10)
        .await
        .unwrap()
        .entries;
    assert_eq!(
        h.store()
            .probations
            .expire(&Expire {
                partition,
                lock,
                window,
                entries
            })
            .await
            .unwrap(),
        1
    );
    assert!(!h.is_marked(&ann).await);
    assert_pinned(h, &held, "expired").await;
}

/// A reader loads the owner of a session. The owner has no hash yet.
pub async fn a_fill_leaves_the_hash_of_a_held_owner_lasting(h: &Harness) {
    let held = open(h, &owner("ann")).await;
    assert_eq!(life(h, &held.owner).await, Life::Gone);
    let rows = vec![("gold", live("1"), above(Version::ZERO, 5))];
    accepted(
        h.fill(&all_rows(&held.owner, h.observe(&held.owner).await, rows))
            .await,
    );
    assert_pinned(h, &held, "filled").await;
}

/// If the session lapses, its hash is plain landed data again.
pub async fn a_session_that_is_claimed_or_lapses_takes_and_gives_a_time_to_live(h: &Harness) {
    let (ann, partition) = (owner("ann"), h.partition(&owner("ann")));
    h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    h.rig().save().await;
    let held = open(h, &ann).await;
    h.rig().rewind().await;
    for partition in h.partitions() {
        assert!(h.adopt(partition, 2, Version::ZERO).await);
    }
    assert!(
        matches!(life(h, &ann).await, Life::Ends(_)),
        "the session is forgotten"
    );
    assert!(matches!(held.claim(h).await, Claimed::Yes { .. }));
    assert!(h.end_grace(partition, 2).await);
    assert_eq!(life(h, &ann).await, Life::Lasting, "claimed");
    assert_eq!(
        h.store().holders.lapse(partition, HOLDER, 0).await.unwrap(),
        1
    );
    assert!(matches!(life(h, &ann).await, Life::Ends(_)), "lapsed");
    let known = h.read(&ann).await.header.unwrap().version;
    let mut save = held.save(h, "2").await.when(Condition::Version(known));
    save.changes = vec![(field("none"), storage_model::Change::Remove)].into();
    let load = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("gold", live("1"), known)],
    );
    assert_eq!(applied(h.send(&save, Some(load)).await).changed, 0);
    assert_eq!(
        life(h, &ann).await,
        Life::Lasting,
        "it goes on, although it had nothing to save"
    );
}
