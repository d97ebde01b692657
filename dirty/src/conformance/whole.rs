//! Owners of which only a part was collected (R16).

use storage_model::{Owner, Version};

use super::harness::{Harness, fault, field, owner, set};
use super::probation;
use crate::{
    Bound, Collected, Fields, LandedRow, Linked, Map, Rejected, Settle, Snapshot, SnapshotId,
};

/// Reads `gold` of an owner as a landing of this snapshot does.
async fn gold_of(h: &Harness, owner: &Owner, known: Option<SnapshotId>) -> Collected {
    let wanted = [(owner.clone(), vec![field("gold")])];
    let partition = h.partition(owner);
    h.store().collect(partition, &wanted, known).await.unwrap()
}

async fn taken(h: &Harness, owner: &Owner) -> SnapshotId {
    let partition = h.partition(owner);
    let lock = h.lock(partition).await;
    match h.snapshot(partition, &lock).await {
        Snapshot::Taken(snapshot) => snapshot,
        other => panic!("{other:?}"),
    }
}

/// A write between snapshot and collection has more fields, and their values belong to its `gold`.
pub async fn a_later_mark_of_another_field_makes_a_read_partial(h: &Harness) {
    let (ann, bob) = (owner("ann"), owner("bob"));
    h.set(&ann, "gold", "105").await;
    let snapshot = taken(h, &ann).await;
    assert_eq!(gold_of(h, &ann, Some(snapshot)).await.partial, []);
    h.set(&ann, "gold", "104").await;
    assert_eq!(gold_of(h, &ann, Some(snapshot)).await.partial, []);
    h.apply(&ann, vec![("gold", set("5")), ("bank", set("100"))])
        .await;
    assert_eq!(
        gold_of(h, &ann, Some(snapshot)).await.partial,
        std::slice::from_ref(&ann)
    );
    // The whole hash has all fields, whatever its marks name.
    let whole = [(ann.clone(), Vec::new()), (bob, vec![field("gold")])];
    let partition = h.partition(&ann);
    let read = h.store().collect(partition, &whole, None).await.unwrap();
    assert_eq!(read.partial, []);
}

/// Of the snapshot that the caller has read, all marks are known.
pub async fn a_mark_of_an_unknown_snapshot_makes_a_read_partial(h: &Harness) {
    let ann = owner("ann");
    h.apply(&ann, vec![("gold", set("5")), ("bank", set("100"))])
        .await;
    let snapshot = taken(h, &ann).await;
    assert_eq!(gold_of(h, &ann, Some(snapshot)).await.partial, []);
    assert_eq!(
        gold_of(h, &ann, None).await.partial,
        std::slice::from_ref(&ann)
    );
    let before = SnapshotId(snapshot.0.wrapping_sub(1));
    assert_eq!(gold_of(h, &ann, Some(before)).await.partial, [ann]);
}

/// A rejected field keeps the others back, so it is read with them.
pub async fn an_owner_of_the_error_map_is_always_read_again(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "5").await;
    let version = reject(h, &ann).await;
    assert_eq!(
        gold_of(h, &ann, None).await.partial,
        std::slice::from_ref(&ann)
    );
    let rows = vec![LandedRow {
        owner: ann.clone(),
        field: field("gold"),
        version,
        from: Version::ZERO,
    }];
    let settle = Settle {
        landed: version,
        rows,
        ..h.settling(partition, None)
    };
    assert_eq!(h.store().settle(&settle).await.unwrap().errors_cleared, 1);
    assert_eq!(gold_of(h, &ann, None).await.partial, []);
}

/// The database may have forgotten a landed row. Until its mark is live again, it counts where it is.
pub async fn a_mark_to_be_requeued_makes_a_read_partial(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "bank", "100").await;
    let lock = h.lock(partition).await;
    probation::land(h, partition, &lock).await;
    h.set(&ann, "gold", "5").await;
    assert_eq!(gold_of(h, &ann, None).await.partial, []);
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(
        gold_of(h, &ann, None).await.partial,
        std::slice::from_ref(&ann)
    );
    probation::requeue(h, partition, &lock).await;
    assert_eq!(gold_of(h, &ann, None).await.partial, [ann]);
}

/// A row of a later hash proves nothing about a write that went with an earlier one (R6).
pub async fn a_row_clears_only_error_marks_since_the_birth_of_its_hash(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "5").await;
    let version = reject(h, &ann).await;
    let born = Version::new(version.get() + 1).unwrap();
    let landed = |from| Settle {
        landed: born,
        rows: vec![LandedRow {
            owner: ann.clone(),
            field: field("gold"),
            version: born,
            from,
        }],
        ..h.settling(partition, None)
    };
    let settle = async |from| h.store().settle(&landed(from)).await.unwrap();
    assert_eq!(settle(born).await.errors_cleared, 0);
    assert_eq!(settle(version).await.errors_cleared, 1);
}

/// Each of the owners lands as a whole, though all of them are too many for one commit.
pub async fn an_owner_is_read_whole_without_its_partners(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "5").await;
    let snapshot = taken(h, &ann).await;
    h.set(&ann, "bank", "100").await;
    let wanted = [(ann.clone(), Fields::Cells(vec![field("gold")]))];
    let bound = Bound {
        rows: 100,
        bytes: 1_000,
    };
    for follow in [true, false] {
        let read = h.store().collect_linked(partition, &wanted, bound, follow);
        let Linked::Closed(_, members) = read.await.unwrap() else {
            panic!("it is small")
        };
        let [member] = members.as_slice() else {
            panic!("{members:?}")
        };
        let both = vec![field("bank"), field("gold")];
        assert_eq!(member.fields, Fields::Cells(both));
        let (number, entry) = member.mark.clone().unwrap();
        assert_eq!(
            (number, entry.mark.unwrap().fields),
            (snapshot, vec![field("gold")])
        );
    }
}

/// Moves the mark of `gold` to the error map.
async fn reject(h: &Harness, owner: &Owner) -> Version {
    let partition = h.partition(owner);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop();
    let version = source.as_ref().unwrap().version;
    let rejected = Rejected {
        leaves: Vec::new(),
        source,
        owner: Some(owner.clone()),
        faults: vec![fault("gold", version, "too long")],
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    let left = h.store().scan(partition, Map::Snapshot, 0, 9).await;
    assert_eq!(left.unwrap().entries, []);
    version
}
