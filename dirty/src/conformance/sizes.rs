//! Many marks, large values, wide calls.

use std::collections::BTreeSet;

use bytes::Bytes;
use storage_model::{Attempt, Change, Field, Limits, Outcome, Owner};

use super::field;
use super::harness::{Harness, live, owner, set};
use crate::{Fields, HotKind, Mutated, Read, Snapshot};

/// The smallest scan.
pub async fn a_scan_finds_one_mark(h: &Harness) {
    scan_while_settling(h, 1).await;
}

/// H30: the largest map that Redis keeps in its small encoding.
pub async fn a_scan_finds_512_marks_while_they_are_settled(h: &Harness) {
    scan_while_settling(h, 512).await;
}

/// H30: one more.
pub async fn a_scan_finds_513_marks_while_they_are_settled(h: &Harness) {
    scan_while_settling(h, 513).await;
}

/// H30: several times a batch.
pub async fn a_scan_finds_5000_marks_while_they_are_settled(h: &Harness) {
    scan_while_settling(h, 5_000).await;
}

async fn scan_while_settling(h: &Harness, count: usize) {
    let owners = h.owners_of_one_partition(count);
    write_all(h, &owners).await;
    let partition = h.partition(&owners[0]);
    let lock = h.lock(partition).await;
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Taken(h.number(partition))
    );
    let (mut found, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let page = h
            .store()
            .marks
            .scan(partition, crate::Map::Snapshot, cursor, 100)
            .await
            .unwrap();
        found.extend(
            page.entries
                .iter()
                .map(|entry| entry.mark.as_ref().unwrap().owner.clone()),
        );
        h.settle(partition, Some(&lock), &page.entries)
            .await
            .unwrap();
        // Concurrent writes go into the dirty map.
        h.set(&owners[0], "gold", "again").await;
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(
        found.len(),
        count,
        "every mark is found while the scan settles them"
    );
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((peek.live, peek.snapshot), (1, 0));
}

async fn write_all(h: &Harness, owners: &[Owner]) {
    for chunk in owners.chunks(500) {
        let mut batch = Vec::with_capacity(chunk.len());
        for owner in chunk {
            batch.push((
                h.mutation(owner, vec![("gold", set(owner.id()))]).await,
                Vec::new(),
            ));
        }
        for reply in h.store().owners.mutate(&batch).await {
            assert!(matches!(reply, Ok(Mutated::Applied(_))), "{reply:?}");
        }
    }
}

/// Byte for byte, also as a tombstone.
pub async fn a_value_above_64_kib_is_kept_byte_for_byte(h: &Harness) {
    let ann = owner("ann");
    let large: Bytes = (0..200_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let largest = Bytes::from(vec![0x80; Limits::default().value_bytes_max]);
    h.apply(
        &ann,
        vec![
            ("a", Change::Set(large.clone())),
            ("b", Change::Set(largest.clone())),
        ],
    )
    .await;
    assert_eq!(h.live(&ann, "a").await, Some(large.clone()));
    assert_eq!(h.live(&ann, "b").await, Some(largest));
    h.apply(&ann, vec![("a", Change::Remove)]).await;
    h.apply(&ann, vec![("a", Change::Restore)]).await;
    assert_eq!(h.live(&ann, "a").await, Some(large));
}

/// H1: as many as the limit allows.
pub async fn a_thousand_fields_change_in_one_call(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let names: Vec<String> = (0..Limits::default().fields_max)
        .map(|n| format!("{n:04}"))
        .collect();
    let all = |change: Change| {
        names
            .iter()
            .map(|name| (name.as_str(), change.clone()))
            .collect::<Vec<_>>()
    };
    let count = u32::try_from(names.len()).unwrap();
    assert_eq!(h.apply(&ann, all(set("7"))).await.changed, count);
    let counters = h.apply(&ann, all(Change::Incr(1))).await.counters;
    assert_eq!(counters, vec![8; names.len()]);
    assert!(h.is_marked(&ann).await);
    let asked: Vec<Field> = names.iter().map(|name| field(name)).collect();
    assert_eq!(
        h.read_fields(&ann, Fields::Live(asked)).await.cells.len(),
        names.len()
    );
    assert_eq!(h.apply(&ann, all(Change::Remove)).await.changed, count);
    let entries = h.land(&ann).await;
    assert_eq!(entries[0].mark.as_ref().unwrap().fields.len(), names.len());
}

/// H123: each write of an owner reads and writes its whole mark.
pub async fn a_long_mark_takes_no_further_field_until_it_has_landed(h: &Harness) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    h.make_absent(&ann).await;
    h.make_absent(&bob).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("{n:080}")).collect();
    let all = names.iter().map(|name| (name.as_str(), set("1")));
    h.apply(&ann, all.collect()).await;
    let further = h.mutation(&ann, vec![("gold", set("1"))]).await;
    let named = further.clone().as_attempt(Attempt::Named);
    for attempt in [further, named] {
        let refused = h.try_send(&attempt, None).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.outcome),
            (HotKind::Backlog, Outcome::NotApplied)
        );
    }
    assert_eq!(h.live(&ann, "gold").await, None);
    // Fields that the mark names change all the same, and so do other owners in the same call.
    h.set(&ann, &names[0], "2").await;
    let mut both = Vec::new();
    for owner in [&ann, &bob] {
        both.push((
            h.mutation(owner, vec![("gold", set("1"))]).await,
            Vec::new(),
        ));
    }
    let answers = h.store().owners.mutate(&both).await;
    assert!(
        matches!(&answers[..], [Err(error), Ok(Mutated::Applied(_))] if error.kind == HotKind::Backlog),
        "{answers:?}"
    );
    h.land(&ann).await;
    h.set(&ann, "gold", "3").await;
}

/// Over all partitions, in order.
pub async fn many_owners_are_read_and_written_in_one_call(h: &Harness) {
    let owners: Vec<Owner> = (0..300).map(|n| owner(&format!("o{n}"))).collect();
    write_all(h, &owners).await;
    let reads: Vec<Read> = owners
        .iter()
        .rev()
        .map(|owner| Read {
            owner: owner.clone(),
            fields: Fields::Live(vec![field("gold")]),
        })
        .collect();
    let read = h.store().owners.read(&reads).await;
    assert_eq!(read.len(), owners.len());
    for (owner, read) in owners.iter().rev().zip(read) {
        assert_eq!(read.unwrap().cells, vec![(field("gold"), live(owner.id()))]);
    }
}
