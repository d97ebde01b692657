//! Callers that go away, work that panics, and runtimes that end.

use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot::error::TryRecvError;

use super::*;

type Doubles = Coalescer<&'static str, u32, u32>;
type Batch = Vec<Group<&'static str, u32, u32>>;

const NOT_YET: Result<u32, TryRecvError> = Err(TryRecvError::Empty);
const NEVER: Result<u32, TryRecvError> = Err(TryRecvError::Closed);

/// Answers each caller with the double of its input.
fn double(batch: Batch) -> impl Future<Output = ()> {
    for group in batch {
        let doubles: Vec<u32> = group.inputs().map(|input| input * 2).collect();
        group.answer(doubles);
    }
    ready(())
}

fn inputs(batch: &Batch) -> Vec<u32> {
    batch.iter().flat_map(Group::inputs).copied().collect()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

#[test]
fn callers_join_the_group_of_their_key_that_has_not_begun() {
    let doubles = Doubles::new(1, 1);
    let (mut one, carrier) = doubles.join("a", 1);
    let (mut two, joined) = doubles.join("a", 2);
    assert!(carrier.is_some() && joined.is_none());
    let begun = doubles.0.take();
    let (mut late, later) = doubles.join("a", 3);
    let (mut other, others) = doubles.join("b", 4);
    assert!(later.is_none() && others.is_some());
    assert_eq!(inputs(&begun), [1, 2]);
    let beside = doubles.0.take();
    assert_eq!(inputs(&beside), [4], "a key has one group under way");
    assert!(doubles.0.take().is_empty());
    assert_eq!(double(begun).now_or_never(), Some(()));
    assert_eq!((one.try_recv(), two.try_recv()), (Ok(2), Ok(4)));
    assert_eq!((late.try_recv(), other.try_recv()), (NOT_YET, NOT_YET));
    let next = doubles.0.take();
    assert_eq!(inputs(&next), [3]);
    next.into_iter().for_each(|group| group.answer_all(7));
    assert_eq!(late.try_recv(), Ok(7));
    drop(beside);
    assert_eq!(other.try_recv(), NEVER);
    assert!(
        locked(&doubles.0.state).waiting.is_empty(),
        "nothing is left behind"
    );
}

#[test]
fn a_batch_has_as_many_keys_and_a_group_as_much_weight_as_fit() {
    let doubles = Doubles::of_weight(1, 2, 10, |input| usize::try_from(*input).unwrap());
    let joined: Vec<_> = [("a", 6), ("b", 99), ("a", 4), ("a", 1), ("c", 1), ("b", 1)]
        .map(|(key, input)| doubles.join(key, input))
        .into();
    let first = doubles.0.take();
    assert_eq!(inputs(&first), [6, 4, 99]);
    drop(first);
    assert_eq!(inputs(&doubles.0.take()), [1, 1], "of c, and the rest of a");
    assert_eq!(inputs(&doubles.0.take()), [1], "the rest of b");
    drop(joined);
}

#[test]
fn the_work_of_a_caller_that_goes_away_is_done() {
    let doubles = Doubles::new(1, 9);
    let (gone, _carrier) = doubles.join("a", 1);
    drop(gone);
    let batch = doubles.0.take();
    assert_eq!(inputs(&batch), [1]);
    assert_eq!(double(batch).now_or_never(), Some(()));
}

#[test]
fn a_caller_that_goes_away_is_left_out_where_only_wanted_work_is_done() {
    let doubles = Doubles::of_wanted(1, 9);
    let (gone, _carrier) = doubles.join("a", 1);
    let (mut stays, _) = doubles.join("a", 2);
    let (alone, _) = doubles.join("b", 3);
    drop((gone, alone));
    let batch = doubles.0.take();
    assert_eq!(inputs(&batch), [2]);
    assert_eq!(double(batch).now_or_never(), Some(()));
    assert_eq!(stays.try_recv(), Ok(4));
    assert!(doubles.join("b", 3).1.is_some());
}

#[test]
fn work_that_panics_fails_its_own_callers_and_other_carriers_go_on() {
    let doubles = Doubles::new(1, 1);
    let (mut one, carrier) = doubles.join_with_carrier("a", 1);
    let (mut two, other) = doubles.join_with_carrier("b", 2);
    let panics = |batch: Batch| async move {
        let _under_way = batch;
        "on purpose".parse::<u32>().unwrap();
    };
    let carried = AssertUnwindSafe(|| carrier.carry(panics).now_or_never());
    assert!(catch_unwind(carried).is_err());
    assert_eq!((one.try_recv(), two.try_recv()), (NEVER, NOT_YET));
    assert_eq!(other.carry(double).now_or_never(), Some(()));
    assert_eq!(two.try_recv(), Ok(4));
}

#[test]
fn a_carrier_waits_for_its_turn_and_takes_all_that_came_meanwhile() {
    let doubles = Doubles::new(1, 1);
    let (_held, carrier) = doubles.join_with_carrier("a", 1);
    let mut holds = Box::pin(carrier.carry(|batch| pending().map(move |()| drop(batch))));
    assert!(holds.as_mut().now_or_never().is_none());
    let (mut two, other) = doubles.join_with_carrier("b", 2);
    let mut waits = Box::pin(other.carry(double));
    assert!(waits.as_mut().now_or_never().is_none());
    let (mut three, _) = doubles.join("c", 3);
    drop(holds);
    assert_eq!(waits.now_or_never(), Some(()));
    assert_eq!((two.try_recv(), three.try_recv()), (Ok(4), Ok(6)));
}

#[test]
fn who_waits_for_a_runtime_that_ends_is_told_so_unless_another_carrier_is_left() {
    let doubles = Doubles::new(1, 1);
    for another in [false, true] {
        let (ends, goes_on) = (runtime(), runtime());
        let (mut under_way, carrier) = doubles.join_with_carrier("a", 1);
        ends.spawn(carrier.carry(|batch| pending().map(move |()| drop(batch))));
        ends.block_on(tokio::task::yield_now());
        let (mut waits, other) = doubles.join_with_carrier("a", 2);
        let other = Some(other).filter(|_| another);
        let task = other.map(|carrier| goes_on.spawn(carrier.carry(double)));
        drop(ends);
        assert_eq!(under_way.try_recv(), NEVER);
        let answered = goes_on.block_on(async { (&mut waits).now_or_never() });
        assert_eq!(answered.is_none(), another, "{answered:?}");
        if task.is_some() {
            assert_eq!(goes_on.block_on(waits), Ok(4));
        }
    }
    let (mut begun_never, carrier) = doubles.join_with_carrier("a", 1);
    let ends = runtime();
    ends.spawn(carrier.carry(double));
    drop(ends);
    assert_eq!(begun_never.try_recv(), NEVER);
}
