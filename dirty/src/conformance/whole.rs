//! Owners that are landed, compared and made anew as a whole (R16).

use storage_model::{Cell, Change, Field, Owner, Partition, Version};

use super::harness::{
    Harness, above, accepted, all_rows, applied, fault, field, live, owner, removed, set,
};
use super::probation;
use crate::{
    Bound, Collected, Entry, Fields, HotRead, LandedRow, Linked, Load, Map, Mutated, Rejected,
    Settle, Snapshot, SnapshotId,
};

/// Reads `gold` of an owner as a landing of this snapshot does.
async fn gold_of(h: &Harness, owner: &Owner, known: Option<SnapshotId>) -> Collected {
    let wanted = [(owner.clone(), vec![field("gold")])];
    let partition = h.partition(owner);
    h.store()
        .marks
        .collect(partition, &wanted, known)
        .await
        .unwrap()
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
    let read = h
        .store()
        .marks
        .collect(partition, &whole, None)
        .await
        .unwrap();
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
    assert_eq!(
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared,
        1
    );
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
    let settle = async |from| h.store().marks.settle(&landed(from)).await.unwrap();
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
        let read = h
            .store()
            .marks
            .collect_linked(partition, &wanted, bound, follow);
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

/// The owner's mark in the dirty map: its fields in order, and its version.
pub(super) async fn mark_of(h: &Harness, owner: &Owner) -> Option<(Vec<Field>, Version)> {
    let page = h
        .store()
        .marks
        .scan(h.partition(owner), Map::Dirty, 0, 99)
        .await;
    let is_own = |entry: &Entry| {
        let mark = entry.mark.as_ref().filter(|_| !entry.is_aside());
        mark.is_some_and(|mark| mark.owner == *owner)
    };
    let entry = page.unwrap().entries.into_iter().find(is_own)?;
    let mut fields = entry.mark.unwrap().fields;
    fields.sort();
    Some((fields, entry.version))
}

fn named(names: &[&str]) -> Vec<Field> {
    names.iter().map(|name| field(name)).collect()
}

fn cells(cells: &[(&str, Cell)]) -> Vec<(Field, Cell)> {
    let cells = cells.iter();
    cells
        .map(|(name, cell)| (field(name), cell.clone()))
        .collect()
}

/// Makes all hashes of the partition suspect: the database has landed data that nobody knows here.
async fn rewound(h: &Harness, partition: Partition) {
    let landed = above(h.record(partition).await.source, 7);
    assert!(h.adopt(partition, 2, landed).await);
}

/// A load of these rows as all that the owner has.
async fn rows(h: &Harness, owner: &Owner, rows: Vec<(&str, Cell, Version)>) -> Load {
    all_rows(owner, h.observe(owner).await, rows)
}

/// An owner of three fields whose hash is known to be whole, and suspect. All fields have landed.
async fn suspect(h: &Harness, id: &str) -> (Owner, Version) {
    let ann = owner(id);
    h.make_absent(&ann).await;
    let all = vec![("bag", set("b")), ("gold", set("1")), ("hat", set("h"))];
    let version = h.apply(&ann, all).await.version;
    h.land(&ann).await;
    rewound(h, h.partition(&ann)).await;
    assert!(h.read(&ann).await.header.unwrap().suspect);
    (ann, version)
}

fn below(version: Version) -> Version {
    Version::new(version.get() - 1).unwrap()
}

fn assert_compared(read: &HotRead, version: Version) {
    let header = read.header.unwrap();
    assert_eq!(
        (header.suspect, header.complete, header.version),
        (false, true, version)
    );
}

/// Hash and rows may be of different histories. A field of the one beside a field of the other is a
/// state that the owner never had.
pub async fn newer_rows_replace_a_hash_from_before_a_rewind_as_a_whole(h: &Harness) {
    let (ann, version) = suspect(h, "ann").await;
    let newer = above(version, 3);
    let rows = rows(
        h,
        &ann,
        vec![
            ("bag", removed("older"), below(version)),
            ("gold", live("9"), newer),
        ],
    );
    let read = accepted(h.fill(&rows.await).await);
    assert_compared(&read, newer);
    assert_eq!(
        read.cells,
        cells(&[("bag", removed("older")), ("gold", live("9"))])
    );
    assert_eq!(h.read(&ann).await, read);
    assert_eq!(mark_of(h, &ann).await, None);
    h.assert_ends(&ann).await;
}

/// Its tombstones, too. A mark of a field that is gone stays, and is rejected as vanished.
pub async fn newer_rows_leave_nothing_of_an_unlanded_hash_but_its_mark(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("bag", set("b")), ("gold", set("1"))])
        .await;
    let version = h.apply(&ann, vec![("bag", Change::Remove)]).await.version;
    rewound(h, h.partition(&ann)).await;
    let newer = above(version, 3);
    let load = rows(h, &ann, vec![("gold", live("9"), newer)]).await;
    let write = h.mutation(&ann, vec![("hat", set("h"))]).await;
    let version = applied(h.send(&write, Some(load)).await).version;
    let read = h.read(&ann).await;
    assert_compared(&read, version);
    assert_eq!(
        read.cells,
        cells(&[("gold", live("9")), ("hat", live("h"))])
    );
    let all = named(&["bag", "gold", "hat"]);
    assert_eq!(mark_of(h, &ann).await, Some((all, version)));
}

