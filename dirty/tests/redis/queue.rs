//! Writes of one partition that share a call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_model::*;
use storage_servers::RedisServer;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::support::*;

/// Reports that a call of `update.lua` is about to be sent, and holds it until it is let go.
#[derive(Debug)]
struct Door {
    let_go: Semaphore,
    came: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Intercept for Door {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"update") {
            self.came.send(()).unwrap();
            self.let_go.acquire().await.unwrap().forget();
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// A store of one partition whose first call is on its way, and stays there.
struct Held {
    server: RedisServer,
    store: RedisStore,
    door: Arc<Door>,
    calls: Mutex<mpsc::UnboundedReceiver<()>>,
    first: JoinHandle<Result<Mutated, HotError>>,
}

impl Held {
    async fn new() -> Self {
        let server = server().await;
        let (came, calls) = mpsc::unbounded_channel();
        let door = Arc::new(Door {
            let_go: Semaphore::new(0),
            came,
        });
        let intercept: Arc<dyn Intercept> = door.clone();
        // So long that the first call does not time out.
        let response_timeout = Duration::from_secs(60);
        let store = prepared_through(
            settings(&server.url()).with(|redis| {
                redis.partitions = 1;
                redis.response_timeout = response_timeout;
            }),
            Hooks::intercept(intercept),
        )
        .await;
        let first = spawned(
            &store,
            mutation(&store, &owner("first"), &[("gold", set("1"))]).await,
        );
        let held = Self {
            server,
            store,
            door,
            calls: Mutex::new(calls),
            first,
        };
        held.call_comes().await;
        held
    }

    async fn call_comes(&self) {
        let mut calls = self.calls.lock().await;
        tokio::time::timeout(Duration::from_secs(30), calls.recv())
            .await
            .unwrap()
            .unwrap();
    }

    /// Writes that wait for the first one.
    async fn waiting(
        &self,
        mutations: Vec<Mutation>,
    ) -> Vec<JoinHandle<Result<Mutated, HotError>>> {
        let tasks: Vec<_> = mutations
            .into_iter()
            .map(|mutation| spawned(&self.store, mutation))
            .collect();
        // This runtime has one thread. After this, each task has run as far as it can.
        tokio::task::yield_now().await;
        tasks
    }

    async fn set(&self, id: &str, value: &str) -> Mutation {
        mutation(&self.store, &owner(id), &[("gold", set(value))]).await
    }

    fn let_go(&self, calls: usize) {
        self.door.let_go.add_permits(calls);
    }

    fn calls_since(&self) -> usize {
        let mut calls = self.calls.try_lock().unwrap();
        std::iter::from_fn(|| calls.try_recv().ok()).count()
    }
}

fn spawned(store: &RedisStore, mutation: Mutation) -> JoinHandle<Result<Mutated, HotError>> {
    let store = store.clone();
    tokio::spawn(async move { send(&store, mutation).await })
}

async fn version(task: JoinHandle<Result<Mutated, HotError>>) -> Version {
    match task.await.unwrap().unwrap() {
        Mutated::Applied(applied) => applied.version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn writes_that_come_while_one_is_under_way_go_together_in_the_next_call() {
    let held = Held::new().await;
    let mut writes = Vec::new();
    for number in 0..20 {
        writes.push(held.set(&number.to_string(), "2").await);
    }
    let tasks = held.waiting(writes).await;
    held.let_go(100);
    let first = version(held.first).await;
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(version(task).await);
    }
    assert!(
        versions
            .iter()
            .all(|version| version.get() >= first.get() + 2),
        "{versions:?} come after {first}"
    );
    let mut calls = held.calls.into_inner();
    assert_eq!(std::iter::from_fn(|| calls.try_recv().ok()).count(), 1);
    for number in 0..20 {
        assert_eq!(
            held.store.marked(&[owner(&number.to_string())], None).await,
            [Ok(true)]
        );
    }
    assert_eq!(drain(&held.store).await, 21);
}

#[tokio::test]
async fn writes_of_one_owner_that_go_together_happen_one_after_the_other() {
    let held = Held::new().await;
    let ann = owner("ann");
    let one = held.set("ann", "1").await;
    let other = mutation(&held.store, &ann, &[("bag", set("full"))]).await;
    let tasks = held
        .waiting(vec![one, other, held.set("ann", "2").await])
        .await;
    held.let_go(100);
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(version(task).await);
    }
    assert_eq!(held.calls_since(), 1);
    let [one, other, last] = versions.try_into().unwrap();
    assert!(one < other && other < last);
    let read = read(&held.store, &ann).await;
    assert_eq!(read.header.unwrap().version, last);
    assert_eq!(value(&held.store, &ann, "gold").await.as_deref(), Some("2"));
    assert_eq!(drain(&held.store).await, 2, "one mark an owner");
    assert_eq!(held.store.marked(&[ann], None).await, [Ok(false)]);
}

#[tokio::test]
async fn conditions_and_counters_go_together_with_blind_writes() {
    let held = Held::new().await;
    let write = async |id: &str, changes: &[(&str, Change)]| {
        mutation(&held.store, &owner(id), changes).await
    };
    let when = async |id: &str, version: Version| Mutation {
        condition: Condition::Version(version),
        ..held.set(id, "2").await
    };
    held.let_go(1);
    let born = apply_new(&held.store, &owner("ann"), &[("gold", set("1"))])
        .await
        .version;
    apply_new(
        &held.store,
        &owner("dan"),
        &[
            ("gold", set("40")),
            ("wood", set("-5")),
            ("big", set("9007199254740993")),
        ],
    )
    .await;
    let blocked = spawned(&held.store, held.set("block", "1").await);
    held.call_comes().await;
    let tasks = held
        .waiting(vec![
            when("ann", born).await,
            when("ann", born).await,
            when("nobody", born).await,
            write(
                "dan",
                &[("gold", Change::Incr(2)), ("wood", Change::Incr(-5))],
            )
            .await,
            write("dan", &[("wood", set("7"))]).await,
            write("dan", &[("wood", Change::Incr(3))]).await,
            write("dan", &[("big", Change::Incr(1))]).await,
            write("new", &[("gold", Change::Incr(1))]).await,
        ])
        .await;
    held.let_go(100);
    version(blocked).await;
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap().unwrap());
    }
    assert_eq!(held.calls_since(), 1, "the rest goes another way");
    let applied = |at: usize| match &answers[at] {
        Mutated::Applied(applied) => (applied.version, applied.changed, applied.counters.clone()),
        other => panic!("{at}: {other:?}"),
    };
    let (ann, changed, _) = applied(0);
    assert_eq!((ann > born, changed), (true, 1));
    assert_eq!(
        answers[1],
        Mutated::Refused(Refusal::Version(ann)),
        "the first of the two has raised it"
    );
    for unknown in [2, 7] {
        assert!(
            matches!(answers[unknown], Mutated::Load(_)),
            "an owner outside the hot tier is loaded first"
        );
    }
    assert_eq!((applied(3).1, applied(3).2), (2, vec![42, -10]));
    assert_eq!((applied(4).1, applied(4).2), (1, vec![]));
    assert_eq!(applied(5).2, [10]);
    assert_eq!(
        applied(6).2,
        [9_007_199_254_740_994],
        "a counter beyond the numbers of Lua is counted exactly"
    );
    assert!(applied(3).0 < applied(4).0 && applied(4).0 < applied(5).0);
    let dan = owner("dan");
    for (name, expected) in [("gold", "42"), ("wood", "10"), ("big", "9007199254740994")] {
        assert_eq!(
            value(&held.store, &dan, name).await.as_deref(),
            Some(expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_write_does_not_touch_those_that_go_with_it() {
    let held = Held::new().await;
    let late = Mutation {
        deadline: Timestamp(1),
        ..held.set("late", "2").await
    };
    let far = Mutation {
        deadline: late.deadline.plus(Duration::from_secs(1 << 40)),
        ..held.set("far", "2").await
    };
    let moved = held.set("moved", "2").await.sent_in(Epoch(77));
    let spoilt = held.set("spoilt", "2").await;
    let key = "slug-data:{0}:game:eu:player:spoilt";
    held.server.call(&["SET", key, "text"]).await.unwrap();
    let tasks = held
        .waiting(vec![
            late,
            held.set("a", "2").await,
            far,
            moved,
            spoilt,
            held.set("b", "2").await,
        ])
        .await;
    held.let_go(100);
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert_eq!(answers[0], Ok(Mutated::Refused(Refusal::Expired)));
    assert_eq!(answers[2].as_ref().unwrap_err().kind, HotKind::Settings);
    assert_eq!(
        answers[3],
        Ok(Mutated::Refused(Refusal::Moved {
            epoch: Epoch(1),
            generation: Epoch(1)
        }))
    );
    let error = answers[4].as_ref().unwrap_err();
    assert_eq!(
        (error.kind.clone(), error.outcome),
        (HotKind::Corrupt, Outcome::NotApplied)
    );
    for (at, id) in [(1, "a"), (5, "b")] {
        assert!(
            matches!(answers[at], Ok(Mutated::Applied(_))),
            "{:?}",
            answers[at]
        );
        assert_eq!(
            value(&held.store, &owner(id), "gold").await.as_deref(),
            Some("2")
        );
    }
    for id in ["late", "far", "moved"] {
        assert_eq!(read(&held.store, &owner(id)).await.header, None);
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_takes_no_other_with_it() {
    let held = Held::new().await;
    let tasks = held
        .waiting(vec![
            held.set("a", "2").await,
            held.set("b", "2").await,
            held.set("c", "2").await,
        ])
        .await;
    let [gone, left, other] = tasks.try_into().unwrap();
    // One write that waits, and the write whose call the others wait for.
    gone.abort();
    held.first.abort();
    held.call_comes().await;
    // In the middle of the call that has both writes.
    other.abort();
    held.let_go(100);
    version(left).await;
    assert!(gone.await.unwrap_err().is_cancelled());
    assert_eq!(
        read(&held.store, &owner("a")).await.header,
        None,
        "a write without a waiting caller is not sent"
    );
    let next = held.set("first", "3").await;
    assert!(
        matches!(send(&held.store, next).await, Ok(Mutated::Applied(_))),
        "the queue is free again"
    );
}

#[tokio::test]
async fn a_call_takes_no_more_than_some_writes_and_bytes() {
    let held = Held::new().await;
    let large = "x".repeat(200 * 1024);
    let mut writes = Vec::new();
    for number in 0..4 {
        writes.push(
            mutation(
                &held.store,
                &owner(&format!("large{number}")),
                &[("gold", set(&large))],
            )
            .await,
        );
    }
    for number in 0..200 {
        writes.push(held.set(&number.to_string(), "2").await);
    }
    let tasks = held.waiting(writes).await;
    held.let_go(100);
    for task in tasks {
        version(task).await;
    }
    // Two of the large writes reach the limit of bytes, so two calls carry them. Then one call
    // carries 128 writes, and another the other 72.
    assert_eq!(held.calls_since(), 4);
}

/// A `select!` causes this while one of its branches runs. That branch may need the same
/// connection.
#[tokio::test]
async fn a_caller_whose_future_is_not_polled_holds_up_nobody() {
    const PATIENT: Duration = Duration::from_secs(30);
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let [first, second] = ["first", "second"].map(owner);
    let one = mutation(&store, &first, &[("gold", set("1"))]).await;
    let two = mutation(&store, &second, &[("gold", set("2"))]).await;

    // The connection was idle for a while. So its next user first asks which server it leads to.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    let mut asking = Box::pin(read(&store, &first));
    assert!(asking.as_mut().now_or_never().is_none());
    tokio::time::timeout(PATIENT, read(&store, &second))
        .await
        .expect("a read over the same connection is held up");
    let mut writing = Box::pin(send(&store, one));
    assert!(writing.as_mut().now_or_never().is_none());
    let answer = tokio::time::timeout(PATIENT, send(&store, two))
        .await
        .expect("a write in the same queue is held up");
    assert!(matches!(answer, Ok(Mutated::Applied(_))), "{answer:?}");
    assert!(matches!(writing.await, Ok(Mutated::Applied(_))));
    asking.await;
}
