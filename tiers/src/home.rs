//! The runtime for work that no single call waits for: the storage's own runtime, or its opener's.
//!
//! A storage is opened once and used from anywhere. The opener may be the first of several tests,
//! whose runtime ends with it, or a program that makes a runtime for each call. Tasks end with
//! their runtime, and so do the connections that they opened.
//!
//! On the storage's own runtime the work goes on as long as anything uses the storage (H60). Time
//! there follows the real clock, even if a test has paused its own (H61).

use std::cell::Cell;
use std::future::Future;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{
    Epoch, Event, Field, HotId, Lead, Owner, Partition, Position, Row, Scope, SinkName,
};
use storage_sql::{
    Batch, ColdError, ColdKind, ColdPairing, ColdStore, EventStore, FeedEnds, Fence, Hook,
    HookStore, HotTier, HotTierStore, LandError, Loaded, Pair, Parked, PartitionRecord, PurgedPage,
    Raise, Raised, RangeStore, RowKey, RowRange, SinkStore, SweepStore,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{AbortHandle, JoinHandle};

/// The name of the thread of a storage's own runtime.
const THREAD: &str = "storage";

thread_local! {
    /// The number of the runtime that this thread belongs to. 0 for a thread of any other runtime.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Numbers of runtimes, from 1.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The runtime for work. Cheap to clone. The storage's own runtime ends with the last clone, even
/// if async code drops that clone.
#[derive(Debug, Clone, Default)]
pub struct Home(Option<Arc<Own>>);

/// A runtime, and its number, which its thread knows.
#[derive(Debug)]
struct Own {
    number: u64,
    handle: Handle,
    /// Present until the drop.
    runtime: Option<Runtime>,
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping the runtime waits for its thread. That panics in async code, and never ends
            // in the thread itself.
            runtime.shutdown_background();
        }
    }
}

/// The runtime ended before the work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the runtime that did the work has ended")]
pub struct Ended;

impl Ended {
    /// The error of an operation of the cold tier.
    pub(crate) fn of_cold(self, operation: &'static str) -> ColdError {
        ColdError {
            kind: ColdKind::Unwell,
            operation,
            message: self.to_string(),
        }
    }
}

/// Ends a task when its caller is gone.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Home {
    /// A runtime of the storage's own, on its own thread.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn own() -> std::io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(THREAD)
            .on_thread_start(move || HERE.set(number))
            .enable_all()
            .build()?;
        Ok(Self(Some(Arc::new(Own {
            number,
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        }))))
    }

    /// The caller's runtime. Nothing goes to another thread, and tasks end with that runtime.
    #[must_use]
    pub fn of_caller() -> Self {
        Self(None)
    }

    /// The storage's own runtime, if the calling thread is not part of it.
    fn elsewhere(&self) -> Option<&Handle> {
        self.0
            .as_ref()
            .filter(|own| HERE.get() != own.number)
            .map(|own| &own.handle)
    }

    /// The runtime for new tasks: the storage's own, or else the caller's.
    ///
    /// # Panics
    /// The storage has no runtime of its own, and the caller runs outside any runtime.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0
            .as_ref()
            .map_or_else(Handle::current, |own| own.handle.clone())
    }

    /// Starts a task.
    ///
    /// # Panics
    /// The storage has no runtime of its own, and the caller runs outside any runtime.
    pub fn spawn<W>(&self, work: W) -> JoinHandle<W::Output>
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        match &self.0 {
            Some(own) => own.handle.spawn(work),
            None => tokio::spawn(work),
        }
    }

    /// Starts a task. The caller may run outside any runtime, for example in a drop.
    ///
    /// # Errors
    /// The storage has no runtime of its own, and the caller runs outside any runtime. Nothing was
    /// started.
    pub fn try_spawn<W>(&self, work: W) -> Result<JoinHandle<W::Output>, Ended>
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let of_caller = Handle::try_current().map_err(|_| Ended);
        let handle = self
            .0
            .as_ref()
            .map_or(of_caller, |own| Ok(own.handle.clone()))?;
        Ok(handle.spawn(work))
    }

    /// Does some work on this runtime and waits for it. A panic of the work goes on in the caller.
    ///
    /// # Errors
    /// The runtime has ended.
    ///
    /// # Cancel safety
    /// If the call is dropped, the work ends at its next await.
    pub async fn run<W>(&self, work: W) -> Result<W::Output, Ended>
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let Some(handle) = self.elsewhere() else {
            return Ok(work.await);
        };
        let task = handle.spawn(work);
        let _abort = Abort(task.abort_handle());
        task.await.map_err(|error| {
            error
                .try_into_panic()
                .map_or(Ended, |panic| resume_unwind(panic))
        })
    }

    /// Whether the storage has a runtime of its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.is_some()
    }

    /// Does work to its end on the storage's own runtime, for a drop. The calling thread waits, unless
    /// the runtime itself calls. The caller may run inside or outside any runtime.
    pub fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(handle) = self.elsewhere().cloned() else {
            // A thread that waited here for its own runtime would wait for ever.
            drop(self.try_spawn(work));
            return;
        };
        // A thread of its own, because a thread of another runtime must not run a second one.
        let home = self.clone();
        let thread = std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                handle.block_on(work);
                drop(home);
            });
        match thread {
            Ok(thread) => drop(thread.join()),
            Err(error) => {
                tracing::error!(%error, "the system allows no thread for the last work of a storage");
            }
        }
    }

    /// Wraps a cold tier, so that all its calls run on this runtime. Connections that it opens then
    /// outlive the caller's runtime.
    #[must_use]
    pub fn cold(&self, cold: Arc<dyn ColdStore>) -> Arc<dyn ColdStore> {
        match &self.0 {
            Some(_) => Arc::new(AtHome {
                home: self.clone(),
                cold,
            }),
            None => cold,
        }
    }
}

