//! Events of the feed, and leads.

use std::time::Duration;

use storage_model::{Bytes, Content, Epoch, Event, Lead, Note, Owner, Partition, Position};

use super::{Harness, fence, live, owner, version};
use crate::{Batch, Events, FeedEnds, LandError};

const PARTITION: Partition = Partition(3);

fn event(position: Position, content: Content) -> Event {
    Event {
        partition: PARTITION,
        position,
        content,
    }
}

fn note(of: &Owner, epoch: u64, number: u64) -> Event {
    let content = Content::Note(Note {
        owner: of.clone(),
        version: version(100 * number),
        previous: (number > 1).then(|| version(100 * (number - 1))),
        counters: vec![-1, i64::MAX],
        body: Bytes::copy_from_slice(&[0, 255, 7]),
    });
    event(Position::new(epoch, number), content)
}

fn resync(of: &Owner, epoch: u64, number: u64) -> Event {
    let owner = of.clone();
    event(Position::new(epoch, number), Content::Resync { owner })
}

/// Lands events and leads under a fence of epoch 1.
async fn land(
    h: &Harness,
    after: Position,
    events: Vec<Event>,
    leads: &[(&Owner, Position)],
) -> Result<(), LandError> {
    let leads = leads.iter().map(|(owner, position)| {
        let owner = (*owner).clone();
        let position = *position;
        (PARTITION, Lead { owner, position })
    });
    let events = (!events.is_empty()).then_some(Events {
        partition: PARTITION,
        after,
        events,
    });
    let batch = Batch {
        fences: vec![fence(3, 1, 0, 0)],
        events: events.into_iter().collect(),
        leads: leads.collect(),
        ..Batch::default()
    };
    h.store.landing.land(&batch).await
}

async fn end(h: &Harness) -> FeedEnds {
    h.store.events.feeds(&[PARTITION]).await.unwrap()[0]
}

async fn leads(h: &Harness) -> Vec<(Owner, Position)> {
    let leads = h.store.events.leads(PARTITION, Epoch(9)).await.unwrap();
    let mut leads: Vec<_> = leads
        .into_iter()
        .map(|lead| (lead.owner, lead.position))
        .collect();
    leads.sort();
    leads
}

/// Also those without an owner, and in pages.
pub async fn events_come_back_in_their_order_as_they_were_added(h: &Harness) {
    h.init(&[3]).await;
    let [ann, bob] = ["ann", "bob"].map(owner);
    let first = vec![note(&ann, 1, 1), note(&bob, 1, 2)];
    let second = vec![
        event(Position::new(1, 3), Content::Gap),
        resync(&ann, 2, 4),
        note(&ann, 2, 5),
    ];
    land(h, Position::ZERO, first.clone(), &[]).await.unwrap();
    assert_eq!(end(h).await.last, Position::new(1, 2));
    land(h, Position::new(1, 2), second.clone(), &[])
        .await
        .unwrap();
    assert_eq!(end(h).await.last, Position::new(2, 5));
    let all = [first, second].concat();
    let read = async |after, limit| {
        h.store
            .events
            .events(PARTITION, after, limit)
            .await
            .unwrap()
    };
    assert_eq!(read(Position::ZERO, 99).await, all);
    assert_eq!(read(Position::new(1, 2), 2).await, all[2..4]);
    assert_eq!(read(Position::new(2, 5), 9).await, []);
    let others = h
        .store
        .events
        .feeds(&[Partition(4), PARTITION])
        .await
        .unwrap();
    assert_eq!(
        others.iter().map(|ends| ends.last).collect::<Vec<_>>(),
        [Position::ZERO, Position::new(2, 5)]
    );
}

/// F2: two workers never add an event twice, nor in another order.
pub async fn events_are_added_only_behind_the_end_that_was_read(h: &Harness) {
    h.init(&[3]).await;
    let ann = owner("ann");
    let first = vec![note(&ann, 1, 1), note(&ann, 1, 2)];
    land(h, Position::ZERO, first.clone(), &[]).await.unwrap();
    for after in [Position::ZERO, Position::new(1, 1), Position::new(2, 2)] {
        let late = land(h, after, vec![note(&ann, 2, 3)], &[]).await;
        assert_eq!(late, Err(LandError::Fenced(vec![PARTITION])), "{after}");
    }
    let events = h
        .store
        .events
        .events(PARTITION, Position::ZERO, 9)
        .await
        .unwrap();
    assert_eq!(events, first);
    // Rows of the transaction have not landed either.
    let batch = Batch {
        fences: vec![fence(3, 1, 0, 7)],
        rows: vec![live(&ann, "gold", "1", 7)],
        events: vec![Events {
            partition: PARTITION,
            after: Position::ZERO,
            events: vec![note(&ann, 1, 1)],
        }],
        ..Batch::default()
    };
    assert!(h.store.landing.land(&batch).await.is_err());
    assert_eq!(h.rows(&ann).await, []);
}

