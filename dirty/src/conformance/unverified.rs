//! A replaced hot tier that is served while the cold tier can't be asked (R14).

use storage_model::{Change, Epoch, Owner, Version};

use super::field;
use super::harness::{Harness, above, accepted, all_rows, applied, live, owner, removed, set};
use crate::{Filled, HotRead, Mutated, Refusal};

/// Gives the store another incarnation and serves the owner's partition as it is.
async fn replace_and_serve(h: &Harness, owner: &Owner) {
    h.rig().reincarnate().await;
    let partition = h.partition(owner);
    let seen = h.store().partition_states(&[partition]).await.remove(0).unwrap();
    assert!(!seen.is_current());
    assert_eq!(h.store().trust(partition, &seen).await, Ok(true));
}

/// Compares the owner with these rows, which must be proved.
async fn compare(h: &Harness, owner: &Owner, rows: Vec<(&str, storage_model::Cell, Version)>) -> HotRead {
    let read = accepted(h.fill(&all_rows(owner, h.observe(owner).await, rows)).await);
    assert_eq!(h.read(owner).await, read);
    assert!(!read.header.unwrap().suspect);
    read
}

fn cells(read: &HotRead) -> Vec<(String, String)> {
    let value = |cell: &storage_model::Cell| String::from_utf8(cell.value().to_vec()).unwrap();
    read.cells.iter().map(|(field, cell)| (field.to_string(), value(cell))).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A write raises the owner's version above rows that it never saw; they win all the same, but for the fields that it wrote.
pub async fn a_write_while_served_unverified_hides_no_row_and_gives_way_to_none(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    let fields = ["bag", "gold", "name", "pet"].map(|name| (name, set("1")));
    let old = h.apply(&ann, fields.to_vec()).await.version;
    replace_and_serve(h, &ann).await;
    for changes in [vec![("gold", set("9"))], vec![("pet", Change::Incr(9))]] {
        let late = h.mutation(&ann, changes).await.sent_in(Epoch(1));
        let moved = Refusal::Moved { epoch: Epoch(0), generation: Epoch(0) };
        assert_eq!(h.send(&late, None).await, Mutated::Refused(moved), "its first copy may have landed");
    }
    // One after the other, blind and not.
    let first = h.set(&ann, "gold", "2").await;
    let last = h.apply(&ann, vec![("pet", Change::Incr(6))]).await.version;
    // Rows between, and after if the clock was set back.
    let (hidden, ahead) = (above(old, 1), above(last, 1 << 40));
    assert!(hidden < first);
    assert!(h.adopt(partition, 2, ahead).await);
    let rows = || {
        vec![
            ("bag", live("landed"), hidden),
            ("gold", live("landed"), ahead),
            ("name", live("older"), old),
            ("pet", live("landed"), hidden),
        ]
    };
    let read = compare(h, &ann, rows()).await;
    assert_eq!(cells(&read), pairs(&[("bag", "landed"), ("gold", "2"), ("name", "1"), ("pet", "7")]));
    let version = read.header.unwrap().version;
    assert!(version > ahead, "it lands over every row");
    assert!(h.record(partition).await.source >= version);
    h.assert_lasting(&ann).await;

    // Compared once, it is a hash like any other.
    let later = above(version, 1 << 20);
    assert!(h.adopt(partition, 3, later).await);
    let read = compare(h, &ann, vec![("gold", live("later"), later), ("bag", live("older"), hidden)]).await;
    assert_eq!(cells(&read), pairs(&[("bag", "landed"), ("gold", "later"), ("name", "1"), ("pet", "7")]));
    assert!(h.set(&ann, "gold", "3").await > later);
}

/// In one step with what builds on it.
pub async fn a_mutation_compares_what_was_written_unverified(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let old = h.apply(&ann, vec![("bag", set("1")), ("gold", set("1"))]).await.version;
    replace_and_serve(h, &ann).await;
    let last = h.apply(&ann, vec![("gold", Change::Incr(4))]).await.version;
    let ahead = above(last, 1 << 40);
    assert!(h.adopt(h.partition(&ann), 2, ahead).await);
    let incr = h.mutation(&ann, vec![("bag", Change::Incr(1)), ("gold", Change::Incr(1))]).await;
    let Mutated::Load(observed) = h.send(&incr, None).await else { panic!("a suspect hash is compared first") };
    let rows = vec![("bag", live("50"), above(old, 1)), ("gold", live("50"), ahead)];
    let reply = applied(h.send(&incr, Some(all_rows(&ann, observed, rows))).await);
    assert_eq!(reply.counters, vec![51, 6]);
    assert!(reply.version > ahead);
}

/// An owner that the hot tier did not hold.
pub async fn a_new_hash_that_was_written_unverified_takes_all_rows_of_other_fields(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let (ann, old) = h.cold("ann").await;
    replace_and_serve(h, &ann).await;
    let version = h.set(&ann, "bag", "2").await;
    assert!(h.adopt(h.partition(&ann), 2, above(version, 9)).await);
    let read = compare(h, &ann, vec![("bag", live("1"), old), ("gold", live("1"), above(version, 9))]).await;
    assert_eq!(cells(&read), pairs(&[("bag", "2"), ("gold", "1")]));
}

/// Removed is written, too.
pub async fn a_removal_while_served_unverified_stays(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("bag", set("1")), ("gold", set("1"))]).await;
    replace_and_serve(h, &ann).await;
    let version = h.apply(&ann, vec![("gold", Change::Remove)]).await.version;
    assert!(h.adopt(h.partition(&ann), 2, above(version, 9)).await);
    let read = compare(h, &ann, vec![("gold", live("landed"), above(version, 9))]).await;
    assert_eq!(read.cells, vec![(field("bag"), live("1")), (field("gold"), removed("1"))]);
}

