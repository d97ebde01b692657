//! A copy of an embedded database while the game runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use storage_landing::{Backlog, drained};
use tokio::time::{Instant, timeout_at};

use crate::{Error, Kind, Result, Storage};

/// A copy that was made.
///
/// ```
/// # storage_doc::in_folder(async || {
/// use std::time::Duration;
/// let storage = storage_sdk::Storage::embedded("game.db").await?;
/// let backup = storage.backup("monday.db", Duration::from_secs(60)).await?;
/// assert_eq!(backup.errors, 0); // else the copy lacks changes that the database rejected
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Backup {
    /// Owners with rows that the database rejected. Their rejected changes are in memory alone, so the
    /// copy lacks them.
    pub errors: u64,
}

impl Storage {
    /// Copies the SQLite file of the database to a new file, while the game goes on. The copy has every
    /// write that was acknowledged before the call. It is one moment of the database, so a landed
    /// transaction is in it as a whole or not at all.
    ///
    /// The call first waits until all of these writes have landed. Edits of an open session are in the
    /// copy once they are saved. The copy appears under its name when it is whole and on the disk, and
    /// nothing is overwritten. It has no log beside it, and [`Storage::embedded`] opens it. The call
    /// needs free space for a second file. Writers do not wait for it, but the log of the database
    /// (`-wal`) grows meanwhile.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use std::time::Duration;
    ///
    /// use storage_sdk::Storage;
    ///
    /// let storage = Storage::embedded("game.db").await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).await?;
    /// storage.backup("monday.db", Duration::from_secs(60)).await?;
    ///
    /// let copy = Storage::embedded("monday.db").await?;
    /// let ann = copy.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"5"[..]));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// No file has the name of the copy then, unless it was there before.
    /// - `Invalid`: a file of this name is there, its folder is not, or the database is no SQLite file.
    /// - `Denied`: the file can't be written, for example on a full disk.
    /// - `Timeout`: the writes did not land, or the copy was not made, within `deadline`.
    /// - `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// A dropped call ends the copy and leaves no file under the name.
    pub async fn backup(&self, path: impl AsRef<Path>, deadline: Duration) -> Result<Backup> {
        let (storage, path) = (self.clone(), path.as_ref().to_owned());
        // At home, where time follows the wall clock.
        let made = self
            .core
            .tiers
            .home()
            .run(async move {
                let core = &storage.core;
                core.while_open(storage.backup_within(path, deadline)).await
            })
            .await;
        made.map_err(|ended| Error::new(Kind::Closed, ended.to_string()))?
    }

    async fn backup_within(&self, path: PathBuf, deadline: Duration) -> Result<Backup> {
        let tiers = &self.core.tiers;
        let until = crate::storage::after(deadline);
        let late = |what: &str| Error::new(Kind::Timeout, format!("{what} within {deadline:?}"));
        // A reader of an embedded file has an empty hot tier of its own.
        if !tiers.is_read_only() {
            drained(tiers.hot(), until, |_| {}).await?;
            if Instant::now() >= until {
                return Err(late("the writes before the backup did not land"));
            }
        }
        let copied = timeout_at(until, tiers.cold().database.backup(&path)).await;
        copied.map_err(|_| late("the copy was not made"))??;
        let errors = match tiers.is_read_only() {
            true => 0,
            false => Backlog::read(tiers.hot()).await?.errors(),
        };
        Ok(Backup { errors })
    }
}
