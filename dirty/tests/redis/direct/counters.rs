//! Counters and conditions without a script.

use super::*;

impl Stage {
    /// The first copy of a write that adds to one field.
    async fn add(&self, id: &str, step: i64) -> Mutation {
        let write = mutation(&self.store, &owner(id), &[("gold", Change::Incr(step))]).await;
        write.sent_in(Epoch(1)).known_to(Known::Caller)
    }

    /// Adds, and answers what the counter came to.
    async fn added(&self, id: &str, step: i64) -> i64 {
        let write = self.add(id, step).await;
        sum(send(&self.store, write).await)
    }

    /// A counter of which the writer knows what it holds.
    async fn counter(&self, id: &str, value: i64) {
        self.apply(id, "0").await;
        assert_eq!(self.added(id, value).await, value);
        self.went_direct().await;
    }
}

fn sum(answer: Result<Mutated, HotError>) -> i64 {
    match answer.unwrap() {
        Mutated::Applied(applied) => *applied.counters.first().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_counter_that_was_added_to_needs_no_script_and_its_repeat_gets_its_sum() {
    let stage = Stage::new().await;
    stage.counter("ann", 5).await;
    let first = stage.add("ann", -7).await;
    let applied = send(&stage.store, first.clone()).await.unwrap();
    assert!(stage.went_direct().await);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("-2"));
    let Mutated::Applied(told) = &applied else { panic!("{applied:?}") };
    assert_eq!((told.changed, told.counters.as_slice()), (1, [-2].as_slice()));
    assert_eq!(read(&stage.store, &owner("ann")).await.header.unwrap().version, told.version);
    assert_eq!(send(&stage.store, Mutation { known: Known::Sent, ..first }).await.unwrap(), applied);
    // Set without a script, and added to with one, since nobody looked whether it is a number.
    stage.counter("bob", 1).await;
    stage.apply("bob", "10").await;
    assert!(stage.went_direct().await);
    assert_eq!(stage.added("bob", 1).await, 11);
    assert!(!stage.went_direct().await);
    assert_eq!(stage.added("bob", 1).await, 12);
    assert!(stage.went_direct().await);
    assert_eq!(drain(&stage.store).await, 2);
}

#[tokio::test]
async fn what_another_added_meanwhile_is_added_to() {
    let stage = Stage::new().await;
    stage.counter("ann", 5).await;
    let write = stage.add("ann", 1).await;
    let held = stage.held_write(write).await;
    let other = stage.other().await;
    assert_eq!(sum(send(&other, mutation(&other, &owner("ann"), &[("gold", Change::Incr(10))]).await).await), 15);
    stage.let_go();
    assert_eq!(sum(held.await.unwrap()), 16);
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("16"));
}

#[tokio::test]
async fn counters_added_to_at_once_are_exact_to_the_last_bit_and_none_overflows() {
    let stage = Stage::new().await;
    let top = i64::MAX - 20;
    stage.counter("ann", top).await;
    // Too large for the script that was asked first, which tells nothing of what the counter holds.
    assert_eq!(stage.added("ann", 1).await, top + 1);
    stage.counter("bob", 999_999_999_999_990).await;
    let tasks: Vec<_> = futures::future::join_all((0..20).map(|_| stage.add("bob", 1))).await;
    let mut sums: Vec<i64> =
        futures::future::join_all(tasks.into_iter().map(|write| send(&stage.store, write))).await.into_iter().map(sum).collect();
    sums.sort_unstable();
    assert!(sums.into_iter().eq(999_999_999_999_991..=1_000_000_000_000_010));
    assert!(stage.went_direct().await, "sums of 16 digits too");
    let step = i64::MAX - 1_000_000_000_000_010;
    assert_eq!(stage.added("bob", step).await, i64::MAX);
    let write = stage.add("bob", 1).await;
    let refused = send(&stage.store, write).await.unwrap();
    assert_eq!(refused, Mutated::Refused(Refusal::Overflow(field("gold"))));
    assert_eq!(value(&stage.store, &owner("bob"), "gold").await, Some(i64::MAX.to_string()));
}

#[tokio::test]
async fn a_condition_on_the_version_needs_no_script_and_is_looked_at() {
    let stage = Stage::new().await;
    let first = stage.apply("ann", "1").await;
    assert!(!stage.went_direct().await);
    let wanted = async |version: Version, value: &str| stage.write("ann", value).await.when(Condition::Version(version));
    let write = wanted(first, "2").await;
    let second = version(send(&stage.store, write).await);
    assert!(stage.went_direct().await);
    let late = wanted(first, "3").await;
    assert_eq!(send(&stage.store, late).await.unwrap(), Mutated::Refused(Refusal::Version(second)));
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_condition_that_held_when_the_write_was_sent_is_looked_at_when_it_comes() {
    let stage = Stage::new().await;
    let first = stage.apply("ann", "1").await;
    let write = stage.write("ann", "2").await.when(Condition::Version(first));
    let held = stage.held_write(write).await;
    let between = apply(&stage.other().await, &owner("ann"), &[("gold", set("3"))]).await.version;
    stage.let_go();
    assert_eq!(held.await.unwrap().unwrap(), Mutated::Refused(Refusal::Version(between)));
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("3"));
}
