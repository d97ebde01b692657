//! Notes of writes: their places, their content, and their way to the feed.

use storage_model::{
    Change, Condition, Content, Epoch, Event, Lead, Mutation, Note, Owner, Partition, Position,
    Version,
};

use super::harness::{Harness, all_rows, applied, owner, set};
use crate::{Bound, Fields, HotKind, Linked, Lock, Mutated, Notes, PartitionPeek, Refusal};

/// Enough for all notes here.
const BOUND: Bound = Bound {
    rows: 100,
    bytes: 100_000,
};

async fn notes(h: &Harness, partition: Partition, after: Position) -> Notes {
    h.store().feed.notes(partition, after, BOUND).await.unwrap()
}

async fn events(h: &Harness, owner: &Owner) -> Vec<Event> {
    notes(h, h.partition(owner), Position::ZERO).await.events
}

async fn noted(h: &Harness, owner: &Owner, changes: Vec<(&str, Change)>, body: &str) -> Mutation {
    let body = storage_model::Bytes::copy_from_slice(body.as_bytes());
    h.mutation(owner, changes).await.noting(body)
}

fn note(event: &Event) -> &Note {
    match &event.content {
        Content::Note(note) => note,
        other => panic!("no note: {other:?}"),
    }
}

fn places(notes: &Notes) -> Vec<u64> {
    notes
        .events
        .iter()
        .map(|event| event.position.number)
        .collect()
}

async fn peek(h: &Harness, partition: Partition) -> PartitionPeek {
    h.store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap()
}

/// Of sets and of counters, in calls of their own and together.
pub async fn a_write_leaves_its_note_in_the_same_step(h: &Harness) {
    let ann = owner("ann");
    let first = noted(
        h,
        &ann,
        vec![("name", set("Ann")), ("gold", set("5"))],
        "made",
    )
    .await;
    let first = applied(h.send(&first, None).await);
    let second = noted(h, &ann, vec![("gold", Change::Incr(7))], "earned").await;
    let second = applied(h.send(&second, None).await);
    let third = noted(h, &ann, vec![("name", Change::Remove)], "").await;
    let third = applied(h.send(&third, None).await);
    let events = events(h, &ann).await;
    let epoch = h.record(h.partition(&ann)).await.epoch;
    for ((event, applied), number) in events.iter().zip([&first, &second, &third]).zip(1..) {
        assert_eq!(event.position, Position { epoch, number });
        assert_eq!(applied.position, Some(event.position));
        assert_eq!(event.partition, h.partition(&ann));
        let note = note(event);
        assert_eq!((&note.owner, note.version), (&ann, applied.version));
        assert_eq!(note.counters, applied.counters);
    }
    let told: Vec<_> = events
        .iter()
        .map(|event| (note(event).previous, &*note(event).body))
        .collect();
    assert_eq!(
        told,
        [
            (None, &b"made"[..]),
            (Some(first.version), b"earned"),
            (Some(second.version), b"")
        ]
    );
    assert_eq!(note(&events[1]).counters, [12]);
    h.set(&ann, "gems", "0").await;
    for _ in 0..2 {
        let both = vec![("gems", Change::Incr(-1)), ("gold", Change::Incr(3))];
        applied(h.send(&noted(h, &ann, both, "both").await, None).await);
    }
    let later = self::events(h, &ann).await;
    assert_eq!(note(&later[4]).counters, [-2, 18]);
}

/// An owner that is known to have no rows had version 0.
pub async fn a_note_tells_the_version_before_its_write_if_it_is_known(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let write = noted(h, &ann, vec![("gold", set("1"))], "first").await;
    let first = applied(h.send(&write, None).await).version;
    let write = noted(h, &ann, vec![("gold", set("2"))], "second").await;
    applied(h.send(&write, None).await);
    let events = events(h, &ann).await;
    let before: Vec<_> = events.iter().map(|event| note(event).previous).collect();
    assert_eq!(before, [Some(Version::ZERO), Some(first)]);
}

