//! The sink of kind "file": a file of JSON lines for each partition.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Deserialize;
use storage_landing::{Sink, SinkError};
use storage_model::{Event, Partition, Position, Token};
use tempfile::NamedTempFile;

use super::json::Json;

/// The file that names the database whose events the folder has.
const FEED: &str = "feed";
/// How much of a file is read at a time, from its end.
const CHUNK: u64 = 64 << 10;

/// Files `DIR/PARTITION.jsonl`. Each line is an event, in the order of the partition and once.
///
/// Each call opens the file, and the lock of the file keeps other workers of this machine out. So a
/// file can be moved away at any time, and the next call makes a new one.
#[derive(Debug)]
pub struct FileSink {
    dir: PathBuf,
    feed: Token,
}

impl FileSink {
    /// Files in `dir`, which is made if it is missing. `feed` is the identity of the database with
    /// the events.
    #[must_use]
    pub fn new(dir: PathBuf, feed: Token) -> Self {
        Self { dir, feed }
    }
}

#[async_trait]
impl Sink for FileSink {
    /// # Cancel safety
    /// A dropped call may still write its lines. The next call waits for it, and skips them.
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        let mut lines = Vec::new();
        for event in events {
            let mut line = serde_json::to_vec(&Json::from(event))
                .map_err(|error| SinkError::rejected(error.to_string()))?;
            line.push(b'\n');
            lines.push((event.position, line));
        }
        let (dir, feed) = (self.dir.clone(), self.feed);
        let write = move || append(&dir, feed, partition, &lines);
        let written = tokio::task::spawn_blocking(write).await;
        written
            .map_err(|error| SinkError::unavailable(format!("the write ended early: {error}")))?
    }
}

/// Appends the lines behind the last one of the file, and waits until the disk has them.
fn append(
    dir: &Path,
    feed: Token,
    partition: Partition,
    lines: &[(Position, Vec<u8>)],
) -> Result<(), SinkError> {
    belong(dir, feed)?;
    let path = path_of(dir, partition);
    write(dir, &path, lines).map_err(|error| unavailable(&path, &error))
}

fn path_of(dir: &Path, partition: Partition) -> PathBuf {
    dir.join(format!("{partition}.jsonl"))
}

fn unavailable(path: &Path, error: &io::Error) -> SinkError {
    SinkError::unavailable(format!("{}: {error}", path.display()))
}

fn write(dir: &Path, path: &Path, lines: &[(Position, Vec<u8>)]) -> io::Result<()> {
    let mut file = open(path)?;
    let (end, last) = end_of(&mut file)?;
    let mut new = Vec::new();
    for (position, line) in lines {
        if *position > last {
            new.extend_from_slice(line);
        }
    }
    // A line that a crash has torn was never counted as written.
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&new)?;
    // ORDER: the disk has the lines before the worker stores the position. Otherwise a crash of the
    // machine loses them.
    file.sync_all()?;
    // Also if the file was there: the call that made it may have ended before this.
    File::open(dir)?.sync_all()
}

/// Opens a file and keeps other workers out until it is closed.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path)?;
    lock(&file)?;
    Ok(file)
}

