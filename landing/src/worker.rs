//! The state of one worker.

use std::sync::Mutex;
use std::time::Duration;

use storage_config::LandingSettings;
use storage_model::OpId;
use storage_tiers::{TierError, Tiers};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::claim::Claims;
use crate::expiring::Expiring;
use crate::hooks::Permit;
use crate::limiter::{Limiter, Limits};
use crate::metrics::Metrics;
use crate::notes::LandedNotes;
use crate::pulse::Pulse;

/// The state that the tasks of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) tiers: Tiers,
    pub(crate) settings: LandingSettings,
    pub(crate) limits: Limits,
    /// How long a session holder must be silent until its sessions lapse.
    pub(crate) lease: Duration,
    pub(crate) claims: Claims,
    /// Whether the worker may claim partitions.
    pub(crate) permit: Permit,
    pub(crate) metrics: Metrics,
    /// Limits the concurrent transactions and the rows of each.
    pub(crate) limiter: Limiter,
    /// When the error maps were last read. Only the running pass uses it.
    pub(crate) replayed: Mutex<Option<Instant>>,
    /// When old events were last dropped. As above.
    pub(crate) dropped: Mutex<Option<Instant>>,
    /// When the database was last compared with the one that marks on probation landed to. As
    /// above.
    pub(crate) looked: Mutex<Option<Instant>>,
    /// When the tiers were last found to belong together. As above.
    pub(crate) compared: Mutex<Option<Instant>>,
    /// The windows of probation that the worker saw leave. As above.
    pub(crate) expiring: Expiring,
    /// The ends of feeds that the worker saw. As above.
    pub(crate) landed_notes: LandedNotes,
    /// The error of the last pass, if an operator must act before anything lands.
    pub(crate) stuck: Mutex<Option<TierError>>,
    /// When the loop last moved.
    pub(crate) pulse: Pulse,
    /// The seed of the jitter of waits.
    pub(crate) jitter: OpId,
    /// Whether the process is about to end, so that nothing more gathers.
    pub(crate) hurry: watch::Sender<bool>,
}
