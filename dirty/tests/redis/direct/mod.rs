//! Writes without a script: when they are sent, what they leave behind, and what keeps them from being applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Broken, Gate};
use storage_dirty::*;
use storage_model::*;
use storage_servers::RedisServer;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::support::*;

mod counters;
mod histories;
mod ids;
mod landing;
mod marks;

/// With a space, since hashes name their writers.
const PREFIX: &str = "my game";

/// Tells what is sent; once it is closed, holds what is sent without a script until it is let go; loses an answer.
#[derive(Debug)]
struct Watch {
    sent: mpsc::UnboundedSender<Vec<&'static str>>,
    closed: AtomicBool,
    let_go: Semaphore,
    loses_answer: AtomicBool,
}

#[async_trait]
impl Gate for Watch {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        self.sent.send(commands.to_vec()).unwrap();
        if commands.contains(&"direct") && self.closed.load(Ordering::SeqCst) {
            self.let_go.acquire().await.unwrap().forget();
        }
        Ok(())
    }

    async fn after(&self, commands: &[&'static str]) -> Result<(), Broken> {
        let loses = commands.contains(&"direct") && self.loses_answer.swap(false, Ordering::SeqCst);
        if loses { Err(Broken) } else { Ok(()) }
    }
}

struct Stage {
    server: RedisServer,
    store: RedisStore,
    watch: Arc<Watch>,
    sent: Mutex<mpsc::UnboundedReceiver<Vec<&'static str>>>,
}

impl Stage {
    async fn new() -> Self {
        // So long that a slow machine does not end it.
        Self::with_lease(Duration::from_secs(10)).await
    }

    async fn with_lease(lease: Duration) -> Self {
        Self::on(server().await, lease).await
    }

    async fn on(server: RedisServer, lease: Duration) -> Self {
        let (sent, told) = mpsc::unbounded_channel();
        let (closed, loses_answer) = (AtomicBool::new(false), AtomicBool::new(false));
        let watch = Arc::new(Watch { sent, closed, let_go: Semaphore::new(0), loses_answer });
        let gate: Arc<dyn Gate> = watch.clone();
        let options = RedisOptions {
            partitions: 1,
            gate: Some(gate),
            connections: 1,
            direct_writes: Some(lease),
            response_timeout: Duration::from_secs(600),
            prefix: PREFIX.to_owned(),
            ..options(&server.url())
        };
        let store = prepared(options).await;
        // A writer asks for owners of partitions that are known to be their server's.
        apply(&store, &owner("warm"), &[("gold", set("1"))]).await;
        assert_eq!(drain(&store).await, 1);
        Self { store, server, watch, sent: Mutex::new(told) }
    }

    /// The first copy of a write of one field.
    async fn write(&self, id: &str, value: &str) -> Mutation {
        let write = mutation(&self.store, &owner(id), &[("gold", set(value))]).await;
        write.sent_in(Epoch(1)).known_to(Known::Caller)
    }

    /// Sets a field of an owner; of a clean one twice, since only then its writer is granted it.
    async fn apply(&self, id: &str, value: &str) -> Version {
        self.set(&self.store, id, &["gold"], value).await
    }

    async fn set(&self, store: &RedisStore, id: &str, names: &[&str], value: &str) -> Version {
        let changes: Vec<_> = names.iter().map(|name| (*name, set(value))).collect();
        let write = async || {
            let write = mutation(store, &owner(id), &changes).await.sent_in(Epoch(1)).known_to(Known::Caller);
            version(send(store, write).await)
        };
        let is_clean = read(store, &owner(id)).await.header.is_none_or(|header| header.marks == Some(0));
        if is_clean {
            write().await;
        }
        write().await
    }

    /// Whether a write went without a script, by what was sent since the last question.
    async fn went_direct(&self) -> bool {
        let mut sent = self.sent.lock().await;
        let rounds: Vec<_> = std::iter::from_fn(|| sent.try_recv().ok()).flatten().collect();
        !rounds.contains(&"update") && !rounds.contains(&"mutate") && rounds.contains(&"direct")
    }