/// Keeps other workers out until the file is closed.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::other("another worker is writing this file"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the folder, and checks that it has the events of this database and of no other.
///
/// Another database has other events at the same positions. They would be taken for repeats.
fn belong(dir: &Path, feed: Token) -> Result<(), SinkError> {
    let path = dir.join(FEED);
    let feed = format!("{feed}\n");
    match fs::read_to_string(&path) {
        Ok(known) if known == feed => Ok(()),
        Ok(_) => Err(SinkError::unavailable(format!(
            "{} has the events of another database: choose another folder, or move its files away",
            dir.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            mark(dir, &path, &feed).map_err(|error| unavailable(&path, &error))
        }
        Err(error) => Err(unavailable(&path, &error)),
    }
}

/// Marks the folder as one with the events of a database, unless another worker just did.
fn mark(dir: &Path, path: &Path, feed: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(feed.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    File::open(dir)?.sync_all()
}

/// The place of an event, in its line.
#[derive(Deserialize)]
struct Place {
    epoch: u64,
    number: u64,
}

/// The length of a file up to its last whole line, and the position of that line's event.
fn end_of(file: &mut File) -> io::Result<(u64, Position)> {
    let length = file.metadata()?.len();
    let end = behind_newline(file, length)?;
    if end == 0 {
        return Ok((0, Position::ZERO));
    }
    let start = behind_newline(file, end - 1)?;
    file.seek(SeekFrom::Start(start))?;
    let mut line = Vec::new();
    file.take(end - start).read_to_end(&mut line)?;
    let place: Place = serde_json::from_slice(&line)
        .map_err(|_| io::Error::other("the last line is no event: move the file away"))?;
    Ok((end, Position::new(place.epoch, place.number)))
}

/// The place behind the last newline before `end`. 0 if there is none.
fn behind_newline(file: &mut File, end: u64) -> io::Result<u64> {
    let mut end = end;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        let mut chunk = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + u64::try_from(at).unwrap_or_default() + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use storage_model::{Content, SeededIds};

    use super::*;

    fn gap(number: u64) -> Event {
        Event {
            partition: Partition(7),
            position: Position::new(2, number),
            content: Content::Gap,
        }
    }

    fn feed(seed: u64) -> Token {
        Token::draw(&SeededIds::new(seed))
    }

    fn numbers(dir: &Path) -> Vec<u64> {
        let text = fs::read_to_string(dir.join("7.jsonl")).unwrap();
        let places = text.lines().map(|line| serde_json::from_str(line).unwrap());
        places.map(|place: Place| place.number).collect()
    }

    #[tokio::test]
    async fn a_torn_line_is_cut_and_an_event_that_is_there_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new");
        let sink = FileSink::new(dir.clone(), feed(1));
        let send = async |numbers: std::ops::Range<u64>| {
            let events: Vec<Event> = numbers.map(gap).collect();
            sink.send(Partition(7), &events).await
        };
        send(1..4).await.unwrap();
        let whole = fs::read(dir.join("7.jsonl")).unwrap();
        for torn in [&b"{\"epoch\":2,\"numb"[..], &[b'x'; 200_000], &[0; 3]] {
            let path = dir.join("7.jsonl");
            fs::write(&path, [&whole, torn].concat()).unwrap();
            send(2..6).await.unwrap();
            assert_eq!(numbers(&dir), [1, 2, 3, 4, 5]);
        }
        fs::write(dir.join("7.jsonl"), "{\"epoch\":2").unwrap();
        send(1..2).await.unwrap();
        assert_eq!(numbers(&dir), [1]);
        // Somebody took the file away.
        fs::rename(dir.join("7.jsonl"), dir.join("old")).unwrap();
        send(2..3).await.unwrap();
        assert_eq!(numbers(&dir), [2]);
    }

    #[tokio::test]
    async fn what_is_no_file_of_events_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let sink = FileSink::new(dir.to_owned(), feed(1));
        sink.send(Partition(7), &[gap(1)]).await.unwrap();
        let said = async |sink: &FileSink| {
            let refused = sink.send(Partition(7), &[gap(2)]).await.unwrap_err();
            assert!(
                matches!(refused, SinkError::Unavailable { .. }),
                "{refused:?}"
            );
            refused.to_string()
        };
        let other = FileSink::new(dir.to_owned(), feed(2));
        let message = said(&other).await;
        assert!(message.contains("another database"), "{message}");
        fs::write(dir.join("7.jsonl"), "a letter\n").unwrap();
        let message = said(&sink).await;
        assert!(
            message.contains("7.jsonl: the last line is no event"),
            "{message}"
        );
        let text = fs::read_to_string(dir.join("7.jsonl")).unwrap();
        assert_eq!(text, "a letter\n");
        fs::write(dir.join("7.jsonl"), "").unwrap();
        let held = File::open(dir.join("7.jsonl")).unwrap();
        held.lock().unwrap();
        let message = said(&sink).await;
        assert!(message.contains("another worker"), "{message}");
        drop(held);
        sink.send(Partition(7), &[gap(2)]).await.unwrap();
    }
}
