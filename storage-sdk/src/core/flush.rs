//! Waiting until changes are in the database.

use std::time::Duration;

use futures::FutureExt as _;
use storage_model::{Applied, Durability, Epoch, Flushed, Outcome, Owner, Version};

use super::Core;
use crate::durability::{Safety, at_once};
use crate::{Error, Kind, Result};

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
