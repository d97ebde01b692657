//! Panics as failures (H49). A panic ends only its own work. It is counted, and the caller of the
//! work gets an error.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;

use crate::TierError;

/// The result of some work. A panic becomes [`TierError::Panicked`]. The work shares only sets
/// behind mutexes with other work, and each operation leaves these sets whole.
pub async fn caught<T>(
    panics: &AtomicU64,
    work: impl Future<Output = Result<T, TierError>>,
) -> Result<T, TierError> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| {
            panics.fetch_add(1, Ordering::Relaxed);
            Err(TierError::Panicked {
                words: words(&*panic),
            })
        })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
