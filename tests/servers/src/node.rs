//! The common part of all servers: a folder, a port, and a process that is killed and started
//! again.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    port,
    process::{NotReady, Process},
};

/// The number of ports that a first start tries, if other processes are quicker.
const PORT_TRIES: usize = 10;
/// The longest time that a restart waits for its port.
const PORT_PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to get the port back.
const PORT_POLL: Duration = Duration::from_millis(50);

/// The way to start a server. Each start uses the same one.
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The words in the server's log after which it accepts connections.
    pub(crate) ready: &'static str,
}

/// A server of any kind.
///
/// Dropping it kills the server, then removes the folder. The fields are in that order.
pub(crate) struct Node {
    /// The calls that end or start the server write it. It is `None` while the server is down. A
    /// plain mutex, since it is never held across an await.
    process: Mutex<Option<Process>>,
    launch: Launch,
    port: u16,
    folder: TempDir,
}

impl Node {
    /// Starts a server on a free port. `launch` makes the command for a port.
    pub(crate) async fn start(
        folder: TempDir,
        mut launch: impl FnMut(u16, &Path) -> Result<Launch>,
    ) -> Result<Self> {
        for _ in 0..PORT_TRIES {
            let port = port::free()?;
            let launch = launch(port, folder.path())?;
            match Process::start(&launch.program, &launch.args, folder.path(), launch.ready).await {
                Ok(process) => {
                    return Ok(Self {
                        process: Mutex::new(Some(process)),
                        launch,
                        port,
                        folder,
                    });
                }
                Err(NotReady::PortTaken) => {}
                Err(NotReady::Failed(error)) => return Err(error),
            }
        }
        bail!("others took each of {PORT_TRIES} free ports first")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process().as_mut().and_then(Process::id)
    }

    pub(crate) fn kill(&self) -> Result<()> {
        let killed = self.process().take();
        killed.map(drop).context("the server is already down")
    }

    pub(crate) async fn stop(&self) -> Result<()> {
        let running = self
            .process()
            .take()
            .context("the server is already down")?;
        let status = running.stop().await?;
        if !status.success() {
            bail!("the server stopped with {status}");
        }
        Ok(())
    }

    pub(crate) async fn restart(&self) -> Result<()> {
        drop(self.process().take());
        let Launch {
            program,
            args,
            ready,
        } = &self.launch;
        let deadline = Instant::now() + PORT_PATIENCE;
        loop {
            match Process::start(program, args, self.folder.path(), ready).await {
                Ok(process) => {
                    *self.process() = Some(process);
                    return Ok(());
                }
                Err(NotReady::PortTaken) if Instant::now() < deadline => sleep(PORT_POLL).await,
                Err(NotReady::PortTaken) => {
                    bail!("port {} was taken by another process", self.port)
                }
                Err(NotReady::Failed(error)) => return Err(error),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.process()
            .as_ref()
            .context("the server is down")?
            .signal(signal)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calls that every server has, documented once.
macro_rules! node_calls {
    () => {
        /// The TCP port on 127.0.0.1. A restart keeps it.
        pub fn port(&self) -> u16 {
            self.node.port()
        }

        /// The server's process id, or `None` while it is down.
        pub fn pid(&self) -> Option<u32> {
            self.node.pid()
        }

        /// The folder with the server's data and its log, `log`.
        pub fn folder(&self) -> &std::path::Path {
            self.node.folder()
        }

        /// Kills the server with SIGKILL and waits until it is gone. Its data stays for
        /// [`restart`](Self::restart).
        ///
        /// # Errors
        /// The server is already down.
        pub fn kill(&self) -> anyhow::Result<()> {
            self.node.kill()
        }

        /// Stops the server in order (SIGTERM) and waits until it is gone. Its data stays for
        /// [`restart`](Self::restart).
        ///
        /// # Errors
        /// The server is already down, is paused, or stopped with a failure.
        ///
        /// # Cancel safety
        /// A cancelled stop kills the server.
        pub async fn stop(&self) -> anyhow::Result<()> {
            self.node.stop().await
        }

        /// Starts the server again on the same port and folder, and returns when it accepts
        /// connections. A server that still runs is killed first.
        ///
        /// # Errors
        /// The server does not become ready. The message ends with the last lines of its log.
        ///
        /// # Cancel safety
        /// A cancelled restart leaves the server down.
        pub async fn restart(&self) -> anyhow::Result<()> {
            self.node.restart().await
        }

        /// Freezes the server (SIGSTOP). Connections stay open, and nothing answers.
        ///
        /// # Errors
        /// The server is down.
        pub fn pause(&self) -> anyhow::Result<()> {
            self.node.signal(rustix::process::Signal::STOP)
        }

        /// Lets a paused server go on (SIGCONT).
        ///
        /// # Errors
        /// The server is down.
        pub fn resume(&self) -> anyhow::Result<()> {
            self.node.signal(rustix::process::Signal::CONT)
        }
    };
}

pub(crate) use node_calls;