/// Rows of another history must not stay beside those of the hash.
pub async fn a_hash_that_wins_over_its_rows_is_marked_where_it_differs(h: &Harness) {
    let older = |version| {
        vec![
            ("bag", live("b"), below(version)),
            ("gold", live("7"), below(version)),
            ("ring", live("r"), below(version)),
        ]
    };
    let all = [
        ("bag", live("b")),
        ("gold", live("1")),
        ("hat", live("h")),
        // A whole hash knows that it was never there.
        ("ring", Cell::Purged),
    ];
    let (ann, version) = suspect(h, "ann").await;
    let load = rows(h, &ann, older(version)).await;
    let read = accepted(h.fill(&load).await);
    assert_compared(&read, version);
    assert_eq!(read.cells, cells(&all));
    assert_eq!(h.read(&ann).await, read);
    let differ = named(&["gold", "hat", "ring"]);
    assert_eq!(mark_of(h, &ann).await, Some((differ.clone(), version)));
    h.assert_lasting(&ann).await;
}

/// As a fill does. The write has a version of its own.
pub async fn a_write_marks_where_a_hash_differs_from_its_rows(h: &Harness) {
    let (ann, version) = suspect(h, "ann").await;
    let older = vec![
        ("bag", live("b"), below(version)),
        ("gold", live("7"), below(version)),
    ];
    let load = rows(h, &ann, older).await;
    let write = h.mutation(&ann, vec![("bag", set("x"))]).await;
    let write = write.when(storage_model::Condition::Version(version));
    let reply = applied(h.send(&write, Some(load)).await);
    assert_eq!(reply.changed, 1);
    let all = named(&["bag", "gold", "hat"]);
    assert_eq!(mark_of(h, &ann).await, Some((all, reply.version)));
    h.assert_lasting(&ann).await;
}

/// Otherwise every failover would land all that is in the hot tier.
pub async fn a_hash_that_equals_its_rows_is_not_marked(h: &Harness) {
    let (ann, version) = suspect(h, "ann").await;
    let equal = vec![
        ("bag", live("b"), version),
        ("gold", live("1"), below(version)),
        ("hat", live("h"), version),
    ];
    let read = accepted(h.fill(&rows(h, &ann, equal).await).await);
    assert_compared(&read, version);
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
}

