//! Rounds of changes, copies, losses and restores.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use storage_tests::torture::oracle::Flaw;
use tempfile::TempDir;

use super::caller::Caller;
use super::model::{Model, is_as_known};
use crate::gateway::Process;
use crate::torture::client::{Answer, Request};

/// The most changes between two steps of a round.
const CHANGES_MAX: u32 = 20;
/// The database, and the folder of its copy.
const DATABASE: &str = "data.db";
const COPIES: &str = "copies";

/// How a copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The files are copied while no gateway runs. It is the same database.
    Files,
    /// It is a backup, made while the gateway runs. It is another database.
    Backup,
}

/// A copy, and what is in it.
struct Kept {
    way: Way,
    model: Model,
    /// A cursor behind all changes before it.
    cursor: String,
}

/// A gateway on a file that goes back in time.
struct Trial<'a> {
    exe: &'a Path,
    folder: TempDir,
    rng: StdRng,
    model: Model,
    /// All tags that were ever given, also those of changes that were lost.
    tags: BTreeSet<String>,
    number: u64,
    flaws: Vec<Flaw>,
}

/// Runs so many rounds. Returns what is wrong.
///
/// # Errors
/// The run itself fails: a gateway does not start, or does not answer.
pub async fn run(seed: u64, rounds: u32, exe: &Path) -> Result<Vec<Flaw>> {
    // The client asks for it, also for plain HTTP. Another client of the process may have named it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut trial = Trial {
        exe,
        folder: TempDir::with_prefix("storage-restore-")?,
        rng: StdRng::seed_from_u64(seed),
        model: Model::default(),
        tags: BTreeSet::new(),
        number: 0,
        flaws: Vec::new(),
    };
    for round in 0..rounds {
        let way = if round.is_multiple_of(2) {
            Way::Files
        } else {
            Way::Backup
        };
        trial.round(way).await?;
    }
    Ok(trial.flaws)
}

