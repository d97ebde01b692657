//! Numbered calls (R11). A write is applied at most once even if its call is lost, doubled or held
//! up. Its caller gets the true result.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_model::*;
use storage_servers::RedisServer;

use crate::support::*;

/// Loses the answer to a script, has the next call sent twice, or lets only a number of further
/// pipelines through.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) loses: Mutex<Option<&'static str>>,
    pub(crate) doubles: AtomicBool,
    closed_after: AtomicU32,
}

#[async_trait]
impl Intercept for Weather {
    async fn before(&self, _: &[&'static str]) -> Result<(), Broken> {
        let less = |left: u32| {
            if left == u32::MAX {
                Some(left)
            } else {
                left.checked_sub(1)
            }
        };
        self.closed_after
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .map_or(Err(Broken), |_| Ok(()))
    }

    async fn after(&self, commands: &[&'static str]) -> Result<(), Broken> {
        let lost = self
            .loses
            .lock()
            .unwrap()
            .take_if(|script| commands.contains(script));
        lost.map_or(Ok(()), |_| Err(Broken))
    }

    async fn again(&self, commands: &[&'static str]) -> bool {
        let is_call = commands.contains(&"update") || commands.contains(&"transact");
        is_call && self.doubles.swap(false, Ordering::SeqCst)
    }
}

/// A store of one partition, behind a bad link.
pub(crate) struct Place {
    pub(crate) server: RedisServer,
    pub(crate) store: RedisStore,
    pub(crate) weather: Arc<Weather>,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let closed_after = AtomicU32::new(u32::MAX);
        let weather = Arc::new(Weather {
            loses: Mutex::default(),
            doubles: AtomicBool::default(),
            closed_after,
        });
        let intercept: Arc<dyn Intercept> = weather.clone();
        let store = prepared_through(
            settings(&server.url()).with(|redis| {
                redis.partitions = 1;
                redis.connections = 1;
            }),
            Hooks::intercept(intercept),
        )
        .await;
        Self {
            server,
            store,
            weather,
        }
    }

    async fn mutation(&self, changes: &[(&str, Change)]) -> Mutation {
        mutation(&self.store, &owner("ann"), changes).await
    }

    /// Sends a write through this script and loses the answer. Returns the repeat of the
    /// write.
    pub(crate) async fn lost(&self, script: &'static str, write: Mutation) -> Mutation {
        *self.weather.loses.lock().unwrap() = Some(script);
        let error = send(&self.store, write.clone()).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown, "{error}");
        write.as_attempt(Attempt::Retry)
    }

    /// Sends a write of the owner and makes the network hold its call up, as far as the server
    /// knows. For that, gold and the last call are put back to the state before the call. Returns
    /// the write as it is repeated, and the call's number.
    async fn held_up(&self, write: Mutation) -> (Mutation, u64) {
        let gold = self.gold().await;
        let retry = self.lost("update", write).await;
        let [(_, text)] = self.last_calls().await.try_into().unwrap();
        let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
        self.set_last_call(&format!("{} ", number - 1)).await;
        self.server
            .call(&["HSET", "slug-data:{0}:game:eu:player:ann", "gold", &gold])
            .await
            .unwrap();
        (retry, number)
    }

    /// The record's last calls: field and text.
    pub(crate) async fn last_calls(&self) -> Vec<(String, String)> {
        let record = texts(
            self.server
                .call(&["HGETALL", "slug-part:{0}"])
                .await
                .unwrap(),
        );
        let pairs = record
            .as_chunks::<2>()
            .0
            .iter()
            .filter(|[field, _]| field.starts_with("w:"));
        pairs
            .map(|[field, text]| (field.clone(), text.clone()))
            .collect()
    }

    async fn set_last_call(&self, text: &str) {
        let [(field, _)] = self.last_calls().await.try_into().unwrap();
        self.server
            .call(&["HSET", "slug-part:{0}", &field, text])
            .await
            .unwrap();
    }

    async fn gold(&self) -> String {
        value(&self.store, &owner("ann"), "gold").await.unwrap()
    }
}

fn incr() -> [(&'static str, Change); 1] {
    [("gold", Change::Incr(1))]
}

#[tokio::test]
async fn a_lost_call_that_was_carried_out_is_not_carried_out_again() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let retry = place.lost("update", place.mutation(&incr()).await).await;
    // Other writes come in between, so the call is not the last one any more.
    apply(&place.store, &owner("bo"), &[("gold", set("1"))]).await;
    let Mutated::Applied(applied) = send(&place.store, retry).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (applied.counters, place.gold().await),
        (vec![1], "1".to_owned())
    );
}

/// The server is in the state of a call that the network holds up.
#[tokio::test]
async fn a_lost_call_that_was_not_carried_out_is_void_and_its_writes_go_in_another() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let last = apply(&place.store, &owner("ann"), &incr()).await;
    let retry = place
        .lost("update", place.mutation(&[("gold", set("7"))]).await)
        .await;
    // Puts the server back to the state before the call.
    let [(_, text)] = place.last_calls().await.try_into().unwrap();
    let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
    place
        .server
        .call(&["HSET", "slug-data:{0}:game:eu:player:ann", "gold", "1"])
        .await
        .unwrap();
    place
        .set_last_call(&format!("{} {}", number - 1, last.version))
        .await;
    let Mutated::Applied(applied) = send(&place.store, retry.clone()).await.unwrap() else {
        panic!()
    };
    assert!(applied.version > last.version);
    assert_eq!(place.gold().await, "7");
    let [(_, text)] = place.last_calls().await.try_into().unwrap();
    assert_eq!(
        text,
        format!("{} {}", number + 1, applied.version),
        "the lost call's number is used up"
    );
    // The server has forgotten the call. A repeat fails with an error that says so, and nothing is
    // applied.
    let error = send(&place.store, retry).await.unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Interrupted, Outcome::Unknown)
    );
    assert_eq!(place.last_calls().await.remove(0).1, text);
}