/// What was written may have landed and been lost again: versions decide, as for any rewound hash.
pub async fn what_was_written_under_a_server_that_was_replaced_once_more_gives_way_to_newer_rows(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let old = h.apply(&ann, vec![("bag", set("1")), ("gold", set("1")), ("name", set("1"))]).await.version;
    replace_and_serve(h, &ann).await;
    h.apply(&ann, vec![("bag", set("2")), ("gold", set("2"))]).await;
    replace_and_serve(h, &ann).await;
    let version = h.set(&ann, "bag", "3").await;
    let later = above(version, 9);
    assert!(h.adopt(h.partition(&ann), 2, later).await);
    let hidden = above(old, 1);
    let rows = vec![("bag", live("landed"), hidden), ("gold", live("later"), later), ("name", live("landed"), hidden)];
    let read = compare(h, &ann, rows).await;
    assert_eq!(cells(&read), pairs(&[("bag", "3"), ("gold", "later"), ("name", "landed")]));
}

/// Nobody knows what a write hides.
pub async fn a_partition_that_was_served_unverified_is_compared_though_nothing_was_lost(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    replace_and_serve(h, &ann).await;
    assert!(h.adopt(h.partition(&ann), 2, Version::ZERO).await);
    assert_eq!(h.record(h.partition(&ann)).await.generation, Epoch(2));
    assert!(h.read(&ann).await.header.unwrap().suspect);
    h.rig().reincarnate().await;
    assert!(h.adopt(h.partition(&ann), 3, Version::ZERO).await);
    assert_eq!(h.record(h.partition(&ann)).await.generation, Epoch(2), "served no more");
}

/// It gives up a value for good, of which nobody knows whether it is the last.
pub async fn nothing_is_purged_or_loaded_while_served_unverified(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let mut owners = h.owners_of_one_partition(2);
    let bob = owners.remove(1);
    let (ann, old) = h.cold(owners[0].id()).await;
    let load = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.make_absent(&bob).await;
    h.set(&bob, "gold", "1").await;
    h.apply(&bob, vec![("gold", Change::Remove)]).await;
    h.land(&bob).await;
    replace_and_serve(h, &ann).await;
    let incr = h.mutation(&ann, vec![("gold", Change::Incr(1))]).await;
    assert!(matches!(h.send(&incr, Some(load)).await, Mutated::Load(_)));
    assert_eq!(h.change(&bob, vec![("gold", Change::Purge)]).await, Mutated::Refused(Refusal::NotLanded));
    assert_eq!(h.cell(&bob, "gold").await, Some(removed("1")));
}

/// Of what was seen, and never without a record.
pub async fn only_a_partition_as_it_was_seen_is_served_unverified(h: &Harness) {
    if !h.can("reincarnate", |can| can.reincarnate) {
        return;
    }
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let before = h.store().partition_states(&[partition]).await.remove(0).unwrap();
    h.rig().reincarnate().await;
    let now = h.store().partition_states(&[partition]).await.remove(0).unwrap();
    let no_record = crate::PartitionState { record: None, ..now.clone() };
    let mut other_record = now.clone();
    other_record.record.as_mut().unwrap().incarnation = "another".into();
    for seen in [before, no_record, other_record] {
        assert_eq!(h.store().trust(partition, &seen).await, Ok(false), "{seen:?}");
    }
    assert_eq!(h.store().trust(partition, &now).await, Ok(true));
    h.set(&ann, "gold", "1").await;
    let load = all_rows(&ann, crate::Observed { marker: crate::Marker::Unknown, epoch: Epoch(1) }, vec![]);
    assert!(!matches!(h.store().fill(&[load]).await.remove(0), Ok(Filled::Accepted(_))), "fills wait");
}
