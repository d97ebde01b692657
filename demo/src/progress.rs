//! The shown progress of a play.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::game::Look;
use crate::table::grouped;

/// A bar for a play of this length. Hidden if stderr is not a terminal.
#[must_use]
pub fn bar(time: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {msg}");
    ProgressBar::new(millis(time))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows looks at the play on a bar whose length is the play in milliseconds.
pub fn show(bar: &ProgressBar) -> impl FnMut(Look<'_>) {
    |look| {
        bar.set_position(millis(look.time));
        let (writes, marks) = (grouped(look.writes), grouped(look.stats.marks));
        bar.set_message(format!(
            "playing: {writes} writes acknowledged, {marks} marks wait to land"
        ));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