/// A call of several writes has their notes in its order.
pub async fn writes_of_one_call_leave_their_notes_in_order(h: &Harness) {
    let owners: Vec<Owner> = ["{n}/1", "{n}/2", "{n}/1", "{n}/3"].map(owner).to_vec();
    let mut writes = Vec::new();
    for (at, owner) in owners.iter().enumerate() {
        let write = noted(h, owner, vec![("gold", set("1"))], &at.to_string()).await;
        writes.push((write, Vec::new()));
    }
    // One write without a note goes with them.
    let plain = h.mutation(&owner("{n}/4"), vec![("gold", set("1"))]).await;
    writes.push((plain, Vec::new()));
    let answers = h.store().owners.mutate(&writes).await.into_iter();
    let places: Vec<_> = answers
        .map(|answer| applied(answer.unwrap()).position)
        .collect();
    let events = events(h, &owners[0]).await;
    assert_eq!(events.len(), 4);
    assert_eq!(places[4], None);
    for (at, place) in places.iter().take(4).enumerate() {
        let event = events.iter().find(|event| Some(event.position) == *place);
        let note = note(event.unwrap());
        assert_eq!(
            (&note.owner, &*note.body),
            (&owners[at], at.to_string().as_bytes())
        );
    }
}

/// Each owner of a transaction has its own note, and some have none.
pub async fn owners_of_a_transaction_leave_their_own_notes(h: &Harness) {
    let [ann, bob, cay] = ["{t}/ann", "{t}/bob", "{t}/cay"].map(owner);
    let first = noted(h, &ann, vec![("gold", set("1"))], "ann").await;
    let second = h.mutation(&bob, vec![("gold", set("2"))]).await;
    let third = noted(h, &cay, vec![("gold", Change::Incr(3))], "cay").await;
    let load = all_rows(&cay, h.observe(&cay).await, vec![]);
    let write = first.with(vec![second, third]);
    let sent = h
        .store()
        .owners
        .mutate(&[(write, vec![load])])
        .await
        .remove(0);
    let done = applied(sent.unwrap());
    let events = events(h, &ann).await;
    assert_eq!(done.position, Some(events[0].position));
    assert_eq!(
        [done.also[0].position, done.also[1].position],
        [None, Some(events[1].position)]
    );
    let last = note(&events[1]);
    assert_eq!((&last.owner, &*last.counters), (&cay, &[3][..]));
    assert_eq!(last.previous, Some(Version::ZERO));
    assert_eq!((events.len(), last.version), (2, done.version));
}

/// Whether it is refused or has nothing to do.
pub async fn a_write_that_changes_nothing_leaves_no_note(h: &Harness) {
    let ann = owner("ann");
    let version = h.set(&ann, "gold", "1").await;
    let stale = noted(h, &ann, vec![("gold", set("2"))], "stale").await;
    let stale = stale.when(Condition::Version(version.plus(1)));
    assert_eq!(
        h.send(&stale, None).await,
        Mutated::Refused(Refusal::Version(version))
    );
    let void = noted(h, &ann, vec![("gold", Change::Restore)], "void").await;
    let void = applied(h.send(&void, None).await);
    assert_eq!((void.changed, void.position), (0, None));
    assert_eq!(events(h, &ann).await, []);
}

/// Also after another write of the owner.
pub async fn a_repeat_answers_the_place_of_the_first_note(h: &Harness) {
    let ann = owner("ann");
    let write = h.named(&ann, vec![("gold", set("1"))]).await;
    let write = write.noting(storage_model::Bytes::from_static(b"once"));
    let first = applied(h.send(&write, None).await);
    h.set(&ann, "gold", "2").await;
    assert_eq!(applied(h.send(&write, None).await), first);
    assert_eq!(events(h, &ann).await.len(), 1);
}

/// The hot tier refuses the note with its write.
pub async fn at_the_memory_limit_a_note_is_refused_with_its_write(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    h.rig().exhaust().await;
    let write = noted(h, &ann, vec![("gold", set("2"))], "more").await;
    let refused = h.try_send(&write, None).await.unwrap_err();
    assert_eq!(refused.kind, HotKind::OutOfMemory);
    assert_eq!(events(h, &ann).await, []);
}

/// Bounded by their number and by their bytes.
pub async fn notes_are_read_in_pages_of_a_bounded_size(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    for body in ["a", "b", "c", "d", "e"].repeat(9) {
        let write = noted(h, &ann, vec![("gold", set("1"))], &body.repeat(1_000)).await;
        applied(h.send(&write, None).await);
    }
    let (mut after, mut seen) = (Position::ZERO, Vec::new());
    for bound in [(1, 100_000), (17, 100_000), (100, 1), (100, 5_000)] {
        let (rows, bytes) = bound;
        let bound = Bound { rows, bytes };
        let page = h.store().feed.notes(partition, after, bound).await.unwrap();
        let count = page.events.len();
        assert!(page.more && (1..=rows).contains(&count), "{count}");
        assert!(count == 1 || count * 1_000 <= bytes, "{count}");
        seen.extend(places(&page));
        after = page.events.last().unwrap().position;
    }
    let rest = notes(h, partition, after).await;
    assert!(!rest.more);
    seen.extend(places(&rest));
    assert_eq!(seen, (1..=45).collect::<Vec<_>>());
    assert_eq!(rest.last.number, 45);
    assert_eq!(places(&notes(h, partition, rest.last).await), [0; 0]);
}

