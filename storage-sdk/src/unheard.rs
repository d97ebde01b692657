//! One word on stderr where nobody would hear the storage's warnings.

use std::io::Write as _;
use std::sync::Once;

static SAID: Once = Once::new();

/// Says once a process that no `tracing` subscriber is installed, if that is so.
pub(crate) fn warn_once() {
    if tracing::dispatcher::has_been_set() {
        return;
    }
    SAID.call_once(|| {
        // A closed stderr is the program's own choice.
        let _ = writeln!(
            std::io::stderr(),
            "storage-sdk: no `tracing` subscriber is installed, so warnings such as \"writes are refused\" are lost; install one before \
             the storage is opened (`tracing_subscriber::fmt::init()`), or `tracing::subscriber::NoSubscriber` to be rid of this line"
        );
    });
}
