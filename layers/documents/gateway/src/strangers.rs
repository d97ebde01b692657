//! Connections on which nobody has shown a token or a ticket yet. Once all places are taken, the one
//! that came first ends for a further connection. So callers without a token that stay keep no other
//! one out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use storage_coalesce::locked;
use tokio::sync::Notify;

use crate::activity::AnswerHold;

/// All strangers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<PresentConnections>>);

#[derive(Debug, Default)]
struct PresentConnections {
    /// The number of connections that came so far.
    came: u64,
    /// Those that are there.
    connections: HashMap<u64, Connection>,
    /// The strangers among them, in the order in which they came.
    strangers: BTreeMap<u64, Arc<Notify>>,
}

#[derive(Debug, Default)]
struct Connection {
    go: Arc<Notify>,
    /// How often a caller was known on it, and has not left. One with the token never leaves.
    callers: usize,
    /// It was asked to go.
    goes: bool,
}

impl Strangers {
    /// A further connection.
    pub(crate) fn add(&self) -> Stranger {
        let connection = Connection::default();
        let go = Arc::clone(&connection.go);
        let mut present = self.present();
        present.came += 1;
        let number = present.came;
        present.strangers.insert(number, Arc::clone(&go));
        present.connections.insert(number, connection);
        let name = Name {
            number,
            all: self.clone(),
        };
        Stranger { name, go }
    }

    /// Asks the stranger that came first to go. Returns whether there was one.
    pub(crate) fn ask_one_to_go(&self) -> bool {
        let mut present = self.present();
        let Some((number, go)) = present.strangers.pop_first() else {
            return false;
        };
        if let Some(connection) = present.connections.get_mut(&number) {
            connection.goes = true;
        }
        go.notify_one();
        true
    }

    fn present(&self) -> MutexGuard<'_, PresentConnections> {
        locked(&self.0)
    }
}

/// A connection, until it ends.
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
        let mut present = self.name.all.present();
        present.strangers.remove(&self.name.number);
        present.connections.remove(&self.name.number);
    }
}

/// Names the connection of a request.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    number: u64,
    all: Strangers,
}

impl Name {
    /// The caller has the token, so the connection keeps its place for good. False if it was asked to go
    /// before.
    pub(crate) fn is_known(&self) -> bool {
        let mut present = self.all.present();
        present.strangers.remove(&self.number);
        let Some(connection) = present.connections.get_mut(&self.number) else {
            return false;
        };
        connection.callers = connection.callers.saturating_add(1);
        !connection.goes
    }

    /// The caller has a ticket, so the connection keeps its place until the visit is dropped. `None` if it
    /// was asked to go before.
    pub(crate) fn visit(self) -> Option<Visit> {
        self.is_known().then(|| Visit(self))
    }
}

/// A caller that is known for a while.
#[derive(Debug)]
pub(crate) struct Visit(Name);

impl AnswerHold for Visit {}

/// Without a caller, the connection is a stranger again.
impl Drop for Visit {
    fn drop(&mut self) {
        let Name { number, all } = &self.0;
        let mut present = all.present();
        let Some(connection) = present.connections.get_mut(number) else {
            return;
        };
        connection.callers = connection.callers.saturating_sub(1);
        if connection.callers == 0 && !connection.goes {
            let go = Arc::clone(&connection.go);
            present.strangers.insert(*number, go);
        }
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
        assert!(known.name().is_known());
        drop(ended);
        for stranger in [&first, &last] {
            assert!(stranger.goes().now_or_never().is_none());
            assert!(strangers.ask_one_to_go());
            assert!(stranger.goes().now_or_never().is_some());
            // A request that comes now is not begun.
            assert!(stranger.name().visit().is_none());
        }
        assert!(!strangers.ask_one_to_go());
        assert!(known.goes().now_or_never().is_none());
    }

    #[test]
    fn a_connection_whose_last_visit_has_ended_is_a_stranger_again() {
        let strangers = Strangers::default();
        let connection = strangers.add();
        let visits = [(); 2].map(|()| connection.name().visit().unwrap());
        for visit in visits {
            assert!(!strangers.ask_one_to_go());
            drop(visit);
        }
        assert!(strangers.ask_one_to_go());
        let ended = strangers.add().name();
        assert!(ended.visit().is_none() && !strangers.ask_one_to_go());
    }
}
