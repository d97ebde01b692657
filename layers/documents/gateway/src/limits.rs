//! What the system gives this process: threads and open files.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use rustix::process::{Resource, getrlimit};
use storage_coalesce::locked;

/// Threads of the program beside those that poll: for names, files and the storage.
const SPARE_THREADS: usize = 6;
/// Those that poll, for each core: the program's, and in the embedded mode those of its worker.
const POLLING: usize = 2;
/// Files that stay for the storage: its connections, and in the embedded mode its database.
const SPARE_FILES: u64 = 64;

/// Checks that the system gives this process the threads that it needs. A runtime that lacks one
/// panics.
///
/// # Errors
/// It does not. The message names the limit.
pub fn enough_threads() -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let needed = SPARE_THREADS + cores * POLLING;
    let gate = Arc::new(Mutex::new(()));
    // Behind the closed gate all of them live at once.
    let closed = locked(&gate);
    let threads: Result<Vec<_>, _> = (0..needed)
        .map(|_| {
            let gate = Arc::clone(&gate);
            std::thread::Builder::new().spawn(move || drop(gate.lock()))
        })
        .collect();
    drop(closed);
    let limit = || {
        format!(
            "the system gives this process fewer than {needed} threads; raise the limit of processes (ulimit -u, TasksMax of systemd, pids \
             of the container), or the memory"
        )
    };
    threads.map(drop).with_context(limit)
}

/// The connections that can be served at once: so many as asked for, or fewer if the process may
/// open few files.
#[must_use]
pub fn connections(asked: u32) -> u32 {
    let files = getrlimit(Resource::Nofile).current;
    let most = within(asked, files.unwrap_or(u64::MAX));
    if most < asked {
        tracing::info!(
            connections = most,
            "fewer connections than --connections: raise the limit of open files (ulimit -n)"
        );
    }
    most
}

/// The storage keeps its files. If there are few at all, it keeps half of them.
fn within(asked: u32, files: u64) -> u32 {
    let free = files.saturating_sub(SPARE_FILES).max(files / 2).max(1);
    asked.min(u32::try_from(free).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_storage() {
        assert_eq!(within(4_096, u64::MAX), 4_096);
        assert_eq!(within(4_096, 1_024), 960);
        assert_eq!(within(100, 1_024), 100);
        assert_eq!(within(4_096, 80), 40);
        assert_eq!(within(4_096, 0), 1);
    }
}
