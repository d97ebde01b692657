//! Both tiers know that they belong together: compared at every open, by every worker, and before
//! every epoch that rises.
//!
//! A blank hot tier takes over at once. The database gets the token of its server first, by
//! compare-and-set; then the hot tier gets it, if its server is still that one. A program that is
//! cut between the two leaves a blank hot tier that the database expects, and the next program
//! finishes. A hot tier with another token is refused. `tests/protocol` searches all interleavings.

use storage_dirty::{HotPaired, HotPairing};
use storage_model::sabotage::broken;
use storage_model::{Ids, LAYOUT, Paired, Token};
use storage_sql::{ColdPairing, Pair};

use crate::mismatch::Place;
use crate::{Mismatch, TierError, Tiers};

/// More rounds than any sequence of concurrent take-overs needs.
const ROUNDS_MAX: u32 = 32;

/// What brings the two tiers nearer to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingStep {
    /// They belong together.
    Paired,
    /// The database expects this hot tier, which has not got its token yet.
    Join(HotPaired),
    /// The hot tier is blank and takes over.
    TakeOver,
}

/// Compares the tiers. `cold` was read first: a take-over is refused if the database has moved
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
            if cold.identity != Some(paired.database) && !broken("H76-anywhere") {
                return Err(Box::new(Mismatch::Database {
                    hot: place(),
                    since: paired.since,
                    belongs_to: paired.database,
                    address: cold.address.clone(),
                    identity: cold.identity,
                }));
            }
            if by.as_ref().is_some_and(|by| by.token == paired.token) || broken("H76-any-token") {
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
            // Only the server that the token names: of two blank ones the other would have the
            // same.
            Some(database) if by.token == token_of(database, hot) || broken("H76-shared") => {
                PairingStep::Join(joining(partitions, database, by))
            }
            _ => PairingStep::TakeOver,
        }),
    }
}

/// What both have in common whoever they belong to.
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

/// The token of a hot tier as the one of this database.
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

/// A hot tier as the database is to know it, under the token of its server.
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
    }
}

impl Tiers {
    /// Compares the tiers, and lets a blank hot tier take over. Remembers what it finds; see
    /// [`Tiers::refusal`].
    ///
    /// # Errors
    /// `Unpaired`: they do not belong together, and nothing was written. A tier is away, or refuses
    /// to be written.
    ///
    /// # Cancel safety
    /// A dropped call leaves a take-over that the next call finishes.
    pub async fn belong(&self) -> Result<(), TierError> {
        for _ in 0..ROUNDS_MAX {
            let look = self.refusals.look();
            // ORDER: the database first. If it is still as it was read, no hot tier took over
            // between the two.
            let cold = self.cold.pairing().await?;
            let hot = self.hot.pairing().await?;
            let step = match judge(self.hot.partition_count(), &hot, &cold) {
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
                    return Ok(());
                }
                PairingStep::Join(paired) => {
                    self.hot.pair(&hot, &paired).await?;
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
            tries: ROUNDS_MAX,
        })
    }

    /// Compares the tiers and changes neither.
    ///
    /// # Errors
    /// As [`Tiers::belong`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare_pairing(&self) -> Result<(), TierError> {
        for _ in 0..ROUNDS_MAX {
            let cold = self.cold.pairing().await?;
            let hot = self.hot.pairing().await?;
            let step = match judge(self.hot.partition_count(), &hot, &cold) {
                Ok(step) => step,
                Err(_) if self.has_moved(&cold).await? => continue,
                Err(mismatch) => return Err(TierError::Unpaired(mismatch)),
            };
            if let (PairingStep::TakeOver, Some(before)) = (step, &cold.hot) {
                tracing::warn!(
                    address = %hot.address, before = %before.address,
                    "the hot tier is blank, and the database knows another one: what only that one holds is not seen here"
                );
            }
            return Ok(());
        }
        Err(TierError::Contended {
            what: "compare the tiers".into(),
            tries: ROUNDS_MAX,
        })
    }

    /// Whether the database was told of another hot tier since it was read. Then the hot tier that
    /// was read after it may be that one, and no mismatch is certain.
    async fn has_moved(&self, cold: &ColdPairing) -> Result<bool, TierError> {
        Ok(self.cold.pairing().await? != *cold && !broken("H76-once"))
    }

    async fn take_over(&self, hot: &HotPairing, cold: &ColdPairing) -> Result<(), TierError> {
        let pair = taking_over(self.hot.partition_count(), hot, cold, self.ids.as_ref());
        let taken = self.cold.pair(cold, &pair).await?;
        // One that ends with its process begins blank each time.
        if let (true, Some(before)) = (taken && !self.alone, &cold.hot) {
            tracing::warn!(
                address = %hot.address, before = %before.address,
                "a blank hot tier has taken over the database; what only the one before it held is lost"
            );
        }
        Ok(())
    }

    /// Pairs the two tiers on purpose, whatever they belonged to: an older hot tier, or a restored
    /// database. Every partition gets a new epoch, and hashes from before are compared with their
    /// rows before they are used.
    ///
    /// # Errors
    /// `Unpaired`: their layouts or numbers of partitions differ from the settings; nothing was
    /// written. A tier is away.
    ///
    /// # Cancel safety
    /// A dropped call, or one that fails, may have told the database alone; repeat it.
    pub async fn adopt(&self) -> Result<(), TierError> {
        for _ in 0..ROUNDS_MAX {
            let cold = self.cold.pairing().await?;
            let hot = self.hot.pairing().await?;
            let partitions = self.hot.partition_count();
            same_shape(partitions, &hot, &cold).map_err(TierError::Unpaired)?;
            let pair = taking_over(partitions, &hot, &cold, self.ids.as_ref());
            let paired = joining(partitions, pair.identity, &pair.hot);
            if !self.cold.pair(&cold, &pair).await? {
                continue;
            }
            // ORDER: before the hot tier is paired, since nobody uses it until then: the rows may
            // be of another database.
            self.begin_anew().await?;
            if self.hot.pair(&hot, &paired).await? {
                return self.belong().await;
            }
        }
        Err(TierError::Contended {
            what: "adopt".into(),
            tries: ROUNDS_MAX,
        })
    }
}

#[cfg(test)]
mod tests;
