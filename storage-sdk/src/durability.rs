//! How safe a write is before it is acknowledged: what is asked for, and what was reached.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use storage_config::DurabilitySettings;
use storage_model::{Applied, Durability, Epoch, Outcome, Owner, Version};
use storage_tiers::Flushed;

use crate::core::Core;
use crate::{Error, Kind, Result};

/// How safe an acknowledged write was at the moment of the acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Safety {
    /// In the hot tier, marked for landing.
    Cached,
    /// In so many replicas of the hot tier too, at least.
    Replicated {
        /// How many.
        replicas: u32,
    },
    /// On the disk of the hot tier too, in its append-only file.
    Fsynced,
    /// In the database too.
    Landed,
}

/// What writes wait for that do not say it themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Defaults {
    default: Durability,
    logic_types: BTreeMap<String, Durability>,
}

impl From<DurabilitySettings> for Defaults {
    fn from(settings: DurabilitySettings) -> Self {
        let DurabilitySettings {
            default,
            logic_types,
        } = settings;
        Self {
            default,
            logic_types,
        }
    }
}

impl Defaults {
    /// That of the owner's logic type; else what its Rust type says; else that of all.
    pub(crate) fn of(&self, owner: &Owner, derived: Option<Durability>) -> Durability {
        self.logic_types
            .get(owner.logic_type())
            .copied()
            .or(derived)
            .unwrap_or(self.default)
    }
}

/// How safe a write is once the hot tier has acknowledged it; none if it has to land first.
pub(crate) fn at_once(durability: Durability) -> Option<Safety> {
    match durability {
        Durability::Replicated { replicas, .. } => Some(Safety::Replicated { replicas }),
        Durability::Fsynced { .. } => Some(Safety::Fsynced),
        Durability::Landed { .. } => None,
        _ => Some(Safety::Cached),
    }
}

/// Refuses numbers that are not possible.
pub(crate) fn check(durability: Durability) -> Result<()> {
    if durability.is_possible() {
        return Ok(());
    }
    let (min, max) = (Durability::TIMEOUT.start(), Durability::TIMEOUT.end());
    let message = format!(
        "{durability:?} is not possible; timeouts are {min:?} to {max:?}, and replicas at least 1"
    );
    Err(Error::new(Kind::Invalid, message))
}

impl Core {
    /// How safe a write is by now that the hot tier has acknowledged, in this epoch; waits for the
    /// database if that was asked for. What fails here has been applied, though the hot tier may
    /// have forgotten it since.
    pub(crate) async fn secure(
        &self,
        owner: &Owner,
        applied: &Applied,
        epoch: Epoch,
        durability: Durability,
    ) -> Result<Safety> {
        match durability {
            Durability::Landed { timeout } => self
                .land(owner, applied.version, epoch, timeout)
                .await
                .map(|()| Safety::Landed),
            _ => Ok(at_once(durability).unwrap_or(Safety::Cached)),
        }
    }

    /// Waits until what an owner has is in the database.
    pub(crate) async fn flush(&self, owner: &Owner, within: Duration) -> Result<Flushed> {
        let (tiers, its) = (self.tiers.clone(), owner.clone());
        let flush = async {
            match self
                .within(within, async move { tiers.flush(&its).await })
                .await
            {
                Ok(flushed) => flushed.map_err(Error::from),
                Err(late) => Err(Error::new(
                    Kind::Timeout,
                    format!("not in the database {late}; it lands later"),
                )),
            }
        };
        self.while_open(flush)
            .await
            .map_err(|error| error.of(owner))
    }

    /// Waits until a write of an owner, acknowledged in this epoch, is in the database.
    pub(crate) async fn land(
        &self,
        owner: &Owner,
        version: Version,
        epoch: Epoch,
        within: Duration,
    ) -> Result<()> {
        let (tiers, its) = (self.tiers.clone(), owner.clone());
        // Boxed, so that every other write's future is small.
        let flushed = self
            .within(within, async move {
                tiers.flush_write(&its, version, epoch).await
            })
            .boxed()
            .await;
        let error = match flushed {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => Error::forgotten().with_outcome(Outcome::Unknown).reread(),
            Ok(Err(error)) => Error::from(error).with_outcome(Outcome::Applied),
            Err(late) => {
                let message = format!("not in the database {late}; it lands later");
                Error::new(Kind::Timeout, message).with_outcome(Outcome::Applied)
            }
        };
        Err(error.of(owner))
    }
}
