//! Writes wait, or are refused, while too much waits to be landed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use storage_config::BackpressureSettings;
use storage_dirty::HotStore;
use storage_landing::{Backlog, Pressure};
use storage_model::sabotage::broken;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::core::Core;
use crate::{Error, Result};

/// From where on writes are refused.
const REFUSED: u32 = 100;

/// What was seen last.
#[derive(Debug)]
pub(crate) struct Brake {
    settings: BackpressureSettings,
    /// [`Pressure::percent`]. Written by the task that looks, read by every write.
    percent: AtomicU32,
    /// Read only when a write is refused.
    reason: Mutex<String>,
}

impl Brake {
    pub(crate) fn new(settings: BackpressureSettings) -> Self {
        Self { settings, percent: AtomicU32::new(0), reason: Mutex::default() }
    }

    pub(crate) fn percent(&self) -> u32 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Lets a write through, now or a little later; answers how much of its deadline is left. Or refuses it. One that may be the `repeat`
    /// of an earlier one is never refused: that it was not applied would be said of the earlier one too.
    pub(crate) async fn admit(&self, within: Duration, repeat: bool) -> Result<Duration> {
        let percent = self.percent();
        if percent == 0 {
            return Ok(within);
        }
        if percent >= REFUSED && !repeat && !broken("H45-unbraked") {
            let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let message = format!("writes are refused: {reason}");
            return Err(Error::overloaded(message, self.settings.interval));
        }
        let wait = (self.settings.delay_max * percent.min(REFUSED) / REFUSED).min(within / 2);
        sleep(wait).await;
        Ok(within.saturating_sub(wait))
    }

    fn see(&self, pressure: Pressure) {
        let before = self.percent.swap(pressure.percent, Ordering::Relaxed);
        let (was, is) = (state(before), state(pressure.percent));
        let Pressure { reason, relief, .. } = pressure;
        let reason = if relief.is_empty() { reason } else { format!("{reason}; {relief}") };
        if was != is {
            match is {
                State::Free => tracing::info!("writes are no longer slowed down"),
                State::Slowed => tracing::warn!(reason, "writes are slowed down"),
                State::Refused => tracing::error!(reason, "writes are refused"),
            }
        }
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    async fn look(&self, hot: &dyn HotStore) {
        // Of a cluster that lacks a master, what can be reached: writes go there all the same.
        let Ok(backlog) = Backlog::reachable(hot).await else { return };
        let Ok(memory) = hot.memory().await else { return };
        self.see(Pressure::of(&self.settings, &backlog, memory));
    }
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

/// Looks again and again. While all of the hot tier is away, what was seen last holds: no write gets through in any case.
pub(crate) async fn watch(core: &Core) {
    let brake = &core.brake;
    if !brake.settings.is_on() {
        return;
    }
    let mut looks = interval(brake.settings.interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        brake.look(core.tiers.hot().as_ref()).await;
    }
}
