//! The changes that clients asked for, with their answers.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use serde::Serialize;
use storage_coalesce::locked;
use storage_tests::torture::oracle::Flaw;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// A put. Its body names the change.
    Put,
    /// A merge patch. It names the change.
    Patch,
    /// A deletion, which nothing names.
    Delete,
    /// A new item under a new id. Its body names the change.
    Post,
    /// An increment by an amount that no other increment has.
    Increment,
}

/// The answer to a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum End {
    /// It was made.
    Acked {
        /// The revision since then.
        revision: u64,
        /// The tag since then, and the id of the event. Neither is there in the answer to a repeat.
        first: Option<(String, String)>,
    },
    /// It was not made.
    NotApplied,
    /// It is not known whether it was made.
    Unknown,
}

/// A change that a client asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The document, the item or the collection. For a post, that of its answer.
    pub path: String,
    /// The kind.
    pub kind: Kind,
    /// The name of the change: its token, or the amount of an increment. Empty for a deletion.
    pub token: String,
    /// The answer.
    pub end: End,
}

/// All changes of a run, and the flaws that clients saw at once.
#[derive(Debug)]
pub struct History {
    file: Mutex<File>,
    asked: Mutex<Vec<Asked>>,
    flaws: Mutex<Vec<Flaw>>,
    reads: AtomicU64,
    repeats: AtomicU64,
}

impl History {
    /// A new history, with a copy in this file.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path);
        Ok(Self {
            file: Mutex::new(file.with_context(|| format!("cannot write {}", path.display()))?),
            asked: Mutex::default(),
            flaws: Mutex::default(),
            reads: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
        })
    }

    /// Records a change with its answer.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn add(&self, asked: Asked) -> Result<()> {
        let mut line = serde_json::to_vec(&asked)?;
        line.push(b'\n');
        locked(&self.file).write_all(&line)?;
        locked(&self.asked).push(asked);
        Ok(())
    }

    /// Records a flaw.
    pub fn flaw(&self, check: &'static str, path: &str, detail: impl Into<String>) {
        locked(&self.flaws).push(Flaw::new(check, path, detail));
    }

    /// Records that a read was compared with what must be there.
    pub fn compared(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the answer to a repeat was compared with that of the first call.
    pub fn repeated(&self) {
        self.repeats.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of repeats that were compared.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    /// All changes so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }

    /// The flaws so far.
    #[must_use]
    pub fn flaws(&self) -> Vec<Flaw> {
        locked(&self.flaws).clone()
    }

    /// The number of reads that were compared.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}