    /// A write that is on its way without a script, and stays there.
    async fn held(&self, id: &str, value: &str) -> JoinHandle<Result<Mutated, HotError>> {
        let write = self.write(id, value).await;
        self.held_write(write).await
    }

    async fn held_write(&self, write: Mutation) -> JoinHandle<Result<Mutated, HotError>> {
        let store = self.store.clone();
        self.hold(async move { send(&store, write).await }).await
    }

    /// What sends something without a script that stays on its way.
    async fn hold<T: Send + 'static>(&self, sends: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let mut sent = self.sent.lock().await;
        while sent.try_recv().is_ok() {}
        self.watch.closed.store(true, Ordering::SeqCst);
        let task = tokio::spawn(sends);
        while !sent.recv().await.unwrap().contains(&"direct") {}
        task
    }

    fn let_go(&self) {
        self.watch.closed.store(false, Ordering::SeqCst);
        self.watch.let_go.add_permits(1);
    }

    /// Another process.
    async fn other(&self) -> RedisStore {
        let store = RedisStore::open(RedisOptions { partitions: 1, prefix: PREFIX.to_owned(), ..options(&self.server.url()) })
            .await
            .unwrap();
        store.partition_states(&[Partition(0)]).await.pop().unwrap().unwrap();
        store
    }
}

fn version(answer: Result<Mutated, HotError>) -> Version {
    applied(answer).version
}

fn applied(answer: Result<Mutated, HotError>) -> Applied {
    match answer.unwrap() {
        Mutated::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_write_of_the_fields_of_an_unlanded_one_needs_no_script_and_leaves_the_same_behind() {
    let stage = Stage::new().await;
    let first = stage.apply("ann", "1").await;
    assert!(!stage.went_direct().await);
    let second = stage.apply("ann", "2").await;
    assert!(stage.went_direct().await);
    assert!(second > first);
    let read = read(&stage.store, &owner("ann")).await;
    let header = read.header.unwrap();
    assert_eq!((header.version, header.marks), (second, Some(1)));
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
    let observed = stage.store.observe(&[owner("ann")]).await.pop().unwrap().unwrap();
    assert_eq!(observed.marker, Marker::At(Version::new(second.get() - 1).unwrap()));
    let marks = stage.store.scan(Partition(0), Map::Dirty, 0, 10).await.unwrap().entries;
    assert_eq!(marks.iter().map(|entry| entry.version).collect::<Vec<_>>(), [first], "it is still there");
    assert_eq!(drain(&stage.store).await, 1);
}

#[tokio::test]
async fn what_another_wrote_meanwhile_is_not_written_over_with_an_older_version() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    let other = stage.other().await;
    let between = apply(&other, &owner("ann"), &[("gold", set("3"))]).await.version;
    let removed = apply(&other, &owner("ann"), &[("bag", set("full"))]).await.version;
    stage.let_go();
    let last = version(held.await.unwrap());
    assert!(between < removed && removed < last);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
    assert_eq!(read(&stage.store, &owner("ann")).await.header.unwrap().marks, Some(2));
    assert_eq!(drain(&stage.store).await, 2);
}

#[tokio::test]
async fn a_counter_and_a_removal_end_what_was_granted() {
    let stage = Stage::new().await;
    let other = stage.other().await;
    for (at, change) in [Change::Incr(1), Change::Remove].into_iter().enumerate() {
        let id = format!("owner {at}");
        apply_new(&stage.store, &owner(&id), &[("gold", set("1"))]).await;
        stage.apply(&id, "1").await;
        let held = stage.held(&id, "2").await;
        let between = apply(&other, &owner(&id), &[("gold", change)]).await.version;
        stage.let_go();
        assert!(version(held.await.unwrap()) > between);
        let read = read(&stage.store, &owner(&id)).await;
        assert_eq!(read.cells.len(), 1, "no tombstone beside the value");
        assert_eq!(value(&stage.store, &owner(&id), "gold").await.as_deref(), Some("2"));
    }
}

#[tokio::test]
async fn a_hash_that_a_fill_made_complete_meanwhile_stays_complete() {
    let stage = Stage::new().await;
    let ann = owner("ann");
    let first = stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    let other = stage.other().await;
    let observed = other.observe(std::slice::from_ref(&ann)).await.pop().unwrap().unwrap();
    let rows = vec![(field("bag"), Cell::Live(Bytes::from_static(b"full")), Version::new(first.get() - 2).unwrap())];
    let load = Load { owner: ann.clone(), observed, rows, complete: true };
    assert!(matches!(other.fill(&[load]).await.pop().unwrap().unwrap(), Filled::Accepted(_)));
    stage.let_go();
    version(held.await.unwrap());
    assert!(read(&stage.store, &ann).await.header.unwrap().complete);
    assert_eq!(value(&stage.store, &ann, "bag").await.as_deref(), Some("full"));
}

#[tokio::test]
async fn a_snapshot_taken_meanwhile_leaves_no_write_without_its_mark() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    assert_eq!(drain(&stage.other().await).await, 1);
    stage.let_go();
    version(held.await.unwrap());
    let header = read(&stage.store, &owner("ann")).await.header.unwrap();
    assert_eq!(header.marks, Some(1));
    let left = stage.server.call(&["PTTL", "my game-data:{0}:game:eu:player:ann"]).await.unwrap();
    assert!(matches!(left, storage_servers::Reply::Integer(-1)), "{left:?}");
    assert_eq!(drain(&stage.store).await, 1);
}

