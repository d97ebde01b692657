//! Mutations and reads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage_dirty::*;
use storage_model::*;
use storage_servers::Reply;

use crate::support::*;

#[tokio::test]
async fn a_warm_operation_is_one_round_trip() {
    let server = server().await;
    let counter = Arc::new(Counter::default());
    let store = prepared_through(
        settings(&server.url()).with(|redis| redis.connections = 1),
        Hooks::intercept(counter.clone()),
    )
    .await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    let write = mutation(&store, &ann, &[("gold", set("2")), ("name", set("Ann"))]).await;
    let incr = mutation(&store, &ann, &[("gold", Change::Incr(5))]).await;
    let before = counter.trips.load(Ordering::SeqCst);
    send(&store, write).await.unwrap();
    send(&store, incr).await.unwrap();
    read(&store, &ann).await;
    assert_eq!(counter.trips.load(Ordering::SeqCst) - before, 3);
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("7"));
}

#[tokio::test]
async fn a_repeat_changes_nothing_and_answers_what_the_first_one_did() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    apply_new(&store, &ann, &[("gold", Change::Incr(5))]).await;
    let incr = named(&store, &ann, &[("gold", Change::Incr(7))]).await;
    let update = named(&store, &ann, &[("name", set("Ann"))]).await;
    let first = (
        send(&store, incr.clone()).await.unwrap(),
        send(&store, update.clone()).await.unwrap(),
    );
    apply(&store, &ann, &[("name", set("Bo"))]).await;
    drain(&store).await;
    assert_eq!(
        store.evict(std::slice::from_ref(&ann)).await,
        [Ok(Evicted::Gone)]
    );
    assert_eq!(send(&store, incr).await.unwrap(), first.0);
    assert_eq!(send(&store, update).await.unwrap(), first.1);
    assert!(matches!(&first.0, Mutated::Applied(applied) if applied.counters == [12]));
    assert_eq!(read(&store, &ann).await, HotRead::default());
}

#[tokio::test]
async fn a_repeat_is_recognised_in_the_window_after() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    apply_new(&store, &ann, &[("gold", set("0"))]).await;
    let incr = named(&store, &ann, &[("gold", Change::Incr(1))]).await;
    let update = named(&store, &ann, &[("name", set("Ann"))]).await;
    let first = (
        send(&store, incr.clone()).await.unwrap(),
        send(&store, update.clone()).await.unwrap(),
    );
    // As if the window had ended: its ids belong to the other window now, and that is the last one.
    let ops = texts(server.call(&["KEYS", "*-ops:*"]).await.unwrap());
    let [young] = ops.as_slice() else {
        panic!("{ops:?}")
    };
    let old = if young.ends_with(":0") {
        young.replace("}:0", "}:1")
    } else {
        young.replace("}:1", "}:0")
    };
    let window = server.call(&["HGET", young, ":w"]).await.unwrap();
    let before = window.text().unwrap().parse::<u64>().unwrap() - 1;
    server.call(&["RENAME", young, &old]).await.unwrap();
    server
        .call(&["HSET", &old, ":w", &before.to_string()])
        .await
        .unwrap();
    assert_eq!(send(&store, incr).await.unwrap(), first.0);
    assert_eq!(send(&store, update).await.unwrap(), first.1);
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_mutation_is_refused_after_its_deadline_and_one_too_far_ahead_is_a_mistake() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    for changes in [&[("gold", set("1"))][..], &[("gold", Change::Incr(1))]] {
        let mut late = mutation(&store, &owner("ann"), changes).await;
        late.deadline = store.time().await.unwrap();
        assert_eq!(
            send(&store, late.clone()).await,
            Ok(Mutated::Refused(Refusal::Expired))
        );
        late.deadline = Timestamp(u64::MAX);
        let error = send(&store, late).await.unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Settings, Outcome::NotApplied)
        );
    }
    assert_eq!(read(&store, &owner("ann")).await, HotRead::default());
}

