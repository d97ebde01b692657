//! This process as a holder of sessions: its sessions, and its beats.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use storage_coalesce::locked;
use storage_config::{SessionSettings, process_name};
use storage_model::{OpId, Partition};
use tokio::sync::Notify;

use super::hold::Hold;
use crate::{Error, Kind, Result};

/// This process as a holder. It starts to beat with its first session.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(super) id: OpId,
    pub(super) name: String,
    pub(super) lease: Duration,
    max: usize,
    /// The sessions by their tokens. A token is added before its opening is sent, and stays until
    /// its end is known. The sweep ends any other session that the hot tier has under this holder.
    // A plain mutex, held only for map operations and never across an await. Sorted by token, so
    // that a seed replays exactly.
    sessions: Mutex<BTreeMap<OpId, Weak<Hold>>>,
    begun: AtomicBool,
    closed: AtomicBool,
    /// Whether each partition has a beat of this holder.
    beats: AtomicBool,
    // Not a watch channel, which wakes its waiters in an order of its own.
    heard: Notify,
    claims: Notify,
    /// The number of openings whose owners are being loaded.
    loads: AtomicUsize,
    lost: AtomicU64,
    dropped: AtomicU64,
}

/// A slot for a session that is being opened. A drop frees it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    holder: &'a Holder,
    pub(super) token: OpId,
    taken: bool,
}

impl Place<'_> {
    /// The session is open.
    pub(super) fn take(mut self, hold: &Arc<Hold>) {
        self.taken = true;
        self.holder
            .sessions()
            .insert(self.token, Arc::downgrade(hold));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.holder.forget(self.token);
        }
    }
}

/// An opening whose owner is being loaded.
pub(super) struct Loading<'a> {
    loads: &'a AtomicUsize,
    others: usize,
}

impl Loading<'_> {
    /// The number of other loads when this one began.
    pub(super) fn others(&self) -> usize {
        self.others
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.loads.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Holder {
    pub(crate) fn new(settings: &SessionSettings, id: OpId) -> Self {
        Self {
            id,
            name: settings.name.clone().unwrap_or_else(process_name),
            lease: settings.lease,
            max: usize::try_from(settings.max).unwrap_or(usize::MAX),
            sessions: Mutex::default(),
            begun: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            beats: AtomicBool::new(false),
            heard: Notify::new(),
            claims: Notify::new(),
            loads: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<OpId, Weak<Hold>>> {
        locked(&self.sessions)
    }

    /// Whether the caller must start the tasks of the holder.
    pub(super) fn begins(&self) -> bool {
        !self.begun.swap(true, Ordering::SeqCst)
    }

    /// Whether each partition has a beat of this holder.
    pub(super) fn is_heard(&self) -> bool {
        self.beats.load(Ordering::SeqCst)
    }

    /// Each partition has a beat of this holder.
    pub(super) fn heard(&self) {
        self.beats.store(true, Ordering::SeqCst);
        self.heard.notify_waiters();
    }

    /// Ready once each partition has a beat of this holder.
    pub(super) async fn until_heard(&self) {
        let heard = self.heard.notified();
        // A future of `notify_waiters` sees each notification after its creation.
        if !self.is_heard() {
            heard.await;
        }
    }

    /// A slot for one more session.
    ///
    /// # Errors
    /// `Overloaded`: there are too many sessions. `Closed`: the storage was closed.
    pub(super) fn place(&self, token: OpId) -> Result<Place<'_>> {
        let mut sessions = self.sessions();
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                Kind::Closed,
                "the storage was closed; open it again, or stop the work that still uses it",
            ));
        }
        if sessions.len() >= self.max {
            let message = format!(
                "this process holds {} sessions, the most that sessions.max allows; end some",
                sessions.len()
            );
            return Err(Error::overloaded(message, Duration::from_secs(1)));
        }
        sessions.insert(token, Weak::new());
        Ok(Place {
            holder: self,
            token,
            taken: false,
        })
    }

    pub(super) fn forget(&self, token: OpId) {
        self.sessions().remove(&token);
    }

    pub(super) fn loading(&self) -> Loading<'_> {
        Loading {
            loads: &self.loads,
            others: self.loads.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether this process knows the session: it is open, or being opened.
    pub(super) fn knows(&self, token: OpId) -> bool {
        self.sessions().contains_key(&token)
    }

    pub(super) fn open_one(&self, token: OpId) -> Option<Arc<Hold>> {
        self.sessions().get(&token).and_then(Weak::upgrade)
    }

    /// The open sessions.
    pub(super) fn open(&self) -> Vec<Arc<Hold>> {
        self.sessions().values().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn open_in(&self, partition: Partition) -> Vec<Arc<Hold>> {
        self.open()
            .into_iter()
            .filter(|hold| hold.partition == partition)
            .collect()
    }

    /// No more sessions are opened.
    pub(super) fn close(&self) {
        let _sessions = self.sessions();
        self.closed.store(true, Ordering::SeqCst);
    }

    /// A session is suspect. It is claimed at once.
    pub(super) fn claim_soon(&self) {
        self.claims.notify_one();
    }

    /// Ready when a session becomes suspect.
    pub(super) async fn suspects(&self) {
        self.claims.notified().await;
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of current, lost and dropped sessions. A dropped session had no end.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let open = u64::try_from(self.sessions().len()).unwrap_or(u64::MAX);
        [
            open,
            self.lost.load(Ordering::Relaxed),
            self.dropped.load(Ordering::Relaxed),
        ]
    }
}
