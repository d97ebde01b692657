//! Loads of more rows than one script takes. They hold as those of few rows do (R7, R15, R16).

use storage_model::{Cell, Change, Owner, Version};

use super::field;
use super::harness::{Harness, above, accepted, applied, live, owner, set};
use super::whole;
use crate::{Filled, HotRead, Load, Mutated};

/// More than three calls take.
const ROWS: usize = 1_700;

/// A load of many rows. The newest is in the middle.
async fn many(h: &Harness, owner: &Owner, newest: Version) -> Load {
    let observed = h.observe(owner).await;
    let row = |n: usize| {
        let distance = u64::try_from(n.abs_diff(ROWS / 2)).unwrap();
        let version = Version::new(newest.get().saturating_sub(distance)).unwrap();
        (field(&format!("f{n:04}")), live(&n.to_string()), version)
    };
    Load {
        owner: owner.clone(),
        observed,
        rows: (0..ROWS).map(row).collect(),
        complete: true,
    }
}

fn assert_whole(read: &HotRead, version: Version, others: &[(&str, Cell)]) {
    let header = read.header.unwrap();
    assert_eq!(
        (header.complete, header.suspect, header.version),
        (true, false, version)
    );
    assert_eq!(read.cells.len(), ROWS + others.len());
    for n in 0..ROWS {
        let cell = (field(&format!("f{n:04}")), live(&n.to_string()));
        assert!(read.cells.contains(&cell), "{cell:?}");
    }
    for (name, cell) in others {
        assert!(read.cells.contains(&(field(name), cell.clone())), "{name}");
    }
}

fn far_above(version: Version) -> Version {
    above(version, 1_000_000)
}

/// The hash has the version of the newest row, whatever order the rows come in.
pub async fn an_owner_of_many_rows_is_loaded_as_a_whole(h: &Harness) {
    let ann = owner("ann");
    let newest = far_above(h.record(h.partition(&ann)).await.source);
    let load = many(h, &ann, newest).await;
    let read = accepted(h.fill(&load).await);
    assert_whole(&read, newest, &[]);
    assert_eq!(h.read(&ann).await, read);
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
}

/// Fields that are there already win.
pub async fn many_rows_join_a_hash_of_some_fields(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let version = h.set(&ann, "hat", "new").await;
    let mut load = many(h, &ann, old).await;
    load.rows.push((field("hat"), live("old"), old));
    let read = accepted(h.fill(&load).await);
    assert_whole(&read, version, &[("hat", live("new"))]);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// The write finds all rows, and its hash lasts until it has landed.
pub async fn a_write_is_applied_to_many_loaded_rows(h: &Harness) {
    let ann = owner("ann");
    let newest = far_above(h.record(h.partition(&ann)).await.source);
    let load = many(h, &ann, newest).await;
    let write = h
        .mutation(
            &ann,
            vec![("f0000", Change::Incr(5)), ("f1699", Change::Remove)],
        )
        .await;
    let done = applied(h.send(&write, Some(load)).await);
    assert!(done.version > newest);
    assert_eq!(done.counters, [5]);
    let read = h.read(&ann).await;
    assert!(read.header.unwrap().complete);
    assert_eq!(read.cells.len(), ROWS);
    assert_eq!(h.live(&ann, "f0001").await.unwrap(), "1");
    assert_eq!(
        h.cell(&ann, "f1699").await,
        Some(Cell::Removed("1699".into()))
    );
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// The rows may be older than the change.
pub async fn many_rows_are_refused_after_another_change(h: &Harness) {
    let ann = owner("ann");
    let newest = far_above(h.record(h.partition(&ann)).await.source);
    let load = many(h, &ann, newest).await;
    h.set(&ann, "f0001", "mine").await;
    assert_eq!(h.fill(&load).await, Filled::Refused);
    let write = h.mutation(&ann, vec![("f0000", Change::Incr(5))]).await;
    let answer = h.send(&write, Some(load)).await;
    assert!(matches!(answer, Mutated::Load(_)), "{answer:?}");
    assert_eq!(
        h.read(&ann).await.cells,
        [(field("f0001"), live("mine"))],
        "no row came along"
    );
}

/// A part of the rows would be a state that the owner never had.
pub async fn many_newer_rows_replace_a_suspect_hash_as_a_whole(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("f0003", set("x")), ("hat", set("h"))])
        .await;
    h.land(&ann).await;
    let partition = h.partition(&ann);
    let landed = above(h.record(partition).await.source, 7);
    assert!(h.adopt(partition, 2, landed).await);
    let newest = far_above(landed);
    let load = many(h, &ann, newest).await;
    let read = accepted(h.fill(&load).await);
    assert_whole(&read, newest, &[]);
    assert_eq!(h.read(&ann).await, read);
}

/// Each of them is marked, since a landing of the lost hash may be under way.
pub async fn many_rows_in_place_of_a_lost_hash_are_marked_as_a_whole(h: &Harness) {
    let ann = owner("ann");
    let lost = h.set(&ann, "hat", "h").await;
    h.rig().lose(&ann).await;
    let load = many(h, &ann, lost).await;
    let read = accepted(h.fill(&load).await);
    let version = read.header.unwrap().version;
    assert_whole(&read, version, &[("hat", Cell::Purged)]);
    let (fields, _) = whole::mark_of(h, &ann).await.unwrap();
    assert_eq!(fields.len(), ROWS + 1);
}
