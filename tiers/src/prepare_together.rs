//! R14: partitions that are prepared together, for all callers that wait for them.
//!
//! A Redis that was restarted has all its partitions out of order at once, and hundreds of calls meet
//! that. If each call prepared its partition by itself, the calls would wait for each other's
//! connections to the database. Each adoption would then come after its deadline, again and again.

use futures::future::join_all;
use storage_coalesce::{Coalescer, Group};
use storage_model::Partition;

use crate::{TierError, Tiers};

/// The most partitions that are prepared together.
const PARTITIONS_MAX: usize = 256;
/// How many such groups are under way at once. A Redis server that hangs holds up its own group.
const AT_ONCE: usize = 8;

type Answer = Result<(), TierError>;

/// The partitions that wait to be prepared.
pub(crate) type Prepares = Coalescer<Partition, (), Answer>;

pub(crate) fn prepares() -> Prepares {
    Prepares::of_wanted(AT_ONCE, PARTITIONS_MAX)
}

impl Tiers {
    /// Prepares a partition, together with the others that callers wait for.
    pub(crate) async fn prepare_with_others(&self, partition: Partition) -> Answer {
        let (answered, carrier) = self.prepares.join_with_carrier(partition, ());
        let tiers = self.clone();
        self.home.spawn(async move {
            let tiers = &tiers;
            carrier
                .carry(|groups| async move { tiers.prepare_groups(groups).await })
                .await;
        });
        match answered.await {
            Ok(answer) => answer,
            // The task has ended without an answer.
            Err(_) => self.prepare_at_home(&[partition]).await,
        }
    }

    async fn prepare_groups(&self, groups: Vec<Group<Partition, (), Answer>>) {
        let all: Vec<_> = groups.iter().map(|group| *group.key()).collect();
        let answer = self.prepare_each(&all).await;
        if groups.len() > 1
            && matches!(
                answer,
                Err(TierError::Hot(_) | TierError::Contended { .. } | TierError::Behind(_))
            )
        {
            // The server of one partition may be away, or lack landed data of it, and not of the others.
            let alone = groups.into_iter().map(|group| async move {
                let answer = self.prepare_each(&[*group.key()]).await;
                group.answer_all(answer);
            });
            join_all(alone).await;
        } else {
            for group in groups {
                group.answer_all(answer.clone());
            }
        }
    }
}
