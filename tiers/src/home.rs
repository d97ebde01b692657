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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use storage_sql::{ColdError, ColdKind};
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
pub struct Home(Option<Arc<OwnRuntime>>);

/// A runtime, and its number, which its thread knows.
#[derive(Debug)]
struct OwnRuntime {
    number: u64,
    handle: Handle,
    /// Present until the drop.
    runtime: Option<Runtime>,
}

impl Drop for OwnRuntime {
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
        Ok(Self(Some(Arc::new(OwnRuntime {
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
