//! An import from its first line to its last.

use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use indicatif::ProgressBar;
use storage_sdk::{Error, Owner};
use tokio::io::AsyncBufRead;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::exit::{self, Exit};

use super::file::{LINE_BYTES_MAX, Lines, RawLine, unfit};
use super::line;
use super::order::{Job, Order};
use super::total::Total;
use super::write::{LineOutcome, Writer};

/// Why the import stops reading lines.
#[derive(Debug)]
pub(super) enum End {
    OfFile,
    Signal,
    Deadline,
    /// Reading the file failed.
    Unreadable(std::io::Error),
    /// The file is in another encoding or form, or too short.
    Unfit(anyhow::Error),
    /// An operator must act first.
    Hopeless(Error),
}

/// The lines that an import has read, and the fate of each.
#[derive(Debug)]
pub(super) struct Course<R> {
    /// The file's name.
    pub(super) name: String,
    pub(super) lines: Lines<R>,
    /// The first line to write.
    pub(super) first: u64,
    pub(super) order: Order,
    pub(super) writer: Writer,
    pub(super) total: Total,
    pub(super) bar: ProgressBar,
}

/// A line that is being written.
type Writing<'a> = LocalBoxFuture<'a, WrittenLine>;

struct WrittenLine {
    number: u64,
    owner: Owner,
    bytes: u64,
    ended: LineOutcome,
}

fn begin(writer: &Writer, job: Job) -> Writing<'_> {
    let Job {
        number,
        entry,
        bytes,
    } = job;
    Box::pin(async move {
        let owner = entry.owner.clone();
        WrittenLine {
            number,
            owner,
            bytes,
            ended: writer.write(entry).await,
        }
    })
}

impl<R: AsyncBufRead + Unpin> Course<R> {
    /// Reads and writes until the end of the file, the deadline or a signal. Then finishes the
    /// writes under way. `hurry` stops writes from waiting any longer.
    pub(super) async fn run(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        until: Instant,
        hurry: &watch::Sender<bool>,
    ) -> End {
        let Self {
            name,
            lines,
            first,
            order,
            writer,
            total,
            bar,
        } = self;
        let mut progress = Progress {
            name,
            total,
            bar,
            is_known: false,
        };
        let mut writing = FuturesUnordered::new();
        let mut end = None;
        while end.is_none() || !writing.is_empty() {
            let ends = tokio::select! {
                biased;
                () = stop.as_mut(), if !is_early(end.as_ref()) => Some(End::Signal),
                () = sleep_until(until), if !is_early(end.as_ref()) => Some(End::Deadline),
                Some(written) = writing.next() => progress.written(order, written, |job| writing.push(begin(writer, job))),
                read = lines.next(), if end.is_none() && order.has_room() => match read {
                    Ok(Some((number, line, bytes))) => match progress.read(number, *first, line, bytes, writer) {
                        Ok(job) => {
                            writing.extend(job.and_then(|job| order.add(job)).map(|job| begin(writer, job)));
                            None
                        }
                        Err(error) => Some(End::Unfit(error)),
                    },
                    Ok(None) => Some(beyond(*first, lines.count()).map_or(End::OfFile, |why| End::Unfit(named(name, &why)))),
                    Err(error) => Some(End::Unreadable(error)),
                },
            };
            if let Some(ends) = ends {
                if is_early(Some(&ends)) {
                    hurry.send_replace(true);
                }
                end = Some(first_of(end, ends));
            }
        }
        end.unwrap_or(End::OfFile)
    }
}

/// The first end stays, unless it was only the end of the file. A signal is received once, so it
/// must not be lost.
fn first_of(before: Option<End>, now: End) -> End {
    before.filter(|end| is_early(Some(end))).unwrap_or(now)
}

/// Whether the import ends before the file does.
fn is_early(end: Option<&End>) -> bool {
    matches!(
        end,
        Some(End::Signal | End::Deadline | End::Unfit(_) | End::Hopeless(_))
    )
}

/// The fault of a start line beyond the end. `None` if the line exists or directly follows the last
/// one.
fn beyond(first: u64, count: u64) -> Option<String> {
    (first > count.saturating_add(1))
        .then(|| format!("there are {count} lines, so --from-line {first} is beyond the end"))
}

