//! Work that several callers share. A task does the work, so no caller waits for another caller's
//! future.
//!
//! | type | sharing |
//! | --- | --- |
//! | [`Coalescer`] | callers join the next group of their key, and a carrier takes batches of groups |
//! | [`SingleFlight`] | callers share the work that is under way |
//! | [`locked`] | the one way to lock a mutex |
//!
//! If the work panics, or if its runtime ends, its callers learn that there is no answer.

mod coalescer;
mod flight;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use coalescer::{Carrier, Coalescer, Group};
pub use flight::SingleFlight;

/// Locks a mutex, even if a thread panicked while it held the lock. For values of which each change is whole.
///
/// ```
/// # use std::sync::Mutex;
/// # use storage_coalesce::locked;
/// let count = Mutex::new(1);
/// *locked(&count) += 1;
/// assert_eq!(*locked(&count), 2);
/// ```
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
