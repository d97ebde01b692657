//! Transactions that share a call. Each is checked against the state that the ones before it left,
//! and has an outcome of its own.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use storage_dirty::*;
use storage_model::*;
use storage_servers::Reply;

use crate::calls::Place;
use crate::support::*;

const TTL: std::time::Duration = std::time::Duration::from_secs(60);
const ANN: &str = "{g}/ann";
const BOB: &str = "{g}/bob";
const CAY: &str = "{g}/cay";

/// Moves gold from one owner to another. The first one's gold does not fall below 0.
async fn moves(place: &Place, from: &str, to: &str, gold: i64) -> Mutation {
    let takes = Change::Add {
        by: -gold,
        floor: 0,
        ceiling: i64::MAX,
    };
    let store = &place.store;
    let gives = mutation(store, &owner(to), &[("gold", Change::Incr(gold))]).await;
    let takes = mutation(store, &owner(from), &[("gold", takes)]).await;
    takes.with(vec![gives])
}

/// A place whose owners have 100 gold each.
async fn place() -> Place {
    let place = Place::new().await;
    for id in [ANN, BOB, CAY] {
        apply_new(&place.store, &owner(id), &[("gold", set("100"))]).await;
    }
    place
}

async fn gold(place: &Place, id: &str) -> String {
    let value = value(&place.store, &owner(id), "gold").await;
    value.unwrap()
}

/// Sends transactions in one call.
async fn together(place: &Place, mutations: Vec<Mutation>) -> Vec<Result<Mutated, HotError>> {
    let calls = || calls_of_transact(place);
    let before = calls().await;
    let items: Vec<_> = mutations.into_iter().map(|one| (one, Vec::new())).collect();
    let results = place.store.mutate(&items).await;
    assert_eq!(calls().await - before, 1);
    results
}

/// The field of the record with the last call of transactions, and the call's number.
async fn last_call(place: &Place) -> Option<(String, u64)> {
    let of_transact = |(field, text): (String, String)| {
        let (number, answers) = text.split_once(' ')?;
        let number = number.parse().unwrap();
        answers.starts_with('*').then_some((field, number))
    };
    let calls = place.last_calls().await;
    calls.into_iter().find_map(of_transact)
}

/// How often the server ran a call of transactions.
async fn calls_of_transact(place: &Place) -> u64 {
    let last = last_call(place).await;
    last.map_or(0, |(_, number)| number)
}