/// A cold tier with all calls at home.
#[derive(Debug)]
struct AtHome {
    home: Home,
    cold: Arc<dyn ColdStore>,
}

impl AtHome {
    async fn call<T, W>(
        &self,
        operation: &'static str,
        call: impl FnOnce(Arc<dyn ColdStore>) -> W,
    ) -> Result<T, ColdError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, ColdError>> + Send + 'static,
    {
        let called = self.home.run(call(Arc::clone(&self.cold))).await;
        called.unwrap_or_else(|ended| Err(ended.of_cold(operation)))
    }
}

#[async_trait]
impl ColdStore for AtHome {
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError> {
        let owners = owners.to_vec();
        self.call(
            "load",
            |cold| async move { cold.load(&owners, rows_max).await },
        )
        .await
    }

    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError> {
        let (owner, fields) = (owner.clone(), fields.to_vec());
        self.call("load_fields", |cold| async move {
            cold.load_fields(&owner, &fields).await
        })
        .await
    }

    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError> {
        let owner = owner.clone();
        self.call("load_newest", |cold| async move {
            cold.load_newest(&owner).await
        })
        .await
    }

    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        let (batch, cold) = (batch.clone(), Arc::clone(&self.cold));
        let landed = self.home.run(async move { cold.land(&batch).await }).await;
        landed.unwrap_or_else(|ended| Err(ended.of_cold("land").into()))
    }

    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        let (scope, logic_type, after) = (scope.clone(), logic_type.to_owned(), after.cloned());
        self.call("owners", |cold| async move {
            cold.owners(&scope, &logic_type, after.as_ref(), limit)
                .await
        })
        .await
    }

    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        let after = after.cloned();
        self.call("all_owners", |cold| async move {
            cold.all_owners(after.as_ref(), limit).await
        })
        .await
    }

    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        let partitions = partitions.to_vec();
        self.call("partitions", |cold| async move {
            cold.partitions(&partitions).await
        })
        .await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        let raises = raises.to_vec();
        self.call("raise", |cold| async move { cold.raise(&raises).await })
            .await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.call("forgets", |cold| async move { cold.forgets().await })
            .await
    }

    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.call("pairing", |cold| async move { cold.pairing().await })
            .await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        let (seen, pair) = (seen.clone(), pair.clone());
        self.call("pair", |cold| async move { cold.pair(&seen, &pair).await })
            .await
    }

    fn value_bytes_max(&self) -> usize {
        self.cold.value_bytes_max()
    }

    async fn backup(&self, to: &Path) -> Result<(), ColdError> {
        let to = to.to_owned();
        self.call("backup", |cold| async move { cold.backup(&to).await })
            .await
    }

    async fn close(&self) {
        let cold = Arc::clone(&self.cold);
        // If the runtime has ended, its connections have ended, too.
        let _ = self.home.run(async move { cold.close().await }).await;
    }
}

#[async_trait]
impl EventStore for AtHome {
    async fn feeds(&self, partitions: &[Partition]) -> Result<Vec<FeedEnds>, ColdError> {
        let partitions = partitions.to_vec();
        self.call("feeds", |cold| async move { cold.feeds(&partitions).await })
            .await
    }