/// Nor is a field that a mark names already: it lands with the version that the owner has.
pub async fn a_field_that_lands_anyway_is_not_marked_again(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("bag", set("b")), ("gold", set("1"))])
        .await;
    taken(h, &ann).await;
    let version = h.set(&ann, "bag", "c").await;
    let before = mark_of(h, &ann).await;
    assert_eq!(before, Some((named(&["bag"]), version)));
    rewound(h, partition).await;
    let read = accepted(h.fill(&rows(h, &ann, vec![]).await).await);
    assert_compared(&read, version);
    assert_eq!(mark_of(h, &ann).await, before);
}

/// The database ignores a row of the same version.
pub async fn versions_that_meet_in_two_histories_get_another_one(h: &Harness) {
    let (ann, version) = suspect(h, "ann").await;
    let met = vec![
        ("bag", live("b"), below(version)),
        ("gold", live("7"), version),
        ("hat", live("h"), version),
    ];
    let read = accepted(h.fill(&rows(h, &ann, met).await).await);
    let renewed = read.header.unwrap().version;
    assert!(version < renewed && renewed <= h.record(h.partition(&ann)).await.source);
    assert_compared(&read, renewed);
    assert_eq!(mark_of(h, &ann).await, Some((named(&["gold"]), renewed)));
}

/// Rows that were not loaded may be newer.
pub async fn some_of_the_rows_change_nothing_of_a_suspect_hash(h: &Harness) {
    let (ann, version) = suspect(h, "ann").await;
    let before = h.read(&ann).await;
    for row in [below(version), above(version, 3)] {
        let some = vec![("gold", live("7"), row), ("ring", live("r"), row)];
        let some = Load {
            complete: false,
            ..rows(h, &ann, some).await
        };
        assert_eq!(accepted(h.fill(&some).await), before);
        assert_eq!(h.read(&ann).await, before);
        let write = h.mutation(&ann, vec![("gold", set("2"))]).await;
        let answer = h.send(&write, Some(some)).await;
        assert!(matches!(answer, Mutated::Load(_)), "{answer:?}");
    }
}

/// The comparison is answered all the same, and the caller lands what differs.
pub async fn at_the_memory_limit_a_comparison_is_answered_and_not_kept(h: &Harness) {
    // Unlanded data is not evicted.
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let all = vec![("bag", set("b")), ("gold", set("1")), ("hat", set("h"))];
    let version = h.apply(&ann, all).await.version;
    rewound(h, h.partition(&ann)).await;
    let newer = rows(h, &ann, vec![("gold", live("7"), above(version, 3))]).await;
    let older = rows(h, &ann, vec![("ring", live("7"), below(version))]).await;
    let met = rows(h, &ann, vec![("gold", live("7"), version)]).await;
    let mark = mark_of(h, &ann).await;
    h.rig().exhaust().await;
    let before = h.read(&ann).await;
    let read = accepted(h.fill(&newer).await);
    assert_compared(&read, above(version, 3));
    assert_eq!(read.cells, cells(&[("gold", live("7"))]));
    let all = [("bag", live("b")), ("gold", live("1")), ("hat", live("h"))];
    let read = accepted(h.fill(&older).await);
    assert_compared(&read, version);
    let (mut with_ring, ring) = (cells(&all), cells(&[("ring", Cell::Purged)]));
    with_ring.extend(ring);
    assert_eq!(read.cells, with_ring);
    let read = accepted(h.fill(&met).await);
    assert_compared(&read, above(h.record(h.partition(&ann)).await.source, 1));
    assert_eq!(read.cells, cells(&all));
    assert_eq!(h.read(&ann).await, before);
    assert_eq!(mark_of(h, &ann).await, mark);
}

/// The rows of such an owner are no state, and the rejected value is only here.
pub async fn a_rejected_field_of_a_torn_owner_outlives_newer_rows(h: &Harness) {
    replaced_with_rejected_gold(h, true).await;
}

/// Its rows are a state, and the rejected value belongs to another one.
pub async fn a_rejected_field_of_a_whole_owner_goes_with_its_hash(h: &Harness) {
    replaced_with_rejected_gold(h, false).await;
}