#[tokio::test]
async fn each_transaction_of_a_call_is_checked_against_the_state_that_the_others_left() {
    let place = place().await;
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(moves(&place, ANN, BOB, 10).await);
    }
    let results = together(&place, all).await;
    let mut versions = BTreeSet::new();
    let mut refused = 0;
    for result in results {
        match result.unwrap() {
            Mutated::Applied(applied) => {
                assert_eq!(applied.also.first().unwrap().version, applied.version);
                assert!(versions.insert(applied.version), "a version is given twice");
            }
            Mutated::Refused(Refusal::OutOfBounds { value, .. }) => {
                assert_eq!(value, 0);
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((versions.len(), refused), (10, 10));
    let golds = (gold(&place, ANN).await, gold(&place, BOB).await);
    assert_eq!(golds, ("0".to_owned(), "200".to_owned()));
}

#[tokio::test]
async fn a_transaction_that_fails_leaves_the_others_of_its_call() {
    let place = place().await;
    let hash = "slug-data:{0}:game:eu:player:{g}/cay";
    place.server.call(&["DEL", hash]).await.unwrap();
    place.server.call(&["LPUSH", hash, "x"]).await.unwrap();
    let all = vec![
        moves(&place, ANN, BOB, 1).await,
        moves(&place, ANN, CAY, 10).await,
        moves(&place, BOB, ANN, 41).await,
    ];
    let results = together(&place, all).await;
    let [Ok(_), Err(error), Ok(_)] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_eq!(error.outcome, Outcome::NotApplied, "{error}");
    let golds = (gold(&place, ANN).await, gold(&place, BOB).await);
    assert_eq!(golds, ("140".to_owned(), "60".to_owned()));
}

#[tokio::test]
async fn a_refusal_names_a_field_with_spaces_and_digits() {
    let place = place().await;
    let odd = "a b:1 0 3:c";
    let named = mutation(&place.store, &owner(ANN), &[(odd, set("1"))])
        .await
        .expecting(vec![(field(odd), Some(Bytes::from_static(b"2")))]);
    let results = together(&place, vec![named, moves(&place, BOB, ANN, 1).await]).await;
    let [Ok(refused), Ok(Mutated::Applied(_))] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_eq!(*refused, Mutated::Refused(Refusal::Differs(field(odd))));
}

/// A proxy may repeat a request.
#[tokio::test]
async fn a_call_that_is_doubled_on_its_way_moves_gold_once() {
    let place = place().await;
    place.weather.doubles.store(true, Ordering::SeqCst);
    let all = vec![
        moves(&place, ANN, BOB, 30).await,
        moves(&place, ANN, BOB, 30).await,
    ];
    let results = together(&place, all).await;
    assert!(
        results
            .iter()
            .all(|one| matches!(one, Ok(Mutated::Applied(_))))
    );
    assert!(!place.weather.doubles.load(Ordering::SeqCst));
    assert_eq!(gold(&place, ANN).await, "40");
}

#[tokio::test]
async fn a_transaction_whose_answer_was_lost_is_not_carried_out_again() {
    let place = place().await;
    let retry = place
        .lost("transact", moves(&place, ANN, BOB, 30).await)
        .await;
    let Mutated::Applied(applied) = send(&place.store, retry).await.unwrap() else {
        panic!()
    };
    assert_eq!(applied.counters, [70]);
    assert_eq!((applied.also.first().unwrap().counters.as_slice()), [130]);
    assert_eq!(gold(&place, ANN).await, "70");
}

/// The copy of a call that comes after the call was ended finds its number used.
#[tokio::test]
async fn a_call_of_transactions_that_was_ended_is_never_carried_out() {
    let place = place().await;
    apply(&place.store, &owner(ANN), &[("x", Change::Remove)]).await;
    let retry = place
        .lost("transact", moves(&place, ANN, BOB, 30).await)
        .await;
    // As if the call had not reached the server yet.
    let number = calls_of_transact(&place).await;
    forget_call(&place, number).await;
    place.weather.doubles.store(true, Ordering::SeqCst);
    assert!(matches!(
        send(&place.store, retry).await,
        Ok(Mutated::Applied(_))
    ));
    // The repeat went in a call of its own, under the next number.
    assert_eq!(calls_of_transact(&place).await, number + 1);
    assert_eq!(gold(&place, ANN).await, "70");
}

/// Takes a call back, as far as the server knows.
async fn forget_call(place: &Place, number: u64) {
    let (field, last) = last_call(place).await.unwrap();
    assert_eq!(last, number);
    let before = format!("{} *", number - 1);
    for command in [
        &["HSET", "slug-part:{0}", field.as_str(), &before][..],
        &[
            "HSET",
            "slug-data:{0}:game:eu:player:{g}/ann",
            "gold",
            "100",
        ],
        &[
            "HSET",
            "slug-data:{0}:game:eu:player:{g}/bob",
            "gold",
            "100",
        ],
    ] {
        place.server.call(command).await.unwrap();
    }
}

/// A right that is taken in the middle of a call ends it. The writes before keep their answers, and
/// the store learns of it.
#[tokio::test]
async fn an_error_that_is_no_writes_own_ends_its_call() {
    let place = place().await;
    for id in [BOB, CAY] {
        apply(&place.store, &owner(id), &[("x", set("1"))]).await;
    }
    let removes = mutation(&place.store, &owner(BOB), &[("x", Change::Remove)]).await;
    let all = vec![
        moves(&place, ANN, CAY, 1).await,
        removes,
        moves(&place, ANN, CAY, 2).await,
    ];
    let taken = place.server.call(&["ACL", "SETUSER", "default", "-hdel"]);
    taken.await.unwrap();
    let items: Vec<_> = all.into_iter().map(|one| (one, Vec::new())).collect();
    let results = place.store.mutate(&items).await;
    let [Ok(Mutated::Applied(_)), Err(error), Err(later)] = results.as_slice() else {
        panic!("{results:?}")
    };
    for error in [error, later] {
        assert_eq!(error.kind, HotKind::Denied, "{error}");
    }
    assert_eq!(gold(&place, ANN).await, "99", "the third is not applied");

    // The first write of a call fails as a command does, and then no write is sent.
    let removes = mutation(&place.store, &owner(CAY), &[("x", Change::Remove)]).await;
    let refused = send(&place.store, removes).await.unwrap_err();
    assert_eq!(refused.kind, HotKind::Denied, "{refused}");
    let plain = moves(&place, ANN, CAY, 4).await;
    let refused = send(&place.store, plain).await.unwrap_err();
    let found = (refused.kind, refused.outcome);
    assert_eq!(found, (HotKind::Denied, Outcome::NotApplied));
    assert_eq!(gold(&place, ANN).await, "99");
}

/// The mark of an owner stays short, whatever the number of its partners. The other links are in a
/// key of their own, which leaves with the last mark.
#[tokio::test]
async fn an_owner_of_many_partners_keeps_a_short_mark() {
    let place = place().await;
    let call = async |words: &[&str]| place.server.call(words).await.unwrap();
    let (links, saved) = ("slug-links:{0}", "slug-links:{0}:saving");
    for id in 0..100 {
        let other = format!("{{g}}/{id}");
        apply_new(&place.store, &owner(&other), &[("gold", set("0"))]).await;
        for (from, to) in [(ANN, &*other), (&*other, ANN)] {
            let moved = moves(&place, from, to, 0).await;
            send(&place.store, moved).await.unwrap();
        }
    }
    let mark = call(&["HSTRLEN", "slug-marks:{0}", "game:eu:player:{g}/ann"]).await;
    let Reply::Integer(bytes) = mark else {
        panic!("{mark:?}")
    };
    assert!((256..512).contains(&bytes), "{bytes} bytes");
    let Reply::Integer(count) = call(&["ZCARD", links]).await else {
        panic!("links are a sorted set")
    };
    assert!((80..100).contains(&count), "{count} links");

    let held = lock("w");
    let locked = place.store.lock(&[Partition(0)], &held, TTL).await;
    assert_eq!(locked, [Ok(true)]);
    let taken = place.store.snapshot(Partition(0), &held).await.unwrap();
    let Snapshot::Taken(snapshot) = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(call(&["EXISTS", links]).await, Reply::Integer(0));
    assert_eq!(call(&["ZCARD", saved]).await, Reply::Integer(count));
    let entries = place.store.scan(Partition(0), Map::Snapshot, 0, 10_000);
    let (mut marks, landed) = (entries.await.unwrap().entries, Version::new(1).unwrap());
    let last = marks.split_off(marks.len() - 1);
    for (marks, is_there) in [(marks, 1), (last, 0)] {
        let settle = Settle {
            partition: Partition(0),
            lock: Some(held.clone()),
            epoch: Epoch(1),
            snapshot,
            landed,
            marks,
            rows: Vec::new(),
            probation: false,
        };
        place.store.settle(&settle).await.unwrap();
        assert_eq!(call(&["EXISTS", saved]).await, Reply::Integer(is_there));
    }
}

/// As on another spoilt key of the partition.
#[tokio::test]
async fn a_transaction_on_a_spoilt_key_of_links_changes_nothing() {
    let place = place().await;
    let call = async |words: &[&str]| place.server.call(words).await.unwrap();
    for id in 0..30 {
        let other = format!("{{g}}/{id}");
        apply_new(&place.store, &owner(&other), &[("gold", set("0"))]).await;
        if id == 29 {
            call(&["DEL", "slug-links:{0}"]).await;
            call(&["SET", "slug-links:{0}", "x"]).await;
        }
        let moved = moves(&place, ANN, &other, 1).await;
        let sent = send(&place.store, moved).await;
        assert_eq!(sent.is_ok(), id < 29, "{id}: {sent:?}");
        if let Err(error) = sent {
            let found = (error.kind, error.outcome);
            assert_eq!(found, (HotKind::Corrupt, Outcome::NotApplied));
        }
    }
    assert_eq!(gold(&place, ANN).await, "71");
    assert_eq!(gold(&place, "{g}/29").await, "0");
}

/// Not even its note is written, which would be written before the links.
#[tokio::test]
async fn a_transaction_without_the_right_to_write_links_changes_nothing() {
    let place = place().await;
    let call = async |words: &[&str]| place.server.call(words).await.unwrap();
    for id in 0..30 {
        let other = format!("{{g}}/{id}");
        apply_new(&place.store, &owner(&other), &[("gold", set("0"))]).await;
        if id == 29 {
            call(&["ACL", "SETUSER", "default", "-zadd"]).await;
        }
        let mut moved = moves(&place, ANN, &other, 1).await;
        moved.note = Some("moved".into());
        let sent = send(&place.store, moved).await;
        let kind = sent.map(drop).map_err(|error| error.kind);
        let expected = if id < 29 {
            Ok(())
        } else {
            Err(HotKind::Denied)
        };
        assert_eq!(kind, expected, "{id}");
    }
    assert_eq!(gold(&place, ANN).await, "71");
    let notes = call(&["XLEN", "slug-notes:{0}"]).await;
    assert_eq!(notes, Reply::Integer(29));
}
