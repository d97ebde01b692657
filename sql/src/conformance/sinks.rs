//! Sinks: their positions, and the events that they refused.

use storage_model::{Partition, Position, SinkName};

use super::Harness;
use crate::Parked;

fn name(text: &str) -> SinkName {
    text.parse().unwrap()
}

async fn position(h: &Harness, sink: &str, partition: u32) -> Position {
    let partitions = [Partition(partition)];
    h.store
        .sinks
        .sink_positions(&name(sink), &partitions)
        .await
        .unwrap()[0]
}

async fn advance(h: &Harness, sink: &str, partition: u32, position: Position) {
    let partition = Partition(partition);
    h.store
        .sinks
        .advance_sink(&name(sink), partition, position)
        .await
        .unwrap();
}

/// All events that a sink has refused, read in pages of two.
async fn parked(h: &Harness, sink: &str) -> Vec<Parked> {
    let (mut all, mut after) = (Vec::new(), (Partition(0), Position::ZERO));
    loop {
        let page = h.store.sinks.parked(&name(sink), after, 2).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        after = (last.partition, last.position);
        all.extend(page);
    }
}

/// Also in more partitions than one statement asks for.
pub async fn a_sink_has_a_position_of_its_own_in_each_partition(h: &Harness) {
    h.init(&[0]).await;
    assert_eq!(position(h, "a", 7).await, Position::ZERO);
    advance(h, "a", 7, Position::new(1, 5)).await;
    advance(h, "a", 9, Position::new(2, 6)).await;
    advance(h, "b", 7, Position::new(1, 1)).await;
    let all: Vec<Partition> = (0..1_000).rev().map(Partition).collect();
    let positions = h
        .store
        .sinks
        .sink_positions(&name("a"), &all)
        .await
        .unwrap();
    let known = all.iter().zip(positions);
    let known: Vec<_> = known.filter(|(_, at)| *at != Position::ZERO).collect();
    let expected = [
        (&Partition(9), Position::new(2, 6)),
        (&Partition(7), Position::new(1, 5)),
    ];
    assert_eq!(known, expected);
    assert_eq!(position(h, "b", 7).await, Position::new(1, 1));
    assert_eq!(
        h.store.sinks.sink_positions(&name("a"), &[]).await,
        Ok(vec![])
    );
}

/// F6: of two workers that overlap, the slower one takes nothing back.
pub async fn the_position_of_a_sink_never_moves_back(h: &Harness) {
    h.init(&[0]).await;
    let steps = [
        ((2, 7), (2, 7)),
        ((2, 6), (2, 7)),
        ((1, 99), (2, 7)),
        ((2, 7), (2, 7)),
        ((2, 8), (2, 8)),
        ((3, 1), (3, 1)),
        ((2, 50), (3, 1)),
        ((u64::MAX >> 1, 0), (u64::MAX >> 1, 0)),
    ];
    for (to, expected) in steps {
        advance(h, "a", 0, Position::new(to.0, to.1)).await;
        let expected = Position::new(expected.0, expected.1);
        assert_eq!(position(h, "a", 0).await, expected, "after {to:?}");
    }
}

/// Each once, in the order of their places, and apart from those of other sinks.
pub async fn refused_events_are_parked_with_their_reasons(h: &Harness) {
    h.init(&[0]).await;
    let park = async |sink: &str, partition, at: (u64, u64), message: &str| {
        let position = Position::new(at.0, at.1);
        let sink = name(sink);
        let partition = Partition(partition);
        h.store
            .sinks
            .park(&sink, partition, position, message)
            .await
            .unwrap();
    };
    let (long, empty) = ("ä".repeat(900), String::new());
    park("a", 3, (2, 9), "first").await;
    park("a", 3, (1, 10), &long).await;
    park("a", 0, (5, 1), &empty).await;
    park("a", 3, (2, 9), "later").await;
    park("a", 3, (2, 10), "z").await;
    park("b", 3, (1, 1), "of another").await;
    let found = parked(h, "a").await;
    let places: Vec<_> = found
        .iter()
        .map(|parked| (parked.partition.0, parked.position.to_string()))
        .collect();
    let expected = [(0, "5-1"), (3, "1-10"), (3, "2-9"), (3, "2-10")];
    assert_eq!(
        places,
        expected.map(|(partition, at)| (partition, at.to_owned()))
    );
    let messages: Vec<_> = found.iter().map(|parked| parked.message.as_str()).collect();
    assert_eq!(messages, ["", &long[..1_000], "later", "z"]);
    assert_eq!(h.store.sinks.parked_count(&name("a")).await, Ok(4));
    let at = Position::new(2, 9);
    for _ in 0..2 {
        h.store
            .sinks
            .unpark(&name("a"), Partition(3), at)
            .await
            .unwrap();
        assert_eq!(h.store.sinks.parked_count(&name("a")).await, Ok(3));
    }
    assert_eq!(parked(h, "b").await.len(), 1);
    assert_eq!(h.store.sinks.parked_count(&name("c")).await, Ok(0));
}
