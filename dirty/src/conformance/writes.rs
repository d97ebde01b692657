//! Writes, reads and the marks that writes leave.

use storage_model::{Cell, Change, Field, Version};

use super::field;
use super::harness::{Harness, above, applied, live, owner, set};
use crate::{Fields, HotRead, Marker, Mutated, Read, Refusal};

/// Update, get, get names, get all.
pub async fn what_was_written_is_read_back_field_by_field_and_whole(h: &Harness) {
    let ann = owner("ann");
    let applied = h
        .apply(&ann, vec![("gold", set("10")), ("name", set("Ann"))])
        .await;
    assert_eq!((applied.changed, applied.counters), (2, vec![]));
    let read = h.read(&ann).await;
    assert_eq!(read.header.unwrap().version, applied.version);
    assert_eq!(
        read.cells,
        vec![(field("gold"), live("10")), (field("name"), live("Ann"))]
    );
    let some = h
        .read_fields(&ann, Fields::Live(vec![field("name"), field("never")]))
        .await;
    assert_eq!(
        (some.header, some.cells),
        (read.header, vec![(field("name"), live("Ann"))])
    );
    let names = h.read_fields(&ann, Fields::Names).await;
    assert_eq!(
        (names.header, names.cells),
        (
            read.header,
            vec![(field("gold"), live("")), (field("name"), live(""))]
        )
    );
}

/// No hash, no header.
pub async fn an_owner_that_was_never_written_has_no_header(h: &Harness) {
    for fields in [
        Fields::All,
        Fields::Names,
        Fields::Live(vec![field("gold")]),
        Fields::Cells(vec![field("gold")]),
    ] {
        assert_eq!(
            h.read_fields(&owner("nobody"), fields).await,
            HotRead::default()
        );
    }
    assert!(h.observe(&owner("nobody")).await.marker.is_unknown());
}

/// The order of cells.
pub async fn cells_come_in_the_order_asked_and_all_by_name(h: &Harness) {
    let ann = owner("ann");
    h.apply(
        &ann,
        vec![("b", set("2")), ("c", set("3")), ("a", set("1"))],
    )
    .await;
    let names = |read: HotRead| {
        read.cells
            .iter()
            .map(|(field, _)| field.to_string())
            .collect::<String>()
    };
    assert_eq!(names(h.read(&ann).await), "abc");
    assert_eq!(names(h.read_fields(&ann, Fields::Names).await), "abc");
    let asked = || ["c", "x", "a", "b"].map(field).to_vec();
    assert_eq!(
        names(h.read_fields(&ann, Fields::Live(asked())).await),
        "cab"
    );
    assert_eq!(
        names(h.read_fields(&ann, Fields::Cells(asked())).await),
        "cab"
    );
}

/// R1.
pub async fn a_write_marks_its_fields_in_the_same_step(h: &Harness) {
    let ann = owner("ann");
    let version = h
        .apply(&ann, vec![("gold", set("1")), ("bag", set("x"))])
        .await
        .version;
    assert!(matches!(h.observe(&ann).await.marker, Marker::At(_)));
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    let entries = h.land(&ann).await;
    let [entry] = entries.as_slice() else {
        panic!("one mark, not {entries:?}")
    };
    let mark = entry.mark.as_ref().unwrap();
    assert_eq!(
        (&mark.owner, &mark.fields, entry.version),
        (&ann, &vec![field("bag"), field("gold")], version)
    );
    assert_eq!(
        h.observe(&ann).await.marker,
        Marker::At(version),
        "the number of the hash that it made"
    );
}

/// One mark an owner.
pub async fn fields_of_several_writes_join_one_mark(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("a", set("1")), ("b", set("1"))]).await;
    h.apply(&ann, vec![("b", set("2")), ("a", set("2"))]).await;
    h.apply(&ann, vec![("n", Change::Incr(1))]).await;
    h.set(&ann, "a", "3").await;
    // By the script that takes one owner, and in one call with others.
    h.apply(&ann, vec![("d", Change::Remove), ("c", set("4"))])
        .await;
    let first = h.mutation(&ann, vec![("e", set("5"))]).await;
    let second = h
        .mutation(&ann, vec![("f", set("6")), ("e", set("6"))])
        .await;
    let both = h
        .store()
        .owners
        .mutate(&[(first, Vec::new()), (second, Vec::new())])
        .await;
    let last = both
        .into_iter()
        .map(|mutated| applied(mutated.unwrap()).version)
        .max()
        .unwrap();
    let entries = h.land(&ann).await;
    let [entry] = entries.as_slice() else {
        panic!("one mark, not {entries:?}")
    };
    let fields: Vec<_> = entry
        .mark
        .as_ref()
        .unwrap()
        .fields
        .iter()
        .map(Field::as_str)
        .collect();
    assert_eq!(
        (fields, entry.version),
        (vec!["a", "b", "c", "e", "f", "n"], last)
    );
    assert!(!h.is_marked(&ann).await);
    h.set(&ann, "b", "7").await;
    let entries = h.land(&ann).await;
    assert_eq!(
        entries[0].mark.as_ref().unwrap().fields,
        [field("b")],
        "a new map begins anew"
    );
}

