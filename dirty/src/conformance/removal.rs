//! Remove, restore and purge.

use storage_model::{Cell, Change};

use super::field;
use super::harness::{Harness, accepted, all_rows, live, owner, removed, set};
use crate::{Fields, Mutated, Refusal};

/// Logical deletion.
pub async fn remove_keeps_the_last_value_as_a_tombstone(h: &Harness) {
    let ann = owner("ann");
    let first = h
        .apply(&ann, vec![("bag", set("x")), ("gold", set("1"))])
        .await
        .version;
    let applied = h.apply(&ann, vec![("bag", Change::Remove)]).await;
    assert!(applied.version > first);
    assert_eq!(applied.changed, 1);
    assert_eq!(h.cell(&ann, "bag").await, Some(removed("x")));
    let read = h
        .read_fields(&ann, Fields::Live(vec![field("bag"), field("gold")]))
        .await;
    assert_eq!(read.cells, vec![(field("gold"), live("1"))]);
    assert_eq!(
        h.read_fields(&ann, Fields::Names).await.cells,
        vec![(field("bag"), removed("")), (field("gold"), live(""))]
    );
    let entries = h.land(&ann).await;
    assert!(
        entries.iter().any(|entry| entry.version == applied.version),
        "a removal is marked"
    );
}

/// Undo.
pub async fn restore_brings_a_tombstone_back(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "bag", "x").await;
    h.apply(&ann, vec![("bag", Change::Remove)]).await;
    h.land(&ann).await;
    let applied = h.apply(&ann, vec![("bag", Change::Restore)]).await;
    assert_eq!(applied.changed, 1);
    assert_eq!(h.cell(&ann, "bag").await, Some(live("x")));
    assert!(h.is_marked(&ann).await);
}

/// Nothing changed: no version, no mark. Only changed fields are marked.
pub async fn what_has_nothing_to_do_writes_nothing(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let reply = h.apply(&ann, vec![("bag", Change::Remove)]).await;
    assert_eq!((reply.version.get(), reply.changed), (0, 0));
    assert_eq!(h.read(&ann).await.header, None);
    assert!(h.observe(&ann).await.marker.is_absent());
    let version = h.set(&ann, "bag", "x").await;
    h.land(&ann).await;
    for changes in [
        vec![("bag", Change::Restore)],
        vec![("bag", Change::Purge)],
        vec![("never", Change::Remove), ("not", Change::Restore)],
        vec![("never", Change::Purge)],
    ] {
        let reply = h.apply(&ann, changes).await;
        assert_eq!((reply.version, reply.changed), (version, 0));
    }
    assert!(!h.is_marked(&ann).await);
    let reply = h
        .apply(
            &ann,
            vec![("bag", Change::Remove), ("never", Change::Remove)],
        )
        .await;
    assert_eq!(reply.changed, 1);
    let entries = h.land(&ann).await;
    assert_eq!(entries[0].mark.as_ref().unwrap().fields, vec![field("bag")]);
    h.assert_ends(&ann).await;
}

/// The row must hold the tombstone before its value is given up.
pub async fn purge_is_refused_until_the_owner_has_landed(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "bag", "x").await;
    h.apply(&ann, vec![("bag", Change::Remove)]).await;
    let before = h.read(&ann).await;
    assert_eq!(
        h.change(&ann, vec![("bag", Change::Purge)]).await,
        Mutated::Refused(Refusal::NotLanded)
    );
    assert_eq!(h.read(&ann).await, before);
    h.land(&ann).await;
    h.set(&ann, "other", "1").await;
    assert_eq!(
        h.change(&ann, vec![("bag", Change::Purge)]).await,
        Mutated::Refused(Refusal::NotLanded)
    );
    h.land(&ann).await;
    assert_eq!(h.apply(&ann, vec![("bag", Change::Purge)]).await.changed, 1);
}

/// A purge lands too.
pub async fn purge_gives_the_value_up_and_the_owner_a_new_version(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "bag", "x").await;
    let gone = h.apply(&ann, vec![("bag", Change::Remove)]).await.version;
    h.land(&ann).await;
    let purged = h.apply(&ann, vec![("bag", Change::Purge)]).await.version;
    assert!(purged > gone);
    assert_eq!(h.cell(&ann, "bag").await, Some(Cell::Purged));
    let entries = h.land(&ann).await;
    assert_eq!((entries.len(), entries[0].version), (1, purged));
    assert_eq!(
        h.apply(&ann, vec![("bag", Change::Restore)]).await.changed,
        0
    );
    assert_eq!(h.cell(&ann, "bag").await, Some(Cell::Purged));
    assert_eq!(
        h.apply(&ann, vec![("bag", Change::Incr(2))]).await.counters,
        vec![2]
    );
}

/// H15.
pub async fn a_load_from_before_a_purge_brings_nothing_back(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let version = h.set(&ann, "bag", "x").await;
    h.land(&ann).await;
    let load = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("bag", live("x"), version), ("old", live("y"), version)],
    );
    h.apply(&ann, vec![("bag", Change::Remove)]).await;
    h.land(&ann).await;
    h.apply(&ann, vec![("bag", Change::Purge)]).await;
    let with_old = vec![(field("bag"), Cell::Purged), (field("old"), live("y"))];
    assert_eq!(
        accepted(h.fill(&load).await).cells,
        with_old,
        "fields of the hash win, also a purged one"
    );
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        h.fill(&load).await,
        crate::Filled::Refused,
        "and nothing joins another hash"
    );
}

/// A set brings a field back to life.
pub async fn a_set_clears_a_tombstone(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "bag", "x").await;
    h.apply(&ann, vec![("bag", Change::Remove)]).await;
    h.set(&ann, "bag", "y").await;
    assert_eq!(h.read(&ann).await.cells, vec![(field("bag"), live("y"))]);
    assert_eq!(
        h.apply(&ann, vec![("bag", Change::Restore)]).await.changed,
        0
    );
}

/// These changes build on the value.
pub async fn removal_of_an_unknown_field_needs_a_load(h: &Harness) {
    let (cold, _) = h.cold("cold").await;
    let partial = owner("partial");
    h.set(&partial, "other", "1").await;
    for change in [
        Change::Remove,
        Change::Restore,
        Change::Purge,
        Change::Incr(1),
    ] {
        for owner in [&cold, &owner("unknown")] {
            assert_eq!(
                h.change(owner, vec![("gold", change.clone())]).await,
                Mutated::Load(h.observe(owner).await)
            );
        }
        if change != Change::Purge {
            let observed = h.observe(&partial).await;
            assert_eq!(
                h.change(&partial, vec![("gold", change)]).await,
                Mutated::Load(observed)
            );
        }
    }
}
