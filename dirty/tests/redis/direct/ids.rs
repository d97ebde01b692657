//! Ids of writes without a script: those of their callers, and those that their rounds give them.

use super::*;

impl Stage {
    /// The first copy of a write whose id nobody else knows.
    async fn nameless(&self, id: &str, value: &str) -> Mutation {
        self.write(id, value).await.known_to(Known::Nobody)
    }

    /// How many operation ids are remembered.
    async fn remembered(&self) -> i64 {
        let mut sum = 0;
        for parity in ["0", "1"] {
            match self.server.call(&["HLEN", &format!("my game-ops:{{0}}:{parity}")]).await.unwrap() {
                storage_servers::Reply::Integer(count) => sum += count,
                other => panic!("{other:?}"),
            }
        }
        sum
    }
}

/// A repeat of a write under the id that it has by now.
fn repeat(write: Mutation, id: OpId) -> Mutation {
    Mutation { id, known: Known::Sent, ..write }
}

#[tokio::test]
async fn a_write_is_given_an_id_by_which_its_repeat_gets_its_answer_and_a_round_is_remembered_once() {
    let stage = Stage::new().await;
    let other = stage.other().await;
    apply(&other, &owner("ann"), &[("gold", set("0"))]).await;
    let first = stage.nameless("ann", "1").await;
    let by_script = applied(send(&stage.store, first.clone()).await);
    assert_eq!(by_script.id, first.id);
    assert!(!stage.went_direct().await);
    let (second, third) = (stage.nameless("ann", "2").await, stage.nameless("ann", "3").await);
    let told = applied(send(&stage.store, second.clone()).await);
    assert!(told.id.is_given() && stage.went_direct().await);
    let remembered = stage.remembered().await;
    let last = applied(send(&stage.store, third.clone()).await);
    assert!(last.id.is_given() && last.id != told.id);
    assert_eq!(stage.remembered().await, remembered);
    for (write, answer) in [(first, by_script), (second, told), (third, last.clone())] {
        assert_eq!(applied(send(&other, repeat(write, answer.id)).await), answer);
    }
    assert_eq!(read(&stage.store, &owner("ann")).await.header.unwrap().version, last.version);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_lost_answer_is_found_by_the_repeat() {
    for known in [Known::Caller, Known::Nobody] {
        let stage = Stage::new().await;
        stage.apply("ann", "0").await;
        let before = stage.apply("ann", "1").await;
        let lost = stage.write("ann", "2").await.known_to(known);
        stage.went_direct().await;
        stage.watch.loses_answer.store(true, Ordering::SeqCst);
        let error = send(&stage.store, lost.clone()).await.unwrap_err();
        assert!(stage.went_direct().await);
        assert_eq!((error.outcome, error.id.is_some()), (Outcome::Unknown, known == Known::Nobody));
        let other = stage.other().await;
        let between = apply(&other, &owner("ann"), &[("gold", set("3"))]).await.version;
        let id = error.id.unwrap_or(lost.id);
        let repeat = version(send(&stage.store, repeat(lost, id)).await);
        assert_eq!(repeat.get(), before.get() + 2, "as it was applied");
        assert_eq!(read(&stage.store, &owner("ann")).await.header.unwrap().version, between);
        assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
    }
}

#[tokio::test]
async fn a_write_that_was_lost_on_its_way_is_applied_by_its_repeat_once() {
    let stage = Stage::new().await;
    stage.apply("ann", "0").await;
    let before = applied(send(&stage.store, stage.nameless("ann", "1").await).await);
    let lost = stage.nameless("ann", "2").await;
    let held = stage.held_write(lost.clone()).await;
    stage.server.call(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    stage.let_go();
    let error = held.await.unwrap().unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
    assert_eq!(
        value(&stage.store, &owner("ann"), "gold").await.as_deref(),
        Some("1"),
        "its writer's earlier round proves nothing"
    );
    let repeat = repeat(lost, error.id.unwrap());
    let first = version(send(&stage.store, repeat.clone()).await);
    assert!(first > before.version);
    stage.apply("ann", "3").await;
    assert_eq!(version(send(&stage.store, repeat).await), first);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
}

/// R11: else the repeat of one would be answered as that of the other, and nobody would apply it.
#[tokio::test]
async fn owners_of_one_version_that_go_in_one_round_are_given_ids_of_their_own() {
    let stage = Stage::new().await;
    let both = async |value: &str| [(stage.nameless("ann", value).await, None), (stage.nameless("bob", value).await, None)];
    stage.store.mutate(&both("0").await).await;
    let [ann, bob] = stage.store.mutate(&both("0").await).await.try_into().unwrap();
    let (ann, bob) = (version(ann), version(bob));
    let first = if ann < bob { "ann" } else { "bob" };
    assert_eq!(stage.apply(first, "1").await, ann.max(bob), "one call gives its writes the next versions");
    let (store, lost) = (stage.store.clone(), both("2").await);
    let sent = lost.clone();
    let held = stage.hold(async move { store.mutate(&sent).await }).await;
    stage.server.call(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    stage.let_go();
    for ((lost, _), answer) in lost.into_iter().zip(held.await.unwrap()) {
        applied(send(&stage.store, repeat(lost, answer.unwrap_err().id.unwrap())).await);
    }
    for id in ["ann", "bob"] {
        assert_eq!(value(&stage.store, &owner(id), "gold").await.as_deref(), Some("2"));
    }
}

/// R11: a counter's answer can't be told from an id.
#[tokio::test]
async fn a_counter_without_a_name_keeps_its_own_id() {
    let stage = Stage::new().await;
    let add = async || {
        mutation(&stage.store, &owner("ann"), &[("gold", Change::Incr(5))]).await.sent_in(Epoch(1)).known_to(Known::Nobody)
    };
    stage.apply("ann", "0").await;
    applied(send(&stage.store, add().await).await);
    stage.went_direct().await;
    let write = add().await;
    let told = applied(send(&stage.store, write.clone()).await);
    assert!(stage.went_direct().await && told.id == write.id);
    assert_eq!(told.counters, [10]);
    assert_eq!(applied(send(&stage.other().await, repeat(write, told.id)).await), told);
}

#[tokio::test]
async fn ids_that_nobody_gave_are_refused_or_new_and_break_nothing() {
    let stage = Stage::new().await;
    stage.apply("ann", "0").await;
    let given = applied(send(&stage.store, stage.nameless("ann", "1").await).await).id;
    let mut last = String::new();
    for at in 0..3 {
        // The writer, the round and the version, each as large as can be.
        let mut bytes = <[u8; 24]>::try_from(given.as_bytes()).unwrap();
        bytes[8 * at..8 * at + 8].fill(0xff);
        let write = repeat(stage.write("ann", &at.to_string()).await, OpId::from_bytes(&bytes).unwrap());
        match send(&stage.store, write).await {
            Ok(Mutated::Applied(_)) => last = at.to_string(),
            // The version is none, though the round was applied.
            other => assert_eq!((at, other.unwrap_err().kind), (2, HotKind::Corrupt)),
        }
    }
    assert_eq!(last, "1");
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("1"));
}
