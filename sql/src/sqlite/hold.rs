//! A process that has a file for itself. The lock stands on a file beside it and ends with the process,
//! however it ends. A lock on the database file itself would undo those of SQLite.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mark;
use crate::fault::Fault;

/// The longest text of the lock file that is read.
const TEXT_MAX: u64 = 20;
/// How often, and at what interval, a lock is tried. Another program may only look at it, or is about
/// to end.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// A file that this process holds.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Locked until it is closed. `None` if the file was taken over, or the system has no locks there.
    _lock: Option<File>,
    /// Whether the write-ahead log was there before the file was opened.
    pub(super) had_log: bool,
}

impl Hold {
    /// Holds a file, which may not exist yet. With `takes_over`, also a file that another program holds.
    pub(crate) async fn take(file: &Path, takes_over: bool) -> Result<Self, Fault> {
        let file = resolved(file);
        let mut looks = 1;
        let lock = loop {
            match lock(&file, takes_over) {
                Err(_) if looks < LOOKS => {
                    looks += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                locked => break locked?,
            }
        };
        Ok(Self {
            _lock: lock,
            had_log: mark::log_of(&file).exists(),
        })
    }

    /// Whether a program holds the file at this moment.
    pub(crate) fn is_taken(file: &Path) -> bool {
        let path = mark::beside(&resolved(file), "-lock");
        // Shared, so that two that look do not see each other.
        File::open(path)
            .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// The file behind links, as SQLite names its log.
fn resolved(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

fn lock(file: &Path, takes_over: bool) -> Result<Option<File>, Fault> {
    let path = mark::beside(file, "-lock");
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    // A folder that is not there or not writable has a better message when the database is opened.
    let Ok(mut lock) = opened else {
        return Ok(None);
    };
    match lock.try_lock() {
        Ok(()) => {
            let process = std::process::id().to_string();
            // For people. The lock counts, not the text.
            let written = lock
                .set_len(0)
                .and_then(|()| lock.rewind())
                .and_then(|()| lock.write_all(process.as_bytes()));
            if let Err(error) = written {
                tracing::debug!(path = %path.display(), %error, "the lock file has no process number");
            }
            Ok(Some(lock))
        }
        Err(TryLockError::WouldBlock) if takes_over => {
            tracing::warn!(path = %file.display(), "another program has the file open: it is taken over, and that program's writes fail from now on");
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => Err(Fault::operator(in_use(file, &mut lock))),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the system gives no lock here, so a second program on the same file is not noticed");
            Ok(None)
        }
    }
}

fn in_use(file: &Path, lock: &mut File) -> String {
    let mut process = String::new();
    let read = lock.take(TEXT_MAX).read_to_string(&mut process);
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let who = if read.is_ok() && process == std::process::id().to_string() {
        "this program has it open already: use that storage, or close it first".to_owned()
    } else if read.is_ok() && is_number {
        format!("another program has it open (process {process}): end that one first")
    } else {
        "another program has it open: end that one first".to_owned()
    };
    format!(
        "{} is in use: {who}. To cut it off instead, open with StorageBuilder::take_over",
        file.display()
    )
}