#[tokio::test]
async fn incr_is_exact_over_all_64_bits() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    apply_new(&store, &ann, &[("n", set("0"))]).await;
    let edges = [
        i64::MIN,
        i64::MIN + 1,
        -(1 << 53) - 1,
        -1_000_000_001,
        -1_000_000_000,
        -999_999_999,
        -10,
        -1,
        0,
        1,
        9,
        999_999_999,
        1_000_000_000,
        1_000_000_001,
        (1 << 53) + 1,
        9_223_372_035_999_999_999,
        i64::MAX - 1,
        i64::MAX,
    ];
    for start in edges {
        for step in edges {
            apply(&store, &ann, &[("n", set(&start.to_string()))]).await;
            let answer = mutate(&store, &ann, &[("n", Change::Incr(step))])
                .await
                .unwrap();
            match start.checked_add(step) {
                Some(sum) => {
                    assert!(
                        matches!(&answer, Mutated::Applied(a) if a.counters == [sum]),
                        "{start} + {step}: {answer:?}"
                    );
                    assert_eq!(value(&store, &ann, "n").await, Some(sum.to_string()));
                }
                None => {
                    assert_eq!(
                        answer,
                        Mutated::Refused(Refusal::Overflow(field("n"))),
                        "{start} + {step}"
                    );
                    assert_eq!(value(&store, &ann, "n").await, Some(start.to_string()));
                }
            }
        }
    }
    for text in [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "-01",
        " 1",
        "1 ",
        "1\n",
        "1.0",
        "1e3",
        "0x10",
        "9223372036854775808",
        "-9223372036854775809",
        "٣",
    ] {
        apply(&store, &ann, &[("n", set(text))]).await;
        let answer = mutate(&store, &ann, &[("n", Change::Incr(1))])
            .await
            .unwrap();
        assert_eq!(
            answer,
            Mutated::Refused(Refusal::NotInteger(field("n"))),
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn names_and_values_of_every_kind_come_back_as_they_were() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let names = [":v", ":d:x", "%", "%:v", ":", "a b", "名前", "{x}", "x"];
    let values: [&[u8]; 4] = [b"", b"p", b"\0\xff\r\n", b"r"];
    for id in ["a:b", "%3A", "{0}", " "] {
        let owner = Owner::new("g:a", "%", "{p}", id).unwrap();
        let changes: Vec<_> = names
            .iter()
            .zip(values.iter().cycle())
            .map(|(name, value)| (*name, Change::Set(Bytes::from_static(value))))
            .collect();
        apply(&store, &owner, &changes).await;
        let mut cells = read(&store, &owner).await.cells;
        assert_eq!(cells.len(), names.len());
        apply(
            &store,
            &owner,
            &[(":v", Change::Remove), ("%", Change::Remove)],
        )
        .await;
        for (name, cell) in cells
            .iter_mut()
            .filter(|(name, _)| [":v", "%"].contains(&name.as_str()))
        {
            *cell = Cell::Removed(cell.live().unwrap().clone());
            assert!(!name.as_str().is_empty());
        }
        assert_eq!(read(&store, &owner).await.cells, cells);
        apply(
            &store,
            &owner,
            &[(":v", set("back")), ("%", Change::Restore)],
        )
        .await;
        assert_eq!(value(&store, &owner, ":v").await.as_deref(), Some("back"));
        assert!(
            read(&store, &owner)
                .await
                .cells
                .iter()
                .all(|(_, cell)| cell.live().is_some())
        );
        let asked = vec![field("x"), field("none"), field(":v")];
        let some = store
            .read(&[Read {
                owner: owner.clone(),
                fields: Fields::Live(asked),
            }])
            .await
            .pop()
            .unwrap()
            .unwrap();
        assert_eq!(
            some.cells
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["x", ":v"]
        );
    }
}

#[tokio::test]
async fn large_calls_are_applied_whole() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let names: Vec<String> = (0..9_000)
        .map(|number| format!("field-{number:05}"))
        .collect();
    let changes: Vec<_> = names.iter().map(|name| (name.as_str(), set("1"))).collect();
    assert_eq!(
        apply_new(&store, &owner("many"), &changes).await.changed,
        9_000
    );
    assert_eq!(
        apply(&store, &owner("blind"), &changes).await.changed,
        9_000
    );
    let incrs: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), Change::Incr(1)))
        .collect();
    let sums = apply(&store, &owner("many"), &incrs).await.counters;
    assert!(sums.len() == 9_000 && sums.iter().all(|sum| *sum == 2));
    assert_eq!(read(&store, &owner("many")).await.cells.len(), 9_000);
}

/// A map of up to 512 marks would be a list, and Redis searches a list entry by entry.
#[tokio::test]
async fn a_dirty_map_is_a_table_from_its_first_mark_on() {
    // One write by each script that writes.
    for change in [set("1"), Change::Incr(1)] {
        let server = server().await;
        let store = prepared(settings(&server.url())).await;
        let ann = owner("ann");
        apply_new(&store, &ann, &[("gold", change.clone())]).await;
        let map = format!("slug-marks:{{{}}}", ann.partition(4));
        assert_eq!(
            server
                .call(&["OBJECT", "ENCODING", &map])
                .await
                .unwrap()
                .text()
                .unwrap(),
            "hashtable",
            "{change:?}"
        );
        assert_eq!(
            server.call(&["HLEN", &map]).await.unwrap(),
            Reply::Integer(1),
            "{change:?}"
        );
    }
}