fn named(file: &str, why: &str) -> anyhow::Error {
    exit::error(Exit::Usage, format!("{file}: {why}"))
}

/// Counts the fate of lines, and reports bad ones.
struct Progress<'a> {
    name: &'a str,
    total: &'a mut Total,
    bar: &'a ProgressBar,
    /// Whether a line that is not blank was read, so that the file is known to be fit.
    is_known: bool,
}

impl Progress<'_> {
    /// Takes a line that was read. Returns a job if the line must be written.
    fn read(
        &mut self,
        number: u64,
        first: u64,
        line: RawLine,
        bytes: u64,
        writer: &Writer,
    ) -> anyhow::Result<Option<Job>> {
        if !self.is_known {
            // Nothing is written yet.
            if let Some(why) = unfit(number, &line) {
                return Err(exit::error(Exit::Usage, format!("{} {why}", self.name)));
            }
            self.is_known = !line.is_blank();
        }
        let entry = match line {
            _ if number < first => Ok(None),
            RawLine::Whole(text) => line::read(&text, &writer.limits),
            RawLine::TooLong(_) => Err(format!(
                "the line is longer than {LINE_BYTES_MAX} bytes: divide its fields among several lines of the same owner"
            )),
        };
        match entry {
            Ok(Some(entry)) => {
                return Ok(Some(Job {
                    number,
                    entry,
                    bytes,
                }));
            }
            Ok(None) => {}
            Err(why) => {
                if self.total.count_unread() {
                    self.say(number, &why);
                }
            }
        }
        self.done(number, bytes);
        Ok(None)
    }

    /// Takes a line that was written or given up, and begins the next line of its owner.
    fn written(
        &mut self,
        order: &mut Order,
        written: WrittenLine,
        begin: impl FnOnce(Job),
    ) -> Option<End> {
        let WrittenLine {
            number,
            owner,
            bytes,
            ended,
        } = written;
        match ended {
            LineOutcome::Written(fields) => {
                self.total.written += 1;
                self.total.fields += fields as u64;
            }
            LineOutcome::Bad(why) => {
                // Always told, since nothing else names the owner.
                self.total.bad += 1;
                self.say(number, &why);
            }
            LineOutcome::Waiting | LineOutcome::Hopeless(_) => {
                self.total.waiting += 1 + order.given_up(&owner, bytes).len() as u64;
                return if let LineOutcome::Hopeless(error) = ended {
                    Some(End::Hopeless(error))
                } else {
                    None
                };
            }
        }
        self.done(number, bytes);
        if let Some(next) = order.ended(&owner, bytes) {
            begin(next);
        }
        None
    }

    fn say(&self, number: u64, why: &str) {
        let say = || writeln!(std::io::stderr(), "{}:{number}: {why}", self.name);
        // A failure does not matter here, because the count reports bad lines, too.
        let _ = self.bar.suspend(say);
    }

    fn done(&mut self, number: u64, bytes: u64) {
        self.total.done(number);
        self.bar.inc(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_an_import_first_is_what_is_told() {
        let hopeless = || End::Unfit(anyhow::anyhow!("a cause"));
        assert!(matches!(first_of(None, End::OfFile), End::OfFile));
        assert!(matches!(
            first_of(Some(End::OfFile), End::Signal),
            End::Signal
        ));
        assert!(matches!(
            first_of(Some(End::OfFile), hopeless()),
            End::Unfit(_)
        ));
        assert!(matches!(
            first_of(Some(hopeless()), End::Signal),
            End::Unfit(_)
        ));
        assert!(matches!(
            first_of(Some(End::Signal), hopeless()),
            End::Signal
        ));
        assert!(matches!(
            first_of(Some(End::Deadline), End::OfFile),
            End::Deadline
        ));
    }

    #[test]
    fn a_line_beyond_the_end_is_refused_and_the_next_after_the_last_is_not() {
        assert_eq!(beyond(1, 0), None);
        assert_eq!(beyond(8, 7), None);
        let why = beyond(9, 7);
        assert!(
            why.as_deref()
                .is_some_and(|why| why.contains("7 lines") && why.contains("--from-line 9")),
            "{why:?}"
        );
    }
}