impl Trial<'_> {
    async fn round(&mut self, way: Way) -> Result<()> {
        let process = self.start().await?;
        self.change(&Caller::new(&process)).await?;
        let cursor = Caller::new(&process).landed("cursor").await?;
        // All changes land.
        process.close().await?;
        let kept = Kept {
            way,
            model: self.model.clone(),
            cursor,
        };
        if way == Way::Files {
            self.copy_files()?;
        }
        let mut process = self.start().await?;
        let caller = Caller::new(&process);
        if way == Way::Backup {
            self.back_up().await?;
        }
        self.change(&caller).await?;
        let lost = caller.landed("cursor").await?;
        if self.rng.random_range(0..2) == 0 {
            process.running.kill().await?;
        } else {
            process.close().await?;
        }
        self.put_back()?;
        let later = std::mem::replace(&mut self.model, kept.model.clone());
        let process = self.start().await?;
        let caller = Caller::new(&process);
        self.compare(&caller, &kept).await?;
        self.cursors(&caller, &kept, &lost).await?;
        self.keys(&caller, &kept, &later).await?;
        self.change(&caller).await?;
        self.compare(&caller, &kept).await?;
        process.close().await
    }

    async fn start(&self) -> Result<Process> {
        Process::start(self.exe, self.folder.path(), &[]).await
    }

    fn flaw(&mut self, check: &'static str, name: &str, detail: String) {
        self.flaws.push(Flaw::new(check, name, detail));
    }

    /// Makes some changes.
    async fn change(&mut self, caller: &Caller) -> Result<()> {
        for _ in 0..self.rng.random_range(1..CHANGES_MAX) {
            self.number += 1;
            let request = self.model.change(&mut self.rng, self.number);
            let answer = caller.ask(&request).await?;
            self.made(&request, &answer);
        }
        Ok(())
    }

    /// Takes a change over. No tag is given twice, not even one that was lost.
    fn made(&mut self, request: &Request, answer: &Answer) {
        if let Some(complaint) = self.model.made(request, answer) {
            self.flaw("revisions", &request.path, complaint);
        }
        let tag = answer.tag.clone().unwrap_or_default();
        if !self.tags.insert(format!("{} {tag}", request.path)) {
            self.flaw("tags", &request.path, format!("{tag} was given before"));
        }
    }

    /// The documents are those of the model.
    async fn compare(&mut self, caller: &Caller, kept: &Kept) -> Result<()> {
        for (path, known) in self.model.documents.clone() {
            let read = caller.ask(&Request::get(&path)).await?;
            if !is_as_known(&read, &known) {
                let detail = format!("{read:?} was read in place of {known:?}, {:?}", kept.way);
                self.flaw("reads", &path, detail);
            }
        }
        Ok(())
    }

    /// A cursor of lost changes is refused, and one from before the copy is good in the same database.
    async fn cursors(&mut self, caller: &Caller, kept: &Kept, lost: &str) -> Result<()> {
        let is_same = kept.way == Way::Files;
        for (cursor, is_good) in [(lost, false), (&kept.cursor, is_same)] {
            let status = caller.changes(cursor).await?;
            if status != if is_good { 200 } else { 410 } {
                let detail = format!("{status} for {cursor}, {:?}", kept.way);
                self.flaw("cursors", "", detail);
            }
        }
        for (cursor, is_good) in [(lost, false), (&kept.cursor, is_same)] {
            let names = caller.hear(cursor, "heard").await?;
            if names.iter().any(|name| name == "reset") == is_good {
                let detail = format!("{names:?} were told behind {cursor}, {:?}", kept.way);
                self.flaw("feed", "", detail);
            }
        }
        Ok(())
    }

    /// A key from before the copy is known, and one of a lost change serves anew, once. A lost tag is
    /// that of no document.
    async fn keys(&mut self, caller: &Caller, kept: &Kept, later: &Model) -> Result<()> {
        for call in kept.model.calls.iter().rev().take(5) {
            let again = caller.ask(&call.request).await?;
            let of = |answer: &Answer| (answer.status, answer.tag.clone(), answer.body.clone());
            if !again.is_repeat || of(&again) != of(&call.answer) {
                let detail = format!("{again:?} comes after {:?}", call.answer);
                self.flaw("keys", &call.request.path, detail);
            }
        }
        let lost = later
            .calls
            .get(kept.model.calls.len()..)
            .unwrap_or_default();
        for call in lost
            .iter()
            .filter(|call| call.request.method == Method::PUT)
        {
            let mut stale = call.request.clone();
            let tag = call.answer.tag.clone().context("a tag")?;
            stale.headers = vec![("if-match", tag)];
            let refused = caller.ask(&stale).await?;
            let first = caller.ask(&call.request).await?;
            self.made(&call.request, &first);
            let again = caller.ask(&call.request).await?;
            if refused.status != 412 || first.is_repeat || !again.is_repeat {
                let detail =
                    format!("{refused:?}, {first:?}, {again:?} are the answers to {call:?}");
                self.flaw("keys", &call.request.path, detail);
            }
        }
        Ok(())
    }

    /// Copies the database as a running gateway is copied from outside.
    async fn back_up(&self) -> Result<()> {
        let file = self.folder.path().join(DATABASE);
        let copies = self.empty(COPIES)?;
        storage_tests::back_up(file, &copies.join(DATABASE)).await
    }

    /// An empty folder.
    fn empty(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// The files whose names begin with that of the database.
    fn files(folder: &Path) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(DATABASE) {
                files.push(path.clone());
            }
        }
        Ok(files)
    }

    /// Copies the database and all files beside it.
    fn copy_files(&self) -> Result<()> {
        let to = self.empty(COPIES)?;
        for file in Self::files(self.folder.path())? {
            std::fs::copy(&file, to.join(file.file_name().context("a name")?))?;
        }
        Ok(())
    }

    /// Puts the copy in the place of the database and of all files beside it.
    fn put_back(&self) -> Result<()> {
        for file in Self::files(self.folder.path())? {
            std::fs::remove_file(file)?;
        }
        for file in Self::files(&self.folder.path().join(COPIES))? {
            let name = file.file_name().context("a name")?;
            std::fs::copy(&file, self.folder.path().join(name))?;
        }
        Ok(())
    }
}
