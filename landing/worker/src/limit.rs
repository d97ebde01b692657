//! The deadline of a command. Each command ends by its deadline, even if a tier hangs or nobody
//! reads its output.

use std::io::Write as _;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use tokio::time::{Instant, sleep_until};

use crate::exit::{self, Exit};
use crate::signal;

/// A deadline as given on the command line, such as 30s or 5min.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// The longest deadline: a year. The clock can't represent much later moments.
const DEADLINE_MAX: Duration = Duration::from_hours(365 * 24);
/// The time for an orderly end after the deadline. Then the process exits in any state.
const GRACE: Duration = Duration::from_secs(10);
/// The time for the last message of a process, which may have no reader.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl FromStr for Deadline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = storage_model::parse_duration(text)
            .map_err(|error| format!("{error}: give a time such as 30s, 5min or 2h"))?;
        if duration.is_zero() {
            return Err("a deadline must be more than 0, such as 30s, 5min or 2h".to_owned());
        }
        Ok(Self(duration))
    }
}

impl Deadline {
    /// The moment of the deadline, counted from now.
    #[must_use]
    pub fn from_now(self) -> Instant {
        Instant::now() + self.0.min(DEADLINE_MAX)
    }

    /// The error after the deadline.
    #[must_use]
    pub fn passed(self) -> anyhow::Error {
        exit::error(
            Exit::Late,
            format!(
                "the deadline of {} has passed (--deadline)",
                humantime::format_duration(self.0)
            ),
        )
    }
}

/// Does a command's work until its deadline or a signal. Then drops the work.
///
/// # Errors
/// The errors of the work, or the deadline passed.
pub async fn within(
    deadline: Deadline,
    work: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    let until = deadline.from_now();
    end_after(until);
    tokio::select! {
        biased;
        () = signal::stop("ended by a signal") => Ok(Exit::Signal),
        ended = work => ended,
        () = sleep_until(until) => Err(deadline.passed()),
    }
}

/// Exits the process some seconds after this moment, if it has not ended by itself. A command can
/// hang where no timer reaches it, for example in a write to a pipe without a reader.
pub fn end_after(until: Instant) {
    let left = until
        .saturating_duration_since(Instant::now())
        .saturating_add(GRACE);
    // Without a thread the command still has the timer of its deadline.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(left);
        // In its own thread, because this output may have no reader either.
        let _ = std::thread::Builder::new().spawn(|| {
            writeln!(
                std::io::stderr(),
                "error: the deadline has passed (--deadline), and the command does not end"
            )
        });
        std::thread::sleep(LAST_WORDS);
        std::process::exit(i32::from(Exit::Late as u8));
    });
}

/// Threads of a program beside those that poll: for deadlines, names, files and the storage.
const SPARE_THREADS: usize = 4;

/// Checks that the system gives this process the threads that it needs. A runtime that lacks one
/// panics, and a command that lacks one hangs.
///
/// # Errors
/// It does not. The message names the limit.
pub fn enough_threads() -> anyhow::Result<()> {
    let needed = SPARE_THREADS + std::thread::available_parallelism().map_or(1, usize::from);
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let wait = |done: Arc<(Mutex<bool>, Condvar)>| {
        let (flag, changed) = &*done;
        let held = locked(flag);
        drop(changed.wait_while(held, |done| !*done));
    };
    // All of them live at once.
    let threads: Result<Vec<_>, _> = (0..needed)
        .map(|_| {
            let done = Arc::clone(&done);
            std::thread::Builder::new().spawn(move || wait(done))
        })
        .collect();
    *locked(&done.0) = true;
    done.1.notify_all();
    threads.map(drop).map_err(|error| {
        let message = format!(
            "the system gives this process fewer than {needed} threads: {error}; raise the limit of processes (ulimit -u, TasksMax of systemd, \
             pids of the container), or the memory"
        );
        exit::error(Exit::Settings, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_no_time_is_refused_with_an_example() {
        assert_eq!("90s".parse(), Ok(Deadline(Duration::from_secs(90))));
        for wrong in ["", "0s", "soon", "-5s", "5 parsecs"] {
            assert!(
                wrong
                    .parse::<Deadline>()
                    .is_err_and(|error| error.contains("5min")),
                "{wrong}"
            );
        }
    }
}
