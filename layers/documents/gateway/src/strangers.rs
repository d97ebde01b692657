//! Connections on which nobody has shown a token or a ticket yet. Once all places are taken, the one
//! that came first ends for a further connection. So callers without a token keep no other one out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All strangers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Present>>);

#[derive(Debug, Default)]
struct Present {
    /// The number of connections that came so far.
    came: u64,
    /// Those that are there, in the order in which they came.
    strangers: BTreeMap<u64, Arc<Notify>>,
}

impl Strangers {
    /// A further connection.
    pub(crate) fn add(&self) -> Stranger {
        let go = Arc::<Notify>::default();
        let mut present = self.present();
        present.came += 1;
        let number = present.came;
        present.strangers.insert(number, Arc::clone(&go));
        let name = Name {
            number,
            all: self.clone(),
        };
        Stranger { name, go }
    }

    /// Asks the stranger that came first to go. Returns whether there was one.
    pub(crate) fn ask_one_to_go(&self) -> bool {
        let first = self.present().strangers.pop_first();
        if let Some((_, go)) = &first {
            go.notify_one();
        }
        first.is_some()
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, until it ends or its caller is known.
#[derive(Debug)]
pub(crate) struct Stranger {
    name: Name,
    go: Arc<Notify>,
}

impl Stranger {
    /// The way from a request to its connection.
    pub(crate) fn name(&self) -> Name {
        self.name.clone()
    }

    /// Waits until the connection has to go. One whose caller was known before never has to.
    pub(crate) async fn goes(&self) {
        self.go.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.name.is_known();
    }
}

/// Names the connection of a request.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    number: u64,
    all: Strangers,
}

impl Name {
    /// The request has a token or a ticket, so its connection is no stranger any more.
    pub(crate) fn is_known(&self) {
        self.all.present().strangers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_first_stranger_goes_and_no_known_caller_does() {
        let strangers = Strangers::default();
        let [first, known, ended, last] = [(); 4].map(|()| strangers.add());
        known.name().is_known();
        drop(ended);
        for stranger in [&first, &last] {
            assert!(stranger.goes().now_or_never().is_none());
            assert!(strangers.ask_one_to_go());
            assert!(stranger.goes().now_or_never().is_some());
        }
        assert!(!strangers.ask_one_to_go());
        assert!(known.goes().now_or_never().is_none());
    }
}