/// Otherwise it could never be sent, although it is known that it was not applied.
#[tokio::test]
async fn a_write_of_a_void_call_is_sent_again_however_often_that_fails() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let (retry, _) = place.held_up(place.mutation(&incr()).await).await;
    // The call is ended, and then no further one can be sent.
    place.weather.closed_after.store(1, Ordering::SeqCst);
    for _ in 0..3 {
        let error = send(&place.store, retry.clone()).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::NotApplied, "{error}");
    }
    place.weather.closed_after.store(u32::MAX, Ordering::SeqCst);
    assert!(matches!(
        send(&place.store, retry).await,
        Ok(Mutated::Applied(_))
    ));
    assert_eq!(place.gold().await, "1");
}

#[tokio::test]
async fn a_call_that_comes_after_its_end_changes_nothing_and_its_writes_go_in_another() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    apply(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let [(_, text)] = place.last_calls().await.try_into().unwrap();
    let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
    place.set_last_call(&format!("{} void", number + 1)).await;
    let write = place.mutation(&incr()).await;
    let error = send(&place.store, write.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Interrupted, Outcome::Unknown)
    );
    assert_eq!(place.gold().await, "0");
    assert!(matches!(
        send(&place.store, write.as_attempt(Attempt::Retry)).await,
        Ok(Mutated::Applied(_))
    ));
    assert_eq!(place.gold().await, "1");
}

/// A proxy may repeat a request.
#[tokio::test]
async fn a_call_that_is_doubled_on_its_way_is_carried_out_once() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    for round in 1..=3 {
        place.weather.doubles.store(true, Ordering::SeqCst);
        let Mutated::Applied(applied) = mutate(&place.store, &owner("ann"), &incr()).await.unwrap()
        else {
            panic!()
        };
        assert_eq!(applied.counters, [round]);
        assert!(!place.weather.doubles.load(Ordering::SeqCst));
    }
    assert_eq!(place.gold().await, "3");
}

/// Otherwise a copy that comes between the end and the next call would be carried out.
#[tokio::test]
async fn the_end_of_a_call_leaves_its_trace_before_the_next_call_is_made() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let (retry, number) = place.held_up(place.mutation(&incr()).await).await;
    *place.weather.loses.lock().unwrap() = Some("end_call");
    send(&place.store, retry).await.unwrap_err();
    let [(_, text)] = place.last_calls().await.try_into().unwrap();
    assert_eq!(text, format!("{number} void"));
}

/// The cause of the refusal may be gone when a copy comes.
#[tokio::test]
async fn a_refusal_is_remembered_with_its_call() {
    let place = Place::new().await;
    let first = apply_new(&place.store, &owner("ann"), &[("gold", set("0"))])
        .await
        .version;
    let second = apply(&place.store, &owner("ann"), &[("gold", set("1"))])
        .await
        .version;
    let stale = place
        .mutation(&[("gold", set("2"))])
        .await
        .when(Condition::Version(first));
    let retry = place.lost("update", stale).await;
    let [(_, text)] = place.last_calls().await.try_into().unwrap();
    assert!(text.ends_with(&format!(" version {second}")), "{text}");
    let answer = send(&place.store, retry).await.unwrap();
    assert_eq!(answer, Mutated::Refused(Refusal::Version(second)));
}

/// Two stores of one process have two names, and a store that is opened again has a new one.
#[tokio::test]
async fn no_two_stores_have_one_name() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    apply(&place.store, &owner("ann"), &incr()).await;
    for _ in 0..2 {
        let other = open_redis(settings(&place.server.url()).with(|redis| redis.partitions = 1))
            .await
            .unwrap();
        apply(&other, &owner("ann"), &incr()).await;
    }
    assert_eq!(
        (place.last_calls().await.len(), place.gold().await.as_str()),
        (3, "3")
    );
}

#[tokio::test]
async fn a_write_that_was_sent_apart_is_repeated_under_its_id() {
    let place = Place::new().await;
    // A sum with more digits than `update.lua` adds.
    apply_new(
        &place.store,
        &owner("ann"),
        &[("gold", set("9007199254740993"))],
    )
    .await;
    let retry = place.lost("mutate", place.mutation(&incr()).await).await;
    let Mutated::Applied(applied) = send(&place.store, retry).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (applied.counters, place.gold().await.as_str()),
        (vec![9_007_199_254_740_994], "9007199254740994")
    );
}

#[tokio::test]
async fn calls_of_stores_that_are_gone_are_forgotten_and_no_others() {
    let place = Place::new().await;
    apply_new(&place.store, &owner("ann"), &[("gold", set("0"))]).await;
    let open = || open_redis(settings(&place.server.url()).with(|redis| redis.partitions = 1));
    let (gone, quiet) = (open().await.unwrap(), open().await.unwrap());
    for store in [&gone, &quiet] {
        apply(store, &owner("ann"), &incr()).await;
    }
    for minute in 0..=2 {
        // The store that lives makes a call now and then.
        apply(&place.store, &owner("ann"), &incr()).await;
        if minute == 2 {
            // Its first call since it was last seen.
            apply(&quiet, &owner("ann"), &incr()).await;
        }
        place.store.forget_calls(&[Partition(0)]).await.unwrap();
        assert_eq!(
            place.last_calls().await.len(),
            if minute < 2 { 3 } else { 2 },
            "after {minute} minutes"
        );
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
    }
    apply(&gone, &owner("ann"), &incr()).await;
    assert_eq!(
        place.gold().await,
        "7",
        "a store that was taken for gone goes on"
    );
}
