//! Warnings of the storage that nobody would see.

use std::fmt;
use std::io::Write as _;
use std::sync::Once;

static SAID: Once = Once::new();

/// Says once for each process that there are warnings, if no `tracing` subscriber is installed. Called
/// with a warning, so that a program without any is left alone.
pub(crate) fn warn_once() {
    if !is_unheard() {
        return;
    }
    SAID.call_once(|| {
        say(format_args!(
            "the storage has logged a warning, and nobody sees it: no `tracing` subscriber is installed. Install one before the \
             storage is opened (`tracing_subscriber::fmt::init()` of the crate tracing-subscriber), or \
             `tracing::subscriber::NoSubscriber` to silence this line"
        ));
    });
}

/// Whether no subscriber is installed.
pub(crate) fn is_unheard() -> bool {
    !tracing::dispatcher::has_been_set()
}

/// Says this on stderr.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    // A closed stderr is the choice of the program.
    let _ = writeln!(std::io::stderr(), "storage-sdk: {what}");
}
