//! Durability: the safety that a write asks for, and the safety that it reached.

use std::time::Duration;

use futures::FutureExt as _;
use storage_config::DurabilitySettings;
use storage_model::{Applied, Durability, Epoch, Flushed, Outcome, Owner, Version};

use crate::core::Core;
use crate::{Error, Kind, Result};

/// The safety of a write at the moment of its acknowledgement.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// use storage_sdk::Safety;
/// let answer = match ann.incr("gems", 500).await?.ack().durability() {
///     Safety::Landed => "your gems are in the database",
///     _ => "your gems will be in the database soon",
/// };
/// assert_eq!(answer, "your gems will be in the database soon");
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Safety {
    /// The hot tier has the write, marked for landing.
    Cached,
    /// At least this number of replicas of the hot tier have the write, too.
    Replicated {
        /// The number of replicas.
        replicas: u32,
    },
    /// The write is also on the disk of the hot tier, in its append-only file.
    Fsynced,
    /// The database has the write, too.
    Landed,
}

/// The durability of writes that set none: that of the owner's logic type. Otherwise that of its
/// Rust type, otherwise the default.
pub(crate) fn default_of(
    settings: &DurabilitySettings,
    owner: &Owner,
    derived: Option<Durability>,
) -> Durability {
    match settings.logic_types.get(owner.logic_type()) {
        Some(durability) => *durability,
        None => derived.unwrap_or(settings.default),
    }
}

/// The safety that the acknowledgement of the hot tier proves. `None` if the write has to land
/// first.
pub(crate) fn at_once(durability: Durability) -> Option<Safety> {
    match durability {
        Durability::Replicated { replicas, .. } => Some(Safety::Replicated { replicas }),
        Durability::Fsynced { .. } => Some(Safety::Fsynced),
        Durability::Landed { .. } => None,
        _ => Some(Safety::Cached),
    }
}

/// Rejects impossible numbers.
pub(crate) fn check(durability: Durability) -> Result<()> {
    if durability.is_possible() {
        return Ok(());
    }
    let (min, max) = (Durability::TIMEOUT.start(), Durability::TIMEOUT.end());
    let message = format!(
        "durability is {durability:?}; its timeout must be {min:?} to {max:?}, and its replicas at least 1"
    );
    Err(Error::new(Kind::Invalid, message))
}

impl Core {
    /// The safety of a write that the hot tier acknowledged in this epoch. Waits for the database
    /// if `durability` asks for it. An error here means that the write was applied, although the
    /// hot tier may have forgotten it since.
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

    /// Waits until all changes of an owner are in the database.
    pub(crate) async fn flush(&self, owner: &Owner, within: Duration) -> Result<Flushed> {
        let (tiers, its) = (self.tiers.clone(), owner.clone());
        let flush = async {
            match self
                .within(within, async move { tiers.flush(&its).await })
                .await
            {
                Ok(flushed) => flushed.map_err(Error::of_tiers),
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
        // Boxed, to keep the futures of all other writes small.
        let flushed = self
            .within(within, async move {
                tiers.flush_write(&its, version, epoch).await
            })
            .boxed()
            .await;
        let error = match flushed {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => Error::forgotten().with_outcome(Outcome::Unknown).reread(),
            Ok(Err(error)) => Error::of_tiers(error).with_outcome(Outcome::Applied),
            Err(late) => {
                let message = format!("not in the database {late}; it lands later");
                Error::new(Kind::Timeout, message).with_outcome(Outcome::Applied)
            }
        };
        Err(error.of(owner))
    }
}
