//! A simulated process. It can be stopped for a while, like by SIGSTOP, and killed, like by
//! SIGKILL.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use storage_coalesce::locked;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::Notify;

/// The state that all tasks and connections of one process share. While it is stopped, none of them
/// makes progress. Once it is killed, none ever does.
#[derive(Debug, Default)]
pub struct Process {
    state: Mutex<State>,
    end: Notify,
    /// The factor by which it is slower than others, less one.
    slower: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    killed: bool,
    waiting: Vec<Waker>,
}

impl Process {
    /// A process that takes this many times as long as others for everything.
    #[must_use]
    pub fn slow(slowness: u64) -> Arc<Self> {
        let process = Self::default();
        process
            .slower
            .store(slowness.saturating_sub(1), Ordering::Relaxed);
        Arc::new(process)
    }

    /// The factor by which it is slower than others.
    pub fn slowness(&self) -> u64 {
        self.slower.load(Ordering::Relaxed) + 1
    }

    /// Makes it as fast as others.
    pub fn hurry(&self) {
        self.slower.store(0, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Stops the process until [`Process::resume`].
    pub fn stop(&self) {
        self.state().stopped = true;
    }

    /// Lets a stopped process go on.
    pub fn resume(&self) {
        let waiting = {
            let mut state = self.state();
            state.stopped = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends the process at once.
    pub fn kill(&self) {
        self.state().killed = true;
        self.end.notify_waiters();
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.state().killed
    }

    /// Ready once the process is killed.
    pub async fn killed(&self) {
        let end = self.end.notified();
        if !self.state().killed {
            end.await;
        }
    }

    /// Ready while the process runs.
    fn poll_runs(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.stopped && !state.killed {
            state.waiting.push(context.waker().clone());
        }
        if state.stopped || state.killed {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Waits while the process is stopped, and for ever once it is killed.
    pub async fn runs(&self) {
        std::future::poll_fn(|context| self.poll_runs(context)).await;
    }

    /// A task of this process.
    pub fn task<F: Future>(self: &Arc<Self>, future: F) -> Task<F> {
        Task {
            process: Arc::clone(self),
            future: Box::pin(future),
        }
    }
}

/// A future that makes progress only while its process runs.
#[derive(Debug)]
pub struct Task<F> {
    process: Arc<Process>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        ready!(self.process.poll_runs(context));
        self.future.as_mut().poll(context)
    }
}

/// A process' end of a connection.
#[derive(Debug)]
pub struct Socket {
    process: Arc<Process>,
    stream: DuplexStream,
}

impl Socket {
    /// The end of a connection that this process holds.
    #[must_use]
    pub fn new(process: Arc<Process>, stream: DuplexStream) -> Self {
        Self { process, stream }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.process.poll_runs(context));
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.process.poll_runs(context));
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.process.poll_runs(context));
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.process.poll_runs(context));
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
