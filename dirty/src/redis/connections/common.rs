//! The state that all nodes of one engine share: time limits, the intercept, and the numbers of
//! incarnations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use storage_coalesce::locked;
use storage_config::RedisSettings;
use storage_model::{Ids, Intercept, Partition};

use super::space::Space;
use super::transport::Dial;
use crate::redis::Hooks;
use crate::redis::error::Failure;

/// The state that all nodes of one engine share.
pub(crate) struct Common {
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) wait_timeout: Duration,
    /// Whether commands that write are rejected.
    pub(crate) read_only: bool,
    /// A key that is named as all keys are, for questions about rights.
    pub(crate) some_key: String,
    intercept: Option<Arc<dyn Intercept>>,
    /// Opens connections in place of the network.
    pub(crate) dial: Option<Arc<dyn Dial>>,
    pub(crate) ids: Arc<dyn Ids>,
    /// The number of each incarnation, so that the hot path compares numbers. An incarnation gets
    /// its number when it is first seen.
    incarnations: Mutex<HashMap<String, u64>>,
    serials: AtomicU64,
}

impl Common {
    pub(crate) fn new(settings: &RedisSettings, hooks: Hooks, read_only: bool) -> Arc<Self> {
        Arc::new(Self {
            connections: usize::try_from(settings.connections.max(1)).unwrap_or(usize::MAX),
            connect_timeout: settings.connect_timeout,
            response_timeout: settings.response_timeout,
            wait_timeout: settings.wait_timeout,
            read_only,
            some_key: Space::new(&settings.prefix, 1).keys.part(Partition(0)),
            intercept: hooks.intercept,
            dial: hooks.dial,
            ids: hooks.ids,
            incarnations: Mutex::new(HashMap::new()),
            serials: AtomicU64::new(0),
        })
    }

    /// The number that stands for an incarnation. Never 0.
    pub(crate) fn number_of(&self, incarnation: &str) -> u64 {
        let mut numbers = locked(&self.incarnations);
        let next = u64::try_from(numbers.len())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        *numbers.entry(incarnation.to_owned()).or_insert(next)
    }

    /// A number above all earlier ones. It tells the order in which connections are opened and
    /// used.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Called before commands of these names are sent.
    pub(crate) async fn pass(&self, names: &[&'static str]) -> Result<(), Failure> {
        let Some(intercept) = &self.intercept else {
            return Ok(());
        };
        intercept
            .before(names)
            .await
            .map_err(|_| Failure::NoConnection("an intercept kept the commands back".to_owned()))
    }

    /// Whether there is an intercept, which gets the names of commands.
    pub(crate) fn is_intercepted(&self) -> bool {
        self.intercept.is_some()
    }

    /// Called after the commands were answered.
    pub(crate) async fn passed(&self, names: &[&'static str]) -> Result<(), Failure> {
        let Some(intercept) = &self.intercept else {
            return Ok(());
        };
        intercept
            .after(names)
            .await
            .map_err(|_| Failure::Lost("an intercept lost the answer".to_owned()))
    }

    /// Whether the commands must be sent once more.
    pub(crate) async fn passes_again(&self, names: &[&'static str]) -> bool {
        let Some(intercept) = &self.intercept else {
            return false;
        };
        intercept.again(names).await
    }

    /// The time limits of a connection.
    pub(crate) fn connection_config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
    }

    /// The longest time that a call with one answer takes.
    pub(crate) fn patience(&self) -> Duration {
        self.wait_timeout
            .saturating_add(self.connect_timeout)
            .saturating_add(self.response_timeout)
    }
}
