//! Progress bars on stderr. Logs do not break them.

use std::io::{self, Write};
use std::sync::OnceLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

static BARS: OnceLock<MultiProgress> = OnceLock::new();

fn bars() -> &'static MultiProgress {
    BARS.get_or_init(MultiProgress::new)
}

/// A bar of this length. Hidden if stderr is not a terminal.
#[must_use]
pub fn bar(length: u64, unit: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!(
        "{{bar:30}} {{pos}}/{{len}} {unit}  {{per_sec}}  {{elapsed}}"
    ));
    let bar = bars().add(ProgressBar::new(length));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A bar of this length with a message. Hidden if stderr is not a terminal.
#[must_use]
pub fn phases(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {msg}");
    let bar = bars().add(ProgressBar::new(length));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows on a bar how much is left. The bar's length is the maximum so far.
pub fn shrink(bar: &ProgressBar, left: u64) {
    let length = bar.length().unwrap_or_default().max(left);
    bar.set_length(length);
    bar.set_position(length - left);
}

/// The target of logs: stderr, above the bars.
#[must_use]
pub fn writer() -> impl Write {
    struct AboveBars;
    impl Write for AboveBars {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            bars().suspend(|| io::stderr().write_all(bytes))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            io::stderr().flush()
        }
    }
    AboveBars
}