async fn replaced_with_rejected_gold(h: &Harness, is_torn: bool) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    let rejected = reject(h, &ann).await;
    let version = h.set(&ann, "bag", "b").await;
    rewound(h, h.partition(&ann)).await;
    // Without the rejected field, the torn owner has landed up to the version of its hash.
    let beside = if is_torn { version } else { below(rejected) };
    let newer = vec![
        ("bag", live("b"), beside),
        ("gold", live("0"), below(rejected)),
        ("hat", live("h"), above(version, 3)),
    ];
    let read = accepted(h.fill(&rows(h, &ann, newer).await).await);
    assert_compared(&read, above(version, 3));
    let gold = live(if is_torn { "1" } else { "0" });
    assert_eq!(
        read.cells,
        cells(&[("bag", live("b")), ("gold", gold), ("hat", live("h"))])
    );
    assert_eq!(h.read(&ann).await, read);
}

/// A landing of the lost hash may be under way. What it commits must not stay beside the new hash.
pub async fn a_hash_in_place_of_a_lost_one_is_marked_as_a_whole(h: &Harness) {
    for by_fill in [true, false] {
        let ann = owner(if by_fill { "filled" } else { "written" });
        let lost = h
            .apply(&ann, vec![("gold", set("5")), ("ring", set("r"))])
            .await
            .version;
        h.rig().lose(&ann).await;
        let write = h.mutation(&ann, vec![("hat", set("h"))]).await;
        let answer = h.send(&write, None).await;
        assert!(matches!(answer, Mutated::Load(_)), "{answer:?}");
        let old = vec![
            ("bag", live("b"), below(lost)),
            ("gold", live("1"), below(lost)),
        ];
        let load = rows(h, &ann, old).await;
        let mut all = vec![
            ("bag", live("b")),
            ("gold", live("1")),
            ("ring", Cell::Purged),
        ];
        let version = if by_fill {
            let read = accepted(h.fill(&load).await);
            read.header.unwrap().version
        } else {
            all.insert(2, ("hat", live("h")));
            applied(h.send(&write, Some(load)).await).version
        };
        assert!(version > lost);
        let read = h.read(&ann).await;
        assert_compared(&read, version);
        assert_eq!(read.header.unwrap().born, version);
        assert_eq!(read.cells, cells(&all));
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(mark_of(h, &ann).await, Some((named(&names), version)));
        h.assert_lasting(&ann).await;
    }
}

/// There is nothing to load.
pub async fn a_lost_owner_without_rows_is_marked_as_a_whole(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "5").await;
    h.rig().lose(&ann).await;
    h.lose_marker(&ann).await;
    h.make_absent(&ann).await;
    let version = h.set(&ann, "hat", "h").await;
    assert_eq!(
        h.read(&ann).await.cells,
        cells(&[("gold", Cell::Purged), ("hat", live("h"))])
    );
    let both = named(&["gold", "hat"]);
    assert_eq!(mark_of(h, &ann).await, Some((both, version)));
}

/// Its other rows are not known, so none of them is said to be gone.
pub async fn a_lost_owner_that_is_loaded_in_part_is_marked_where_it_is_known(h: &Harness) {
    let ann = owner("ann");
    let lost = h.set(&ann, "gold", "5").await;
    h.rig().lose(&ann).await;
    let some = Load {
        complete: false,
        ..rows(h, &ann, vec![("bag", live("b"), below(lost))]).await
    };
    let write = h.mutation(&ann, vec![("hat", set("h"))]).await;
    let version = applied(h.send(&write, Some(some)).await).version;
    assert_eq!(
        h.read(&ann).await.cells,
        cells(&[("bag", live("b")), ("hat", live("h"))])
    );
    let both = named(&["bag", "hat"]);
    assert_eq!(mark_of(h, &ann).await, Some((both, version)));
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
    let left = h.store().marks.scan(partition, Map::Snapshot, 0, 9).await;
    assert_eq!(left.unwrap().entries, []);
    h.unlock(partition, &lock).await;
    version
}