#[tokio::test]
async fn an_adoption_meanwhile_has_the_write_refused() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    adopt_all(&stage.other().await, 2).await;
    stage.let_go();
    let answer = held.await.unwrap().unwrap();
    assert!(matches!(answer, Mutated::Refused(Refusal::Moved { epoch: Epoch(2), .. })), "{answer:?}");
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_writer_whose_key_has_run_out_writes_with_a_script() {
    let stage = Stage::with_lease(Duration::from_secs(2)).await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    until(async || texts(stage.server.call(&["KEYS", "my game-writer:*"]).await.unwrap()).is_empty()).await;
    stage.let_go();
    version(held.await.unwrap());
    assert!(!stage.went_direct().await, "the script followed");
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_write_that_comes_after_its_deadline_is_refused() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let soon = stage.store.time().await.unwrap().plus(Duration::from_secs(2));
    let write = Mutation { deadline: soon, ..stage.write("ann", "2").await };
    let held = stage.held_write(write).await;
    until(async || stage.other().await.time().await.unwrap() > soon).await;
    stage.let_go();
    let answer = held.await.unwrap().unwrap();
    assert!(matches!(answer, Mutated::Refused(Refusal::Expired)), "{answer:?}");
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("1"));
}

/// What is known of the key's end is of the key that there is now.
#[tokio::test]
async fn a_write_that_comes_after_its_deadline_is_refused_though_its_writers_key_was_made_anew() {
    let stage = Stage::with_lease(Duration::from_secs(2)).await;
    stage.apply("ann", "1").await;
    let other = stage.other().await;
    let renewed = other.time().await.unwrap();
    let passed = async |millis| until(async || other.time().await.unwrap() > renewed.plus(Duration::from_millis(millis))).await;
    passed(350).await;
    let [writer] = <[String; 1]>::try_from(texts(stage.server.call(&["KEYS", "my game-writer:*"]).await.unwrap())).unwrap();
    stage.server.call(&["DEL", &writer]).await.unwrap();
    stage.apply("ann", "2").await;
    // Later than the end of the key that was deleted, and earlier than that of the new one.
    let write = Mutation { deadline: renewed.plus(Duration::from_millis(2_100)), ..stage.write("ann", "3").await };
    let held = stage.held_write(write).await;
    passed(2_100).await;
    stage.let_go();
    let answer = held.await.unwrap().unwrap();
    assert!(matches!(answer, Mutated::Refused(Refusal::Expired)), "{answer:?}");
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
}

async fn until(holds: impl AsyncFn() -> bool) {
    let held = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), held).await.unwrap();
}

