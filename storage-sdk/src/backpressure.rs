//! Back-pressure: writes wait or fail while too much waits to be landed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use storage_coalesce::locked;
use storage_config::BackpressureSettings;
use storage_dirty::{Hot, MemoryUse};
use storage_landing::{Backlog, BackpressureLevel};
use storage_tiers::Home;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{Error, Kind, Result};

/// From this value on, writes fail.
const REFUSED: u32 = 100;

/// Stands in place of a percentage: nothing watches or lands any more.
const ENDED: u32 = u32::MAX;

/// The state as last seen.
#[derive(Debug)]
pub(crate) struct Backpressure {
    settings: BackpressureSettings,
    /// The runtime where time follows the wall clock.
    home: Home,
    /// [`BackpressureLevel::percent`]. One task writes it, and every write reads it.
    percent: AtomicU32,
    /// Read only when a write fails.
    reason: Mutex<String>,
    /// The memory of the servers at the last look.
    memory: Mutex<Vec<MemoryUse>>,
}

impl Backpressure {
    pub(crate) fn new(settings: BackpressureSettings, home: Home) -> Self {
        Self {
            settings,
            home,
            percent: AtomicU32::new(0),
            reason: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// The value for the statistics.
    pub(crate) fn percent(&self) -> u32 {
        self.percent.load(Ordering::Relaxed).min(REFUSED)
    }

    /// A task that the storage depends on has ended before the storage was closed. From now on
    /// writes fail.
    pub(crate) fn end(&self) {
        self.percent.store(ENDED, Ordering::Relaxed);
    }

    /// Admits a write at once, delays it, or rejects it. Returns the rest of its deadline. A
    /// backlog never rejects a write under an id that the caller keeps. It can be a retry, and the
    /// hot tier forgets the id while the retry waits.
    pub(crate) async fn admit(&self, within: Duration, has_id: bool) -> Result<Duration> {
        let percent = self.percent.load(Ordering::Relaxed);
        if percent == 0 {
            return Ok(within);
        }
        if percent == ENDED {
            return Err(ended());
        }
        if percent >= REFUSED && !has_id {
            let reason = locked(&self.reason).clone();
            let message = format!("writes are refused: {reason}");
            return Err(Error::overloaded(message, self.settings.interval));
        }
        let wait = (self.settings.delay_max * percent.min(REFUSED) / REFUSED).min(within / 2);
        // Without a home there is nothing to wait for.
        let _ = self.home.run(sleep(wait)).await;
        Ok(within.saturating_sub(wait))
    }

    fn see(&self, level: BackpressureLevel) {
        let seen = |before| (before != ENDED).then_some(level.percent);
        let Ok(before) = self
            .percent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, seen)
        else {
            return;
        };
        let (was, is) = (state(before), state(level.percent));
        let BackpressureLevel { reason, relief, .. } = level;
        let reason = if relief.is_empty() {
            reason
        } else {
            format!("{reason}; {relief}")
        };
        if was != is {
            match is {
                State::Free => tracing::info!("writes are no longer slowed down"),
                State::Slowed => tracing::warn!(reason, "writes are slowed down"),
                State::Refused => tracing::error!(reason, "writes are refused"),
            }
        }
        *locked(&self.reason) = reason;
    }

    /// Looks once.
    pub(crate) async fn look(&self, hot: &Hot) {
        if !self.settings.is_on() {
            return;
        }
        // If a cluster lacks a master, the reachable rest counts. Writes still go there.
        let Ok(backlog) = Backlog::reachable(hot).await else {
            return;
        };
        let Ok(memory) = hot.tier.memory().await else {
            return;
        };
        let before = std::mem::replace(&mut *locked(&self.memory), memory.clone());
        let level = BackpressureLevel::of(&self.settings, &backlog, &memory, &before);
        self.see(level);
    }

    /// Looks again and again. While the whole hot tier is away, the last state stays. No write
    /// succeeds then in any case.
    pub(crate) async fn watch(&self, hot: &Hot) {
        if !self.settings.is_on() {
            return std::future::pending().await;
        }
        let mut looks = interval(self.settings.interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look(hot).await;
        }
    }
}

/// The error of a write that nothing would land, and that nothing watches.
fn ended() -> Error {
    let message = "the runtime of the storage's background tasks has ended, so nothing would land; open the storage again";
    Error::new(Kind::Closed, message)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Slowed,
    Refused,
}

fn state(percent: u32) -> State {
    match percent {
        0 => State::Free,
        1..REFUSED => State::Slowed,
        _ => State::Refused,
    }
}
