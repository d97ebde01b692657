//! One warning on stderr, if nobody would see the warnings of the storage.

use std::io::Write as _;
use std::sync::Once;

static SAID: Once = Once::new();

/// Warns once for each process if no `tracing` subscriber is installed.
pub(crate) fn warn_once() {
    if tracing::dispatcher::has_been_set() {
        return;
    }
    SAID.call_once(|| {
        // A closed stderr is the choice of the program.
        let _ = writeln!(
            std::io::stderr(),
            "storage-sdk: no `tracing` subscriber is installed, so nobody sees warnings such as \"writes are refused\"; install one before \
             the storage is opened (`tracing_subscriber::fmt::init()`), or `tracing::subscriber::NoSubscriber` to silence this line"
        );
    });
}
