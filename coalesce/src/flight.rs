//! Single flight: work that is done once for all callers that ask for it while it is under way.
//!
//! The work runs in a task of its own. If a caller did it, alone or in turn under a lock, the work
//! would stand still as soon as that caller's future is not polled. That happens beside the running
//! branch of a `select!`. If that branch needs the same work, both stand still forever.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

// Not `watch`, which wakes waiting tasks in random order. Then no schedule could be replayed.
use tokio::sync::broadcast;
use tokio::time::timeout;

use super::locked;

/// The sender to the waiting callers, while work is under way.
type UnderWay<T> = Arc<Mutex<Option<broadcast::Sender<T>>>>;

/// Work that is under way, or none.
pub struct SingleFlight<T>(UnderWay<T>);

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// The work's own end. If it is dropped without an answer, no caller waits any longer.
struct Answer<T> {
    under_way: UnderWay<T>,
    tell: broadcast::Sender<T>,
}

impl<T> Answer<T> {
    fn give(self, found: T) {
        self.end();
        // All callers may have gone away.
        let _ = self.tell.send(found);
    }

    /// Makes way for the next work. A later flight is left alone.
    fn end(&self) {
        locked(&self.under_way).take_if(|tell| tell.same_channel(&self.tell));
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<T: Clone + Send + 'static> SingleFlight<T> {
    /// The result of the work under way, or of the work that `begin` begins now. `None` if the work
    /// panics, if its runtime ends, or after the limit. In the last case the runtime stands still,
    /// for example because it was left without being dropped. Then the next caller begins the work
    /// again.
    pub async fn join<W>(&self, limit: Duration, begin: impl FnOnce() -> W) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut found = self.under_way(begin);
        if let Ok(found) = timeout(limit, found.recv()).await {
            return found.ok();
        }
        // Not a later flight, which other callers wait for.
        drop(locked(&self.0).take_if(|tell| tell.subscribe().same_channel(&found)));
        None
    }

    fn under_way<W>(&self, begin: impl FnOnce() -> W) -> broadcast::Receiver<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut under_way = locked(&self.0);
        if let Some(tell) = under_way.as_ref() {
            return tell.subscribe();
        }
        let (tell, found) = broadcast::channel(1);
        *under_way = Some(tell.clone());
        // ORDER: the lock is released before the task begins. A runtime that ends drops the task at
        // once, and the drop takes the lock.
        drop(under_way);
        let (work, answer) = (
            begin(),
            Answer {
                under_way: Arc::clone(&self.0),
                tell,
            },
        );
        tokio::spawn(async move { answer.give(work.await) });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;
    use futures::future::join;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Semaphore;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn work_is_done_once_for_all_who_ask_meanwhile_and_anew_for_who_asks_later() {
        let (flight, done, may_end) = (
            SingleFlight::default(),
            Arc::new(AtomicU32::new(0)),
            Arc::new(Semaphore::new(0)),
        );
        let work = || {
            let (done, may_end) = (Arc::clone(&done), Arc::clone(&may_end));
            async move {
                may_end.acquire().await.unwrap().forget();
                done.fetch_add(1, Ordering::Relaxed)
            }
        };
        let mut first = Box::pin(flight.join(LONG, work));
        assert!(first.as_mut().now_or_never().is_none());
        let second = flight.join(LONG, work);
        may_end.add_permits(1);
        // The first is not polled meanwhile.
        assert_eq!(second.await, Some(0));
        assert_eq!(first.await, Some(0));
        may_end.add_permits(1);
        assert_eq!(flight.join(LONG, work).await, Some(1));
    }

    #[tokio::test]
    async fn work_that_panics_is_begun_anew() {
        let flight = SingleFlight::default();
        let panics = || async { "on purpose".parse::<u32>().unwrap() };
        assert_eq!(
            join(flight.join(LONG, panics), flight.join(LONG, panics)).await,
            (None, None)
        );
        assert_eq!(flight.join(LONG, || async { 2 }).await, Some(2));
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn work_in_a_runtime_that_stands_still_is_begun_anew_in_another() {
        let (stands_still, goes_on) = (runtime(), runtime());
        let (flight, may_end) = (SingleFlight::default(), Arc::new(Semaphore::new(0)));
        let held = || {
            let may_end = Arc::clone(&may_end);
            async move {
                may_end.acquire().await.unwrap().forget();
                1
            }
        };
        // It is begun, and then its runtime is not driven any more.
        stands_still.block_on(async { assert!(flight.join(LONG, held).now_or_never().is_none()) });
        let mut later = Box::pin(flight.join(LONG, std::future::pending));
        goes_on.block_on(async {
            let waits = flight.join(Duration::from_millis(1), || async { 1 });
            assert_eq!(waits.await, None);
            assert!(later.as_mut().now_or_never().is_none());
        });
        may_end.add_permits(1);
        stands_still.block_on(tokio::task::yield_now());
        assert_eq!(may_end.available_permits(), 0, "the first work has ended");
        assert!(locked(&flight.0).is_some(), "the later flight goes on");
        goes_on.block_on(async { assert!(later.as_mut().now_or_never().is_none()) });
    }

    #[test]
    fn work_whose_runtime_ends_is_given_up_and_begun_anew() {
        let (ends, goes_on) = (runtime(), runtime());
        let flight = SingleFlight::default();
        let begun = flight.join(LONG, std::future::pending::<u32>);
        ends.block_on(async { assert!(begun.now_or_never().is_none()) });
        goes_on.block_on(async {
            let mut waits = Box::pin(flight.join(LONG, || async { 1 }));
            assert!(waits.as_mut().now_or_never().is_none());
            ends.shutdown_background();
            assert_eq!(waits.await, None);
            assert_eq!(flight.join(LONG, || async { 2 }).await, Some(2));
        });
    }
}
