//! `import`: write owners from JSON lines through the SDK.
//!
//! | module | concept |
//! | --- | --- |
//! | `file` | the lines of a file, or why it holds no owners |
//! | `line`, `json` | one line: an owner and its fields, or a fault |
//! | `order` | the lines that can be written concurrently |
//! | `write` | the writes of one line, repeated until their outcome is known |
//! | `course` | the import from its first line to its last |
//! | `total` | the fate of the lines |

mod course;
mod file;
mod json;
mod line;
mod order;
mod total;
mod write;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use storage_config::Settings;
use storage_sdk::CloseReport;
use tokio::fs::File;
use tokio::io::BufReader;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::{open, progress, signal};

use course::{Course, End};
use file::{LINE_BYTES_MAX, Lines};
use order::Order;
use total::Total;
use write::Writer;

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// JSON lines: {"app","region","logic_type","owner_id","fields":{name: text, a number, or
    /// {"base64": …}}}. With -, standard input
    file: PathBuf,
    /// Lines under way at the same time. Lines of one owner follow each other
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// Begin with this line, to continue an earlier import
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// Write lines of `export --unlanded` also over owners that have changed since. Without it such
    /// an owner stays as it is, and its line counts as bad
    #[arg(long)]
    overwrite: bool,
    /// Give up after this long, and show the line to continue from
    #[arg(long, default_value = "1day")]
    deadline: Deadline,
}

impl Args {
    fn is_standard_input(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// The file's name in messages.
    fn named(&self) -> String {
        if self.is_standard_input() {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        }
    }
}

/// The buffer for reading the file, in bytes.
const READ: usize = 256 << 10;
/// The minimum time for landing in embedded mode, even after the deadline. Unlanded data is lost
/// with the process.
const CLOSE_MIN: Duration = Duration::from_secs(5);
/// The maximum time for landing in embedded mode.
const CLOSE_MAX: Duration = Duration::from_mins(5);

/// Writes all lines, many at once, but those of one owner in their order. Waits while a tier is
/// away or rejects writes, until the deadline or a signal. Then finishes the writes under way and
/// reports the line to continue from.
///
/// A bad line is reported with its number, and the others go on. Of many lines that hold no owner
/// only the first are printed. Ends with 1 if there was a bad line, or if data is missing in the
/// database and nobody is left to land it.
///
/// # Errors
/// The file can't be read or does not hold one owner a line, the storage can't be opened, or an
/// operator must act before any write succeeds. The lines before the error are written.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let until = args.deadline.from_now();
    limit::end_after(until);
    let stop = signal::stop("stopping after the lines under way: a second signal exits at once");
    tokio::pin!(stop);
    let begun = tokio::select! {
        biased;
        () = &mut stop => return Ok(Exit::Signal),
        begun = begin(&args, &settings, until) => begun?,
    };
    let RunningImport {
        mut course,
        hurry,
        bar,
    } = begun;
    let mut end = course.run(stop.as_mut(), until, &hurry).await;
    bar.finish_and_clear();
    let left = until
        .saturating_duration_since(Instant::now())
        .clamp(CLOSE_MIN, CLOSE_MAX);
    let storage = &course.writer.storage;
    let report = tokio::select! {
        biased;
        () = stop, if !matches!(end, End::Signal) => {
            // An earlier end is the one to report.
            if let End::OfFile = end {
                end = End::Signal;
            }
            storage.close(CLOSE_MIN).await
        }
        report = storage.close(left) => report,
    };
    conclude(&args, &course.total, end, &report)
}

struct RunningImport {
    course: Course<BufReader<File>>,
    hurry: watch::Sender<bool>,
    bar: ProgressBar,
}

async fn begin(args: &Args, settings: &Settings, until: Instant) -> anyhow::Result<RunningImport> {
    let named = || args.named();
    let file = opened(args, until).await?;
    // It is 0 for a pipe.
    let length = file.metadata().await.with_context(named)?.len();
    let storage = open::storage_by(settings.clone(), until).await?;
    let (hurry, hurried) = watch::channel(false);
    let bar = progress::bar(length, "bytes");
    let writer = Writer {
        storage,
        limits: settings.limits,
        call: settings.hot.operation_deadline,
        overwrite: args.overwrite,
        until,
        hurry: hurried,
        said: Mutex::default(),
        room: Mutex::default(),
    };
    let course = Course {
        name: named(),
        lines: Lines::new(BufReader::with_capacity(READ, file), LINE_BYTES_MAX),
        first: args.from_line,
        order: Order::new(usize::try_from(args.at_once)?),
        writer,
        total: Total::new(args.from_line),
        bar: bar.clone(),
    };
    Ok(RunningImport { course, hurry, bar })
}

async fn opened(args: &Args, until: Instant) -> anyhow::Result<File> {
    let named = || args.named();
    if args.is_standard_input() {
        // It is open already. Opening its path again fails for a socket.
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        return Ok(File::from_std(input.with_context(named)?.into()));
    }
    // Opening a pipe waits for a writer.
    let opened = timeout_at(until, File::open(&args.file))
        .await
        .map_err(|_| args.deadline.passed());
    opened?.with_context(named)
}

/// Reports the fate of the lines.
fn conclude(args: &Args, total: &Total, end: End, report: &CloseReport) -> anyhow::Result<Exit> {
    if let Some(unprinted) = total.unprinted() {
        // A failure does not matter here, because the total counts all bad lines.
        let _ = writeln!(std::io::stderr(), "{}: {unprinted}", args.named());
    }
    writeln!(std::io::stdout(), "{total}")?;
    if let Some(left) = left(report) {
        let _ = writeln!(std::io::stderr(), "error: {left}");
    } else if !matches!(end, End::OfFile | End::Unfit(_)) {
        writeln!(std::io::stdout(), "{}", total.so_far())?;
    }
    match end {
        End::Signal => Ok(Exit::Signal),
        End::Deadline => Err(args.deadline.passed()),
        End::Unreadable(error) => Err(error).with_context(|| args.named()),
        End::Hopeless(error) => Err(error.into()),
        End::Unfit(error) => Err(error),
        End::OfFile if report.unlanded.is_some_and(|owners| owners > 0) => Ok(Exit::Late),
        End::OfFile if total.bad > 0 || left(report).is_some() => Ok(Exit::Found),
        End::OfFile => Ok(Exit::Fine),
    }
}

/// The data that may be missing in the database after the close. `None` if all is there.
fn left(report: &CloseReport) -> Option<String> {
    let under_way = report.under_way;
    let unlanded = report.unlanded.unwrap_or_default();
    let errors = report.errors.unwrap_or_default();
    (under_way + unlanded + errors > 0).then(|| {
        format!(
            "{under_way} writes were still under way, {unlanded} marks did not land, {errors} owners have rejected rows: \
             this data may be lost with the process, so import the file again"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_closing_left_is_counted() {
        let mut report = CloseReport::default();
        assert_eq!(left(&report), None);
        let counts: [fn(&mut CloseReport, u64); 3] = [
            |r, count| r.under_way = count,
            |r, count| r.unlanded = Some(count),
            |r, count| r.errors = Some(count),
        ];
        for count in counts {
            count(&mut report, 7);
            assert!(
                left(&report).is_some_and(|left| left.contains('7')),
                "{report:?}"
            );
            count(&mut report, 0);
        }
    }
}
