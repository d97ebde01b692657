//! A panic ends the work that it befalls, and is counted, and a failure like any other to who asked
//! for that work (H49).

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;

use crate::TierError;

/// The result of some work, a panic included. What the work shares with others are sets behind
/// mutexes, whole after each operation.
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