/// R7: a hash has one number as long as it is there.
pub async fn only_a_write_that_makes_a_hash_raises_the_marker(h: &Harness) {
    for (id, change) in [
        ("ann", set("2")),
        ("bob", Change::Incr(1)),
        ("cid", Change::Remove),
    ] {
        let ann = owner(id);
        h.make_absent(&ann).await;
        let made = h.set(&ann, "gold", "1").await;
        let number = Marker::At(made);
        h.apply(&ann, vec![("gold", change)]).await;
        h.land(&ann).await;
        let last = h.set(&ann, "name", "Ann").await;
        h.land(&ann).await;
        assert_eq!(h.observe(&ann).await.marker, number, "the same hash");
        h.store()
            .owners
            .evict(std::slice::from_ref(&ann))
            .await
            .remove(0)
            .unwrap();
        assert_eq!(h.observe(&ann).await.marker, number);
        let next = h.set(&ann, "gold", "0").await;
        assert!(next > last);
        assert_eq!(
            h.observe(&ann).await.marker,
            Marker::At(next),
            "another hash"
        );
        h.land(&ann).await;
    }
}

/// One source for the owners of a partition.
pub async fn versions_grow_with_every_write_of_a_partition(h: &Harness) {
    let owners = h.owners_of_one_partition(2);
    let mut last = Version::ZERO;
    for round in 0..20 {
        for owner in &owners {
            let version = h.set(owner, "gold", &round.to_string()).await;
            assert!(version > last, "{version} comes after {last}");
            last = version;
        }
    }
    assert_eq!(h.record(h.partition(&owners[0])).await.source, last);
}

/// Versions are times.
pub async fn versions_are_at_least_the_time(h: &Harness) {
    let before = h.store().tier.time().await.unwrap();
    let version = h.set(&owner("ann"), "gold", "1").await;
    assert!(
        version.get() >= before.0,
        "{version} is not before {before:?}"
    );
}

/// Items of a batch are independent.
pub async fn a_batch_answers_in_order_and_one_refusal_does_not_touch_the_others(h: &Harness) {
    let (ann, bob) = (owner("ann"), owner("bob"));
    let mut refused = h.mutation(&ann, vec![("gold", set("0"))]).await;
    refused.deadline = super::harness::LONG_AGO;
    let batch = [
        (h.mutation(&ann, vec![("gold", set("1"))]).await, Vec::new()),
        (refused, Vec::new()),
        (h.mutation(&bob, vec![("gold", set("2"))]).await, Vec::new()),
    ];
    let replies = h.store().owners.mutate(&batch).await;
    assert_eq!(replies.len(), 3);
    assert!(matches!(replies[0], Ok(Mutated::Applied(_))));
    assert_eq!(replies[1], Ok(Mutated::Refused(Refusal::Expired)));
    assert!(matches!(replies[2], Ok(Mutated::Applied(_))));
    let reads = [&bob, &ann].map(|owner| Read {
        owner: owner.clone(),
        fields: Fields::All,
    });
    let cells: Vec<_> = h
        .store()
        .owners
        .read(&reads)
        .await
        .into_iter()
        .map(|read| read.unwrap().cells)
        .collect();
    assert_eq!(
        cells,
        vec![
            vec![(field("gold"), live("2"))],
            vec![(field("gold"), live("1"))]
        ]
    );
}

/// Unknown is not absent (R8).
pub async fn a_blind_write_of_an_unknown_owner_is_not_complete(h: &Harness) {
    let (unknown, absent) = (owner("unknown"), owner("absent"));
    h.make_absent(&absent).await;
    for owner in [&unknown, &absent] {
        h.set(owner, "gold", "1").await;
    }
    assert!(!h.read(&unknown).await.header.unwrap().complete);
    assert!(h.read(&absent).await.header.unwrap().complete);
}

/// A set never needs the old value, so it can't compare with it.
pub async fn a_set_of_the_same_value_is_a_write_too(h: &Harness) {
    let ann = owner("ann");
    let first = h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    let again = applied(h.change(&ann, vec![("gold", set("1"))]).await);
    assert_eq!(again.changed, 1);
    assert!(again.version >= above(first, 1));
    assert!(h.is_marked(&ann).await);
    assert_eq!(h.cell(&ann, "gold").await, Some(Cell::Live("1".into())));
}
