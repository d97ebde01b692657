//! Both tiers know that they belong together. They are compared at every open, by every worker, and
//! before every raise of an epoch.
//!
//! A blank hot tier takes over at once. The database gets the token of the hot tier's server first,
//! by compare-and-set. Then the hot tier gets the token, if its server is still the same. A program
//! that dies between the two steps leaves a blank hot tier that the database expects, and the next
//! program finishes. A hot tier with another token is rejected. `tests/protocol` searches all
//! interleavings.

use storage_dirty::{HotPaired, HotPairing};
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{HotId, Ids, LAYOUT, Paired, Stamp, Token, tries};
use storage_sql::{ColdPairing, Pair};

use crate::mismatch::Place;
use crate::take::Silence;
use crate::{Mismatch, SILENCE, TierError, Tiers};

/// The next step towards paired tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingStep {
    /// They belong together.
    Paired,
    /// The database expects this hot tier, which does not have its token yet.
    Join(HotPaired),
    /// The hot tier is blank and takes over.
    TakeOver,
}

/// Compares the tiers. `cold` was read first, so a takeover fails if the database has changed
/// since.
///
/// # Errors
/// They do not belong together.
pub fn judge(
    partitions: u32,
    hot: &HotPairing,
    cold: &ColdPairing,
) -> Result<PairingStep, Box<Mismatch>> {
    let place = || Place {
        address: hot.address.clone(),
        prefix: hot.prefix.clone(),
    };
    same_shape(partitions, hot, cold)?;
    match (&hot.paired, &cold.hot) {
        (Some(paired), by) => {
            if cold.identity != Some(paired.database) {
                return Err(Box::new(Mismatch::Database {
                    hot: place(),
                    since: paired.since,
                    belongs_to: paired.database,
                    address: cold.address.clone(),
                    identity: cold.identity,
                }));
            }
            if by.as_ref().is_some_and(|by| by.token == paired.token) {
                return Ok(PairingStep::Paired);
            }
            let address = cold.address.clone();
            Err(Box::new(Mismatch::Replaced {
                hot: place(),
                since: Some(paired.since),
                address,
                by: by.clone(),
            }))
        }
        (None, None) => Ok(PairingStep::TakeOver),
        (None, Some(by)) if by.prefix != hot.prefix => Err(Box::new(Mismatch::Prefix {
            hot: place(),
            address: cold.address.clone(),
            by: by.clone(),
        })),
        (None, Some(by)) => Ok(match cold.identity {
            // Only for the server that the token names. A second blank server would get the same
            // token otherwise.
            Some(database) if keeps("H76-shared", by.token == token_of(database, hot)) => {
                PairingStep::Join(joining(partitions, database, by))
            }
            _ => PairingStep::TakeOver,
        }),
    }
}

/// Compares layout and partition count, which must be equal for any pair of tiers.
fn same_shape(configured: u32, hot: &HotPairing, cold: &ColdPairing) -> Result<(), Box<Mismatch>> {
    let tiers = [
        (
            format!("the database at {}", cold.address),
            cold.layout,
            cold.partitions,
        ),
        (
            format!("the hot tier at {}", hot.address),
            hot.paired.map(|paired| paired.layout),
            hot.paired.map(|paired| paired.partitions),
        ),
    ];
    for (tier, layout, partitions) in tiers {
        if let Some(stored) = layout.filter(|stored| *stored != LAYOUT) {
            return Err(Box::new(Mismatch::Layout { tier, stored }));
        }
        if let Some(stored) = partitions.filter(|stored| *stored != configured) {
            return Err(Box::new(Mismatch::Partitions {
                tier,
                stored,
                configured,
            }));
        }
    }
    Ok(())
}

/// The token of a hot tier that belongs to this database.
fn token_of(database: Token, hot: &HotPairing) -> Token {
    Token::of_server(database, &hot.incarnation, hot.number, &hot.prefix)
}

fn joining(partitions: u32, database: Token, by: &Paired) -> HotPaired {
    HotPaired {
        token: by.token,
        database,
        partitions,
        layout: LAYOUT,
        since: by.since,
    }
}

/// The hot tier as the database must record it, under the token of its server.
#[must_use]
pub fn taking_over(partitions: u32, hot: &HotPairing, cold: &ColdPairing, ids: &dyn Ids) -> Pair {
    let identity = cold.identity.unwrap_or_else(|| Token::draw(ids));
    Pair {
        identity,
        partitions,
        layout: LAYOUT,
        hot: Paired {
            token: token_of(identity, hot),
            since: hot.now,
            prefix: hot.prefix.clone(),
            address: hot.address.clone(),
        },
        by: HotId::of(&hot.incarnation),
        stamp: Stamp::draw(ids),
        if_silent: None,
    }
}

impl Tiers {
    /// Compares the tiers, and lets a blank hot tier take over. Remembers the result for
    /// [`Tiers::refusal`].
    ///
    /// # Errors
    /// `Unpaired`: the tiers do not belong together, and neither was written. Otherwise a tier is
    /// away, or takes no writes. `Behind`: the hot tier is blank and waits for another one.
    ///
    /// # Cancel safety
    /// A dropped call can leave a takeover half done. The next call finishes it.
    pub async fn belong(&self) -> Result<(), TierError> {
        self.paired().await.map(drop)
    }