/// F4: until the note of its epoch lands, or readers are told to read the owner.
pub async fn a_lead_lasts_until_its_note_has_landed(h: &Harness) {
    h.init(&[3]).await;
    let [ann, bob, cay] = ["ann", "bob", "cay"].map(owner);
    let at = |epoch, number| Position::new(epoch, number);
    // A place that the feed has reached is no lead.
    land(h, at(0, 0), vec![note(&ann, 1, 1)], &[(&ann, at(1, 1))])
        .await
        .unwrap();
    assert_eq!(leads(h).await, []);
    let ahead = [(&ann, at(1, 4)), (&bob, at(1, 3)), (&cay, at(1, 9))];
    land(h, at(0, 0), vec![], &ahead).await.unwrap();
    land(h, at(0, 0), vec![], &[(&ann, at(1, 2))])
        .await
        .unwrap();
    let all = ahead.map(|(owner, at)| (owner.clone(), at));
    assert_eq!(leads(h).await, all);
    // Of another owner, or too early.
    land(h, at(1, 1), vec![note(&ann, 1, 2), note(&bob, 1, 3)], &[])
        .await
        .unwrap();
    assert_eq!(leads(h).await, [all[0].clone(), all[2].clone()]);
    // A note of a later epoch says nothing of a lost one. A lead of the next epoch stands beside.
    let next = [(&cay, at(2, 6))];
    land(h, at(1, 3), vec![note(&ann, 2, 4), note(&cay, 2, 5)], &next)
        .await
        .unwrap();
    let left = vec![
        (ann.clone(), at(1, 4)),
        (cay.clone(), at(1, 9)),
        (cay.clone(), at(2, 6)),
    ];
    assert_eq!(leads(h).await, left);
    land(h, at(2, 5), vec![note(&cay, 2, 6), resync(&ann, 2, 7)], &[])
        .await
        .unwrap();
    assert_eq!(leads(h).await, [(cay, at(1, 9))]);
    let early = h.store.events.leads(PARTITION, Epoch(1)).await.unwrap();
    assert_eq!(early, []);
    land(h, at(2, 7), vec![event(at(2, 8), Content::Gap)], &[])
        .await
        .unwrap();
    assert_eq!(leads(h).await, []);
}

/// A batch of several statements.
pub async fn hundreds_of_events_and_leads_land_together(h: &Harness) {
    h.init(&[3]).await;
    let owners: Vec<Owner> = (0..700).map(|id| owner(&format!("{id:03}"))).collect();
    let numbered = owners.iter().zip(1..);
    let events: Vec<Event> = numbered.map(|(owner, at)| note(owner, 1, at)).collect();
    let next = (701..).map(|number| Position::new(1, number));
    let ahead: Vec<_> = owners.iter().zip(next).collect();
    land(h, Position::ZERO, events.clone(), &ahead)
        .await
        .unwrap();
    let read = h.store.events.events(PARTITION, Position::ZERO, 999).await;
    assert_eq!(read.unwrap(), events);
    assert_eq!(leads(h).await.len(), 700);
    let number = Position::new(1, 700);
    let all = owners.iter().zip(701..);
    let all = all.map(|(owner, at)| note(owner, 1, at)).collect();
    land(h, number, all, &[]).await.unwrap();
    assert_eq!(leads(h).await, []);
}

/// And the record tells which were dropped.
pub async fn old_events_are_dropped_from_the_beginning(h: &Harness) {
    h.init(&[3]).await;
    let ann = owner("ann");
    let events: Vec<Event> = (1..=4).map(|number| note(&ann, 1, number)).collect();
    land(h, Position::ZERO, events.clone(), &[]).await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert_eq!(
        h.store
            .events
            .drop_events(PARTITION, hour, 9)
            .await
            .unwrap(),
        0
    );
    assert_eq!(end(h).await.trimmed, Position::ZERO);
    let now = Duration::ZERO;
    let mut dropped = 0;
    while dropped < 3 {
        // The events are older than no time at all once the database's clock has moved on.
        dropped += h
            .store
            .events
            .drop_events(PARTITION, now, 3 - dropped)
            .await
            .unwrap();
    }
    let left = h
        .store
        .events
        .events(PARTITION, Position::ZERO, 9)
        .await
        .unwrap();
    assert_eq!(left, events[3..]);
    let ends = end(h).await;
    assert_eq!(
        (ends.trimmed, ends.last),
        (Position::new(1, 3), Position::new(1, 4))
    );
}