/// Notes of an earlier epoch stay, and later ones have higher numbers.
pub async fn the_numbers_of_notes_go_on_in_the_next_epoch(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let write = noted(h, &ann, vec![("gold", set("1"))], "before").await;
    let before = applied(h.send(&write, None).await).position.unwrap();
    let epoch = h.record(partition).await.epoch;
    assert!(h.adopt(partition, epoch.0 + 1, Version::ZERO).await);
    let write = noted(h, &ann, vec![("gold", set("2"))], "after").await;
    let after = applied(h.send(&write, None).await).position.unwrap();
    assert_eq!(after, Position::new(epoch.0 + 1, before.number + 1));
    assert_eq!(events(h, &ann).await.len(), 2);
}

/// The feed can't take notes of epochs before its last event any more. So a number is left out for
/// them, and their rows have the place of the gap that tells them.
pub async fn a_number_is_left_out_if_the_hot_tier_is_older_than_the_feed(h: &Harness) {
    let [ann, bob] = ["{o}/ann", "{o}/bob"].map(owner);
    let partition = h.partition(&ann);
    let write = noted(h, &ann, vec![("gold", set("1"))], "hidden").await;
    let hidden = applied(h.send(&write, None).await).position.unwrap();
    let epoch = hidden.epoch.0;
    let last = async || peek(h, partition).await.last_note;
    // A feed that this tier has reached is no reason.
    assert!(h.adopt_feed(partition, epoch + 1, hidden).await);
    assert_eq!(last().await, Position::new(epoch + 1, hidden.number));
    let wanted = [&ann, &bob].map(|owner| (owner.clone(), vec![super::field("gold")]));
    let places = async || {
        let collected = h
            .store()
            .marks
            .collect(partition, &wanted, None)
            .await
            .unwrap();
        let headers = collected.reads.into_iter().map(|read| read.header.unwrap());
        headers.map(|header| header.noted).collect::<Vec<_>>()
    };
    h.set(&bob, "gold", "1").await;
    assert_eq!(places().await, [hidden, Position::ZERO]);
    let feed = Position::new(epoch + 2, 1);
    assert!(h.adopt_feed(partition, epoch + 3, feed).await);
    let gap = Position::new(epoch + 3, 2);
    assert_eq!(last().await, gap);
    assert_eq!(peek(h, partition).await.notes(), 1);
    assert_eq!(places().await, [gap, Position::ZERO]);
    let linked = wanted
        .clone()
        .map(|(owner, fields)| (owner, Fields::Cells(fields)));
    let linked = h
        .store()
        .marks
        .collect_linked(partition, &linked, BOUND, true)
        .await;
    let Linked::Closed(linked, _) = linked.unwrap() else {
        panic!("no partner is missing")
    };
    assert_eq!(linked.reads[0].header.unwrap().noted, gap);
    let write = noted(h, &ann, vec![("gold", set("2"))], "next").await;
    let next = applied(h.send(&write, None).await).position.unwrap();
    assert_eq!(next, Position::new(epoch + 3, 3));
    assert_eq!(places().await, [next, Position::ZERO]);
}

/// Until they are dropped, only the waiting ones count.
pub async fn landed_notes_are_dropped_and_numbers_go_on(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let mut last = Position::ZERO;
    for _ in 0..3 {
        let write = noted(h, &ann, vec![("gold", set("1"))], "note").await;
        last = applied(h.send(&write, None).await).position.unwrap();
    }
    let lock = h.lock(partition).await;
    let upto = Position::new(last.epoch.0, 2);
    let trim = async |epoch, upto, drop| {
        let store = h.store();
        store
            .feed
            .trim_notes(partition, &lock, epoch, upto, drop)
            .await
    };
    trim(last.epoch, upto, false).await.unwrap();
    let sizes = peek(h, partition).await;
    assert_eq!((sizes.notes(), sizes.stream), (1, 3));
    trim(last.epoch, upto, true).await.unwrap();
    assert_eq!(places(&notes(h, partition, Position::ZERO).await), [3]);
    trim(last.epoch, last, true).await.unwrap();
    let sizes = peek(h, partition).await;
    assert_eq!((sizes.notes(), sizes.stream, sizes.last_note), (0, 0, last));
    let write = noted(h, &ann, vec![("gold", set("1"))], "note").await;
    let next = applied(h.send(&write, None).await).position.unwrap();
    assert_eq!(next.number, 4);
    assert_eq!(peek(h, partition).await.notes(), 1);
}