    async fn events(
        &self,
        partition: Partition,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Event>, ColdError> {
        self.call("events", move |cold| async move {
            cold.events(partition, after, limit).await
        })
        .await
    }

    async fn leads(&self, partition: Partition, before: Epoch) -> Result<Vec<Lead>, ColdError> {
        self.call("leads", move |cold| async move {
            cold.leads(partition, before).await
        })
        .await
    }

    async fn drop_events(
        &self,
        partition: Partition,
        older_than: Duration,
        limit: usize,
    ) -> Result<usize, ColdError> {
        self.call("drop_events", move |cold| async move {
            cold.drop_events(partition, older_than, limit).await
        })
        .await
    }
}

#[async_trait]
impl SinkStore for AtHome {
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError> {
        let (sink, partitions) = (sink.clone(), partitions.to_vec());
        self.call("sink_positions", |cold| async move {
            cold.sink_positions(&sink, &partitions).await
        })
        .await
    }

    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        let sink = sink.clone();
        self.call("advance_sink", move |cold| async move {
            cold.advance_sink(&sink, partition, position).await
        })
        .await
    }

    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError> {
        let (sink, message) = (sink.clone(), message.to_owned());
        self.call("park", move |cold| async move {
            cold.park(&sink, partition, position, &message).await
        })
        .await
    }

    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError> {
        let sink = sink.clone();
        self.call("parked", move |cold| async move {
            cold.parked(&sink, after, limit).await
        })
        .await
    }

    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError> {
        let sink = sink.clone();
        self.call("parked_count", move |cold| async move {
            cold.parked_count(&sink).await
        })
        .await
    }

    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        let sink = sink.clone();
        self.call("unpark", move |cold| async move {
            cold.unpark(&sink, partition, position).await
        })
        .await
    }
}

#[async_trait]
impl HookStore for AtHome {
    async fn hooks(&self) -> Result<Vec<Hook>, ColdError> {
        self.call("hooks", |cold| async move { cold.hooks().await })
            .await
    }

    async fn define(&self, name: &str, is_needed: bool) -> Result<(), ColdError> {
        let name = name.to_owned();
        self.call("define", move |cold| async move {
            cold.define(&name, is_needed).await
        })
        .await
    }
}

#[async_trait]
impl HotTierStore for AtHome {
    async fn introduce(&self, hot: HotId, address: &str) -> Result<(), ColdError> {
        let address = address.to_owned();
        self.call("introduce", move |cold| async move {
            cold.introduce(hot, &address).await
        })
        .await
    }

    async fn hot_tiers(&self) -> Result<Vec<HotTier>, ColdError> {
        self.call("hot_tiers", |cold| async move { cold.hot_tiers().await })
            .await
    }

    async fn touch(&self, hot: &[HotId]) -> Result<(), ColdError> {
        let hot = hot.to_vec();
        self.call("touch", move |cold| async move { cold.touch(&hot).await })
            .await
    }
}

#[async_trait]
impl RangeStore for AtHome {
    async fn between(&self, range: &RowRange) -> Result<Vec<Row>, ColdError> {
        let range = range.clone();
        self.call(
            "between",
            move |cold| async move { cold.between(&range).await },
        )
        .await
    }
}

#[async_trait]
impl SweepStore for AtHome {
    async fn purged(
        &self,
        after: Option<&RowKey>,
        older_than: Duration,
        limit: usize,
    ) -> Result<PurgedPage, ColdError> {
        let after = after.cloned();
        self.call("purged", move |cold| async move {
            cold.purged(after.as_ref(), older_than, limit).await
        })
        .await
    }

    async fn sweep(
        &self,
        fence: &Fence,
        rows: &[(Owner, Field)],
        older_than: Duration,
    ) -> Result<Option<u64>, ColdError> {
        let (fence, rows) = (*fence, rows.to_vec());
        self.call("sweep", move |cold| async move {
            cold.sweep(&fence, &rows, older_than).await
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_clone_may_be_dropped_by_async_code_and_by_its_own_thread() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let home = Home::own().unwrap();
            assert_eq!(
                home.run(async { std::thread::current().name().map(str::to_owned) })
                    .await,
                Ok(Some(THREAD.to_owned()))
            );
            drop(home);
            let home = Home::own().unwrap();
            let held = home.clone();
            let (go, gone) = tokio::sync::oneshot::channel::<()>();
            let task = home.spawn(async move {
                let _ = gone.await;
                drop(held);
            });
            drop(home);
            let _ = go.send(());
            // The task ends by itself or with the runtime, in either order.
            assert!(
                task.await
                    .map_or_else(|error| error.is_cancelled(), |()| true)
            );
        });
    }

    #[test]
    fn work_at_home_is_not_handed_on_again_and_ends_with_who_waits_for_it() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let home = Home::own().unwrap();
            let inner = home.clone();
            let same = home.run(async move {
                let outer = tokio::task::id();
                inner.run(async move { tokio::task::id() == outer }).await
            });
            assert_eq!(same.await, Ok(Ok(true)));
            let (held, dropped) = tokio::sync::oneshot::channel::<()>();
            let (begun, begins) = tokio::sync::oneshot::channel();
            let waits = home.run(async move {
                let _ = begun.send(());
                std::future::pending::<()>().await;
                drop(held);
            });
            tokio::select! {
                _ = waits => {}
                _ = begins => {}
            }
            assert!(dropped.await.is_err(), "the work outlives its caller");
        });
    }

    #[test]
    fn a_panic_of_the_work_is_its_callers() {
        let home = Home::own().unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let panics = std::panic::AssertUnwindSafe(|| {
            runtime.block_on(home.run(async { "on purpose".parse::<u32>().unwrap() }))
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(runtime.block_on(home.run(async { 1 })), Ok(1));
    }
}