    /// As [`Tiers::belong`]. Returns both sides of the pairing.
    pub(crate) async fn paired(&self) -> Result<(HotPairing, ColdPairing), TierError> {
        for _ in 0..tries::TAKEOVERS {
            let look = self.refusals.look();
            // ORDER: the database first. If it has not changed after this read, no hot tier took
            // over between the two reads.
            let cold = self.watched(self.cold.database.pairing().await)?;
            let hot = self.hot.tier.pairing().await?;
            let step = match judge(self.hot.partitions.partition_count(), &hot, &cold) {
                Ok(step) => step,
                Err(_) if self.has_moved(&cold).await? => continue,
                Err(mismatch) => {
                    let error = TierError::Unpaired(mismatch);
                    self.refusals.pairing(look, Some(error.clone()));
                    return Err(error);
                }
            };
            match step {
                PairingStep::Paired => {
                    self.refusals.pairing(look, None);
                    return Ok((hot, cold));
                }
                PairingStep::Join(paired) => {
                    self.hot.tier.pair(&hot, &paired).await?;
                }
                PairingStep::TakeOver => {
                    let taken = self.take_over(&hot, &cold).await;
                    if let Err(error) = &taken
                        && error.database_takes_no_writes()
                    {
                        self.refusals.pairing(look, Some(error.clone()));
                    }
                    taken?;
                }
            }
        }
        Err(TierError::Contended {
            what: "compare the tiers".into(),
            tries: tries::TAKEOVERS,
        })
    }

    /// Compares the tiers and writes to neither.
    ///
    /// # Errors
    /// As [`Tiers::belong`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare_pairing(&self) -> Result<(), TierError> {
        for _ in 0..tries::TAKEOVERS {
            let cold = self.cold.database.pairing().await?;
            let hot = self.hot.tier.pairing().await?;
            let step = match judge(self.hot.partitions.partition_count(), &hot, &cold) {
                Ok(step) => step,
                Err(_) if self.has_moved(&cold).await? => continue,
                Err(mismatch) => return Err(TierError::Unpaired(mismatch)),
            };
            // Memory that ended with its process holds nothing any more.
            let gone =
                |before: &&Paired| self.alone && before.address == storage_dirty::memory::ADDRESS;
            if let (PairingStep::TakeOver, Some(before)) =
                (step, cold.hot.as_ref().filter(|before| !gone(before)))
            {
                tracing::warn!(
                    address = %hot.address, before = %before.address,
                    "the hot tier is blank, but the database knows another one: unlanded data of that one is not visible here"
                );
            }
            return Ok(());
        }
        Err(TierError::Contended {
            what: "compare the tiers".into(),
            tries: tries::TAKEOVERS,
        })
    }

    /// Whether the database recorded another hot tier since it was read. Then the hot tier that was
    /// read second may be that one, and a mismatch is not certain.
    async fn has_moved(&self, cold: &ColdPairing) -> Result<bool, TierError> {
        let now = self.cold.database.pairing().await?;
        Ok((now.identity, now.hot) != (cold.identity, cold.hot.clone()))
    }

    /// Whether a blank hot tier may take over only while no other one is used. A wiped one goes on
    /// at once, and so does one that Sentinels or a cluster name.
    pub(crate) async fn is_to_wait(
        &self,
        hot: &HotPairing,
        cold: &ColdPairing,
        silence: Silence,
    ) -> Result<bool, TierError> {
        if cold.hot.is_none() || self.hot.tier.is_named() || !is_kept("H76-living") {
            return Ok(false);
        }
        let here = HotId::of(&hot.incarnation);
        match self.heard(hot, silence, |known| known.id != here).await? {
            Some(waits) => Err(waits),
            None => Ok(true),
        }
    }

    async fn take_over(&self, hot: &HotPairing, cold: &ColdPairing) -> Result<(), TierError> {
        let waits = self.is_to_wait(hot, cold, Silence::Watched).await?;
        let if_silent = waits.then_some(SILENCE);
        let pair = Pair {
            if_silent,
            ..taking_over(
                self.hot.partitions.partition_count(),
                hot,
                cold,
                self.ids.as_ref(),
            )
        };
        let taken = self.cold.database.pair(cold, &pair).await?;
        // A hot tier that ends with its process is blank at each start.
        if let (true, Some(before)) = (taken && !self.alone, &cold.hot) {
            tracing::warn!(
                address = %hot.address, before = %before.address,
                "a blank hot tier has taken over the database: unlanded data of the one before it is lost"
            );
        }
        Ok(())
    }

    /// Pairs the two tiers on purpose, also an older hot tier or a restored database. It does not
    /// matter where they belonged before. Every partition gets a new epoch. Earlier hashes are
    /// compared with their rows before they are used.
    ///
    /// # Errors
    /// `Unpaired`: layout or partition count of a tier differs from the settings, and neither tier
    /// was written. Otherwise a tier is away.
    ///
    /// # Cancel safety
    /// A dropped or failed call may have changed only the database. Repeat it.
    pub async fn adopt(&self) -> Result<(), TierError> {
        for _ in 0..tries::TAKEOVERS {
            let cold = self.cold.database.pairing().await?;
            let hot = self.hot.tier.pairing().await?;
            let partitions = self.hot.partitions.partition_count();
            same_shape(partitions, &hot, &cold).map_err(TierError::Unpaired)?;
            let pair = taking_over(partitions, &hot, &cold, self.ids.as_ref());
            let paired = joining(partitions, pair.identity, &pair.hot);
            if !self.cold.database.pair(&cold, &pair).await? {
                continue;
            }
            // ORDER: before the hot tier is paired, because no program uses it until then. The rows
            // may belong to another database.
            self.begin_anew().await?;
            if self.hot.tier.pair(&hot, &paired).await? {
                return self.belong().await;
            }
        }
        Err(TierError::Contended {
            what: "adopt".into(),
            tries: tries::TAKEOVERS,
        })
    }
}

#[cfg(test)]
mod tests;