/// And so is a search for lost leads.
pub async fn notes_are_dropped_only_with_the_lock_and_in_the_epoch(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let write = noted(h, &ann, vec![("gold", set("1"))], "note").await;
    let last = applied(h.send(&write, None).await).position.unwrap();
    let lock = h.lock(partition).await;
    let other = Lock {
        token: "other".to_owned(),
        ..lock.clone()
    };
    let store = h.store();
    for (lock, epoch, kind) in [
        (&other, last.epoch, HotKind::LockLost),
        (&lock, Epoch(last.epoch.0 + 1), HotKind::EpochMoved),
    ] {
        let trimmed = store
            .feed
            .trim_notes(partition, lock, epoch, last, true)
            .await;
        assert_eq!(trimmed.unwrap_err().kind, kind);
        let synced = store.feed.resync(partition, lock, epoch, &[]).await;
        assert_eq!(synced.unwrap_err().kind, kind);
    }
    assert_eq!(events(h, &ann).await.len(), 1);
    assert!(!peek(h, partition).await.is_resynced);
}

/// Leads whose notes are there need none.
pub async fn a_lost_lead_becomes_an_event(h: &Harness) {
    let [ann, bob] = ["{r}/ann", "{r}/bob"].map(owner);
    let partition = h.partition(&ann);
    let write = noted(h, &ann, vec![("gold", set("1"))], "note").await;
    let there = applied(h.send(&write, None).await).position.unwrap();
    let lock = h.lock(partition).await;
    let lead = |owner: &Owner, position| Lead {
        owner: owner.clone(),
        position,
    };
    let leads = [
        lead(&ann, there),
        lead(&bob, Position::new(there.epoch.0, 7)),
    ];
    let store = h.store();
    let written = store
        .feed
        .resync(partition, &lock, there.epoch, &leads)
        .await;
    assert_eq!(written.unwrap(), 1);
    let notes = notes(h, partition, there).await;
    assert!(notes.is_resynced && peek(h, partition).await.is_resynced);
    let [event] = notes.events.as_slice() else {
        panic!("one event: {notes:?}")
    };
    assert_eq!(event.content, Content::Resync { owner: bob });
    assert_eq!(event.position.number, there.number + 1);
    assert!(h.adopt(partition, there.epoch.0 + 1, Version::ZERO).await);
    assert!(!peek(h, partition).await.is_resynced);
}

/// And the values that land with it tell its place.
pub async fn the_marks_of_a_note_are_found_in_either_map(h: &Harness) {
    let [ann, bob] = ["{m}/ann", "{m}/bob"].map(owner);
    let partition = h.partition(&ann);
    let write = noted(h, &ann, vec![("gold", set("1"))], "note").await;
    let place = applied(h.send(&write, None).await).position.unwrap();
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    h.set(&ann, "level", "2").await;
    h.set(&bob, "gold", "1").await;
    let owners = [ann.clone(), owner("{m}/cay")];
    let marked = h.store().marks.marks_of(partition, &owners).await.unwrap();
    let fields = |entries: &[crate::Entry]| -> Vec<String> {
        let marks = entries.iter().filter_map(|entry| entry.mark.as_ref());
        marks
            .flat_map(|mark| &mark.fields)
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(fields(&marked.snapshot), ["gold"]);
    assert_eq!(fields(&marked.dirty), ["level"]);
    let wanted = [
        (ann, vec![super::field("gold")]),
        (bob, vec![super::field("gold")]),
    ];
    let collected = h
        .store()
        .marks
        .collect(partition, &wanted, None)
        .await
        .unwrap();
    let headers = collected
        .reads
        .iter()
        .map(|read| read.header.unwrap().noted);
    assert_eq!(headers.collect::<Vec<_>>(), [place, Position::ZERO]);
}
