//! A copy of the file while others write it.
//!
//! `VACUUM INTO` copies one moment of file and log, and writers go on meanwhile. SQLite's other means,
//! the backup interface, begins again whenever another connection writes.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection};
use tempfile::NamedTempFile;

use super::exec::{fault, query};
use super::mark;
use crate::fault::Fault;
use crate::session::Arg;
use crate::statement::Names;

/// The number of SQLite's steps between two looks whether the caller is gone.
const STEPS: i32 = 10_000;

/// Forgets the identity of the database. The next process that holds the copy draws another.
const FORGET: &str = "DELETE FROM `{stem}_meta` WHERE name = CAST('identity' AS BLOB)";

/// Ends the statement when its caller is gone. SQLite works on a thread of its own and would go on.
struct CallerGuard(Arc<AtomicBool>);

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Copies the database to a new file. The file gets its name when it is whole and on the disk.
///
/// # Cancel safety
/// A dropped call ends the copy and leaves no file.
pub(super) async fn copy(
    from: &SqliteConnectOptions,
    to: &Path,
    names: &Names,
) -> Result<(), Fault> {
    let part = begun(from.get_filename(), to)?;
    let text = part
        .path()
        .to_str()
        .ok_or_else(|| refused(to, "the path is not valid UTF-8"))?
        .to_owned();
    // The statement reads this file and writes another, which a connection that only reads may not.
    let reader = from
        .clone()
        .create_if_missing(false)
        .pragma("query_only", "OFF");
    let mut connection = reader.connect().await.map_err(fault)?;
    let gone = Arc::new(AtomicBool::new(false));
    let _ends = CallerGuard(Arc::clone(&gone));
    let cut = Arc::clone(&gone);
    let mut handle = connection.lock_handle().await.map_err(fault)?;
    handle.set_progress_handler(STEPS, move || !cut.load(Ordering::Acquire));
    drop(handle);
    let copied = connection
        .execute(query(
            "VACUUM INTO CAST(? AS TEXT)".into(),
            &[Arg::from(text.as_str())],
        ))
        .await;
    copied.map_err(fault)?;
    drop(connection.close().await);
    // The copy is a database of its own, which nobody holds. So a reader of the feed that has seen what
    // came after the copy is told, if the copy takes the place of its original.
    let options = SqliteConnectOptions::new()
        .filename(part.path())
        .disable_statement_logging();
    let mut copy = SqliteConnection::connect_with(&options)
        .await
        .map_err(fault)?;
    mark::set(&mut copy, mark::FREE).await?;
    copy.execute(query(names.fill(FORGET).into(), &[]))
        .await
        .map_err(fault)?;
    copy.close().await.map_err(fault)?;
    let to = to.to_owned();
    let kept = tokio::task::spawn_blocking(move || keep(part, &to, &gone)).await;
    kept.unwrap_or_else(|_| Err(cut_short()))
}

/// The file that the copy grows in, beside its later place.
fn begun(from: &Path, to: &Path) -> Result<NamedTempFile, Fault> {
    if to.symlink_metadata().is_ok() {
        return Err(taken(to));
    }
    let name = to
        .file_name()
        .ok_or_else(|| refused(to, "it names no file"))?;
    let prefix = format!("{}.", name.to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    let made = builder.tempfile_in(folder(to)).and_then(|part| {
        // As many may read the copy as the file.
        let rights = std::fs::metadata(from)?.permissions();
        part.as_file().set_permissions(rights)?;
        Ok(part)
    });
    made.map_err(|error| unwritten(to, &error))
}

/// Gives the whole copy its name, unless the caller is gone.
fn keep(part: NamedTempFile, to: &Path, gone: &AtomicBool) -> Result<(), Fault> {
    // ORDER: before the file gets its name. SQLite does not wait for the disk here, so a power failure
    // could leave a part of a copy under the name.
    let synced = part.as_file().sync_all();
    synced.map_err(|error| unwritten(to, &error))?;
    if gone.load(Ordering::Acquire) {
        return Err(cut_short());
    }
    let kept = part.persist_noclobber(to).map_err(|error| error.error);
    kept.map_err(|error| unwritten(to, &error))?;
    // The name must survive, too.
    let synced = File::open(folder(to)).and_then(|folder| folder.sync_all());
    synced.map_err(|error| unwritten(to, &error))
}

fn cut_short() -> Fault {
    Fault::lost("the copy was cut")
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn taken(to: &Path) -> Fault {
    refused(
        to,
        "it is there already, and a copy overwrites nothing: name another file",
    )
}

fn refused(to: &Path, why: &str) -> Fault {
    Fault::settings(format!("the copy {}: {why}", to.display()))
}

fn unwritten(to: &Path, error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::AlreadyExists => taken(to),
        ErrorKind::NotFound | ErrorKind::NotADirectory => refused(
            to,
            "its folder does not exist: make it, or name another one",
        ),
        _ => Fault::operator(format!("the copy {}: {error}", to.display())),
    }
}
