//! For how long a command may take. Each ends by its deadline, also if a tier hangs or nobody takes
//! its output.

use std::io::Write as _;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::exit::{self, Exit};
use crate::signal;

/// For how long a command may take, as it is given: such as 30s or 5min.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// The longest deadline, a year: later moments the clock can't tell.
const DEADLINE_MAX: Duration = Duration::from_hours(365 * 24);
/// What a command may take after its deadline to end in order. Then the process ends, whatever it
/// is busy with.
const GRACE: Duration = Duration::from_secs(10);
/// For how long the last words of a process may take, where nobody may read them.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl FromStr for Deadline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{error}; it is a time such as 30s, 5min or 2h"))?;
        if duration.is_zero() {
            return Err("a deadline is more than 0, such as 30s, 5min or 2h".to_owned());
        }
        Ok(Self(duration))
    }
}

impl Deadline {
    /// The moment, counted from now.
    #[must_use]
    pub fn from_now(self) -> Instant {
        Instant::now() + self.0.min(DEADLINE_MAX)
    }

    /// What is said when it has passed.
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

/// Does a command's work until its deadline or a signal; then the work is dropped where it stands.
///
/// # Errors
/// Those of the work; the deadline passed.
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

/// Ends the process some seconds after this moment, if it has not ended by itself: a command may be
/// held up where no timer reaches it, as by a pipe that nobody reads.
pub fn end_after(until: Instant) {
    let left = until
        .saturating_duration_since(Instant::now())
        .saturating_add(GRACE);
    std::thread::spawn(move || {
        std::thread::sleep(left);
        // In a thread of its own, since nobody may read this either.
        std::thread::spawn(|| {
            writeln!(
                std::io::stderr(),
                "error: the deadline has passed (--deadline), and the command does not end"
            )
        });
        std::thread::sleep(LAST_WORDS);
        std::process::exit(i32::from(Exit::Late as u8));
    });
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