#[tokio::test]
async fn a_server_that_forgot_all_meanwhile_takes_nothing() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    stage.server.call(&["FLUSHALL"]).await.unwrap();
    stage.let_go();
    let error = held.await.unwrap().unwrap_err();
    assert!(matches!(error.kind, HotKind::Unprepared(_)), "{error:?}");
    assert!(texts(stage.server.call(&["KEYS", "my game-data:*"]).await.unwrap()).is_empty());
}

#[tokio::test]
async fn a_copy_that_comes_after_its_repeat_is_not_applied() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let write = stage.write("ann", "2").await;
    let held = stage.held_write(write.clone()).await;
    let other = stage.other().await;
    let repeat = version(send(&other, Mutation { known: Known::Sent, ..write }).await);
    let later = apply(&other, &owner("ann"), &[("gold", set("3"))]).await.version;
    stage.let_go();
    assert_eq!(version(held.await.unwrap()), repeat);
    let read = read(&stage.store, &owner("ann")).await;
    assert_eq!(read.header.unwrap().version, later);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn writes_of_one_owner_keep_their_order_whichever_way_they_go() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    let mut tasks = Vec::new();
    for number in 3..40 {
        let name = if number % 5 == 0 { "bag" } else { "gold" };
        let write = mutation(&stage.store, &owner("ann"), &[(name, set(&number.to_string()))]).await;
        let (store, write) = (stage.store.clone(), write.sent_in(Epoch(1)).known_to(Known::Caller));
        tasks.push(tokio::spawn(async move { send(&store, write).await }));
        tokio::task::yield_now().await;
    }
    stage.let_go();
    version(held.await.unwrap());
    let mut last = Version::ZERO;
    for task in tasks {
        let version = version(task.await.unwrap());
        assert!(version > last, "{version} after {last}");
        last = version;
    }
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("39"));
    assert_eq!(value(&stage.store, &owner("ann"), "bag").await.as_deref(), Some("35"));
    assert_eq!(read(&stage.store, &owner("ann")).await.header.unwrap().marks, Some(2));
    assert_eq!(drain(&stage.store).await, 2);
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_others_a_way() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    let held = stage.held("ann", "2").await;
    let waiting = {
        let (store, write) = (stage.store.clone(), stage.write("ann", "3").await);
        tokio::spawn(async move { send(&store, write).await })
    };
    tokio::task::yield_now().await;
    held.abort();
    stage.watch.closed.store(false, Ordering::SeqCst);
    version(waiting.await.unwrap());
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
    stage.apply("ann", "4").await;
    stage.apply("ann", "5").await;
    assert_eq!(drain(&stage.store).await, 1);
}

/// The names of a partition's writers go with its record, and no adoption tells them any more.
#[tokio::test]
async fn a_write_of_a_partition_whose_record_was_deleted_is_not_acknowledged() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    stage.server.call(&["DEL", "my game-part:{0}"]).await.unwrap();
    stage.went_direct().await;
    let error = send(&stage.store, stage.write("ann", "2").await).await.unwrap_err();
    assert!(stage.went_direct().await && error.outcome == Outcome::Unknown, "{error:?}");
    adopt_all(&stage.other().await, 2).await;
    let answer = send(&stage.store, stage.write("ann", "3").await).await.unwrap();
    assert!(matches!(answer, Mutated::Refused(Refusal::Moved { epoch: Epoch(2), .. })), "{answer:?}");
}

#[tokio::test]
async fn a_write_whose_round_was_not_remembered_is_not_acknowledged() {
    let stage = Stage::new().await;
    stage.apply("ann", "1").await;
    for parity in 0..2 {
        stage.server.call(&["SET", &format!("my game-ops:{{0}}:{parity}"), "spoilt"]).await.unwrap();
    }
    stage.went_direct().await;
    let error = send(&stage.store, stage.write("ann", "2").await).await.unwrap_err();
    assert!(stage.went_direct().await && error.outcome == Outcome::Unknown, "{error:?}");
}
