//! The operations of game servers: a line before an operation is sent, and a line after it ended.
//!
//! A line is written to the file before the call goes on. So a killed game server leaves operations
//! without an end, and their outcome is unknown.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use storage_coalesce::locked;

use super::moment::{Micros, now};

/// The effect of a write on one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Sets it to the value of this token.
    Set(String),
    /// Adds to it.
    Incr(i64),
    /// Removes it.
    Remove,
    /// Brings it back.
    Restore,
    /// Gives up the last value of a removed field.
    Purge,
}

/// The request of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Changes fields, all or none, with or without a condition on the version.
    Write {
        /// The fields, in order.
        changes: Vec<(String, Effect)>,
        /// The version that the write builds on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
    },
    /// Reads these fields, or all.
    Read(Option<Vec<String>>),
    /// Waits until the owner is in the database.
    Flush,
    /// Drops the owner's cached data once it has landed.
    Evict,
    /// Puts a link with this token at the end of an owner's chain.
    Append(String),
    /// Starts a session of an owner's chain. Its end stores a chain without links if the owner was
    /// missing.
    Start,
    /// Closes the storage.
    Close,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// A write was acknowledged, with the owner's version, the number of changed fields, and the
    /// counters' new values.
    Acked {
        /// The owner's version after it.
        version: u64,
        /// The number of changed fields.
        changed: u32,
        /// The new values of the incremented fields.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        counted: Vec<(String, i64)>,
    },
    /// A write failed, but its error says that it was applied.
    Applied(String),
    /// A read found these fields live, with the owner's version.
    Found {
        /// The owner's version.
        version: u64,
        /// Field and token.
        fields: Vec<(String, String)>,
    },
    /// Everything up to this version is in the database.
    Flushed(u64),
    /// The link was put after this one, as the link of this number. It is the first one if the
    /// token is empty.
    Appended {
        /// The token of the link before.
        behind: String,
        /// The number of the new link, from 1.
        number: u64,
    },
    /// Nothing happened, by this error.
    NotApplied(String),
    /// The owner had another version.
    Conflict,
    /// The outcome is unknown. The operation failed with this error, or its process died (empty).
    Unknown(String),
    /// An eviction, the start of a session, or a close of the storage with this number of unlanded
    /// marks.
    Done(u64),
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    #[serde(rename = "b")]
    Begun(u64, Micros, u32, String, Call),
    #[serde(rename = "e")]
    Ended(u64, Micros, End),
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The game server's process: number and generation.
    pub process: (u32, u32),
    /// The number of its task.
    pub task: u32,
    /// `logic_type/owner_id`.
    pub owner: String,
    /// The request.
    pub call: Call,
    /// The time before it was sent.
    pub begun: Micros,
    /// The time at which its end was known. The largest number if it never was.
    pub ended: Micros,
    /// Its end.
    pub end: End,
    /// The time after which no copy of it can be applied any more, if its outcome is unknown and no
    /// clock was turned back.
    pub expires: Micros,
}

/// The history of one process, being written.
#[derive(Debug)]
pub struct Log {
    file: Mutex<File>,
    next: AtomicU64,
}

impl Log {
    /// A new history.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            file: Mutex::new(file),
            next: AtomicU64::new(0),
        })
    }

    fn write(&self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        Ok(locked(&self.file).write_all(&text)?)
    }

    /// Records that an operation is about to be sent. Returns its number.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn begin(&self, task: u32, owner: &str, call: &Call) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(&Line::Begun(
            number,
            now(),
            task,
            owner.to_owned(),
            call.clone(),
        ))?;
        Ok(number)
    }

    /// Records its end.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn end(&self, number: u64, end: End) -> Result<()> {
        self.write(&Line::Ended(number, now(), end))
    }
}

/// Reads the history of one process. `grace` is the time after its last sign of life in which a
/// copy of its writes may still be applied.
///
/// # Errors
/// The file can't be read, or has other contents.
pub fn read(path: &Path, process: (u32, u32), grace: Micros) -> Result<Vec<Operation>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut operations: Vec<Operation> = Vec::new();
    let mut open: HashMap<u64, usize> = HashMap::new();
    let mut last = 0;
    for line in BufReader::new(file).split(b'\n') {
        // Only the last line of a killed process may be cut.
        let Ok(line) = serde_json::from_slice::<Line>(&line?) else {
            continue;
        };
        match line {
            Line::Begun(number, begun, task, owner, call) => {
                last = last.max(begun);
                open.insert(number, operations.len());
                let end = End::Unknown(String::new());
                operations.push(Operation {
                    process,
                    task,
                    owner,
                    call,
                    begun,
                    ended: Micros::MAX,
                    end,
                    expires: 0,
                });
            }
            Line::Ended(number, ended, end) => {
                last = last.max(ended);
                let at = open
                    .remove(&number)
                    .context("an operation ended that never began")?;
                let operation = operations
                    .get_mut(at)
                    .context("an operation without a place")?;
                operation.ended = ended;
                operation.end = end;
            }
        }
    }
    for operation in &mut operations {
        operation.expires = operation.ended.min(last).saturating_add(grace);
    }
    Ok(operations)
}
