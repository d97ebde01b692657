//! The gateway of a run, and what the system tells of its process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::time::sleep;

use super::args::{Args, IDLE};
use crate::gateway::Process;

/// Files of a process beside its connections.
const SPARE_FILES: u64 = 256;
/// The connections, by the name on its page of metrics.
pub const CONNECTIONS: &str = "storage_document_connections";
/// The open feeds, by the name there.
pub const FEEDS: &str = "storage_document_feeds";
/// Between two looks at the memory.
const EVERY: Duration = Duration::from_millis(100);

/// A gateway on a file of its own.
#[derive(Debug)]
pub struct Gate {
    /// The process.
    pub process: Process,
    folder: TempDir,
}

impl Gate {
    /// Starts it. `exe` is this program, or one with its hidden subcommand.
    ///
    /// # Errors
    /// The system gives too few files, or the gateway does not start.
    pub async fn start(args: &Args, exe: &Path) -> Result<Self> {
        let clients = args.clients.max(args.connections.saturating_mul(2));
        enough_files(u64::from(clients))?;
        let folder = TempDir::with_prefix("storage-edge-")?;
        let connections = args.connections.to_string();
        let idle = format!("{}s", IDLE.as_secs());
        let options = ["--connections", &connections, "--idle", &idle];
        Ok(Self {
            process: Process::start(exe, folder.path(), &options).await?,
            folder,
        })
    }

    /// Watches the memory until the future is dropped. `most` becomes the greatest size in KiB.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn watch(id: u32, most: &mut u64) -> Result<()> {
        loop {
            Self::look(id, most)?;
            sleep(EVERY).await;
        }
    }

    /// Raises `most` to the present size in KiB.
    ///
    /// # Errors
    /// The process has ended.
    pub fn look(id: u32, most: &mut u64) -> Result<()> {
        *most = memory(id)?.max(*most);
        Ok(())
    }

    /// The id of its process.
    ///
    /// # Errors
    /// It has ended.
    pub fn id(&self) -> Result<u32> {
        self.process.running.pid().context("the gateway has ended")
    }

    /// The sockets that it has open.
    ///
    /// # Errors
    /// It has ended.
    pub fn sockets(&self) -> Result<usize> {
        let mut sockets = 0;
        for file in std::fs::read_dir(format!("/proc/{}/fd", self.id()?))? {
            // A file can be closed meanwhile.
            let Ok(target) = std::fs::read_link(file?.path()) else {
                continue;
            };
            sockets += usize::from(target.to_string_lossy().starts_with("socket:"));
        }
        Ok(sockets)
    }

    /// Asks it to end. Its folder goes, too.
    ///
    /// # Errors
    /// It does not end in order.
    pub async fn close(self) -> Result<()> {
        let Self { process, folder } = self;
        process.close().await?;
        Ok(folder.close()?)
    }
}

/// The resident memory of a process in KiB.
fn memory(id: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next());
    Ok(size.context("no VmRSS")?.parse()?)
}

/// Raises the limit of open files as far as it may be raised. The gateway inherits it.
fn enough_files(clients: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised)?;
    let needed = clients + SPARE_FILES;
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(
        most >= needed,
        "this process may open {most} files and needs {needed}: raise the limit (ulimit -Hn), or let fewer --clients come"
    );
    Ok(())
}
