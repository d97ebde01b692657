//! R14: partitions that are prepared together, for all callers that wait for them.
//!
//! A Redis that was restarted has all its partitions out of order at once, and hundreds of calls meet
//! that. If each call prepared its partition by itself, the calls would wait for each other's
//! connections to the database. Each adoption would then come after its deadline, again and again.

use std::collections::BTreeSet;

use futures::future::join_all;
use storage_coalesce::{Coalescer, Group};
use storage_model::Partition;

use crate::{Need, TierError, Tiers};

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
            && matches!(answer, Err(TierError::Hot(_) | TierError::Contended { .. }))
        {
            // The server of one partition may be away, and not those of the others.
            let alone = groups.into_iter().map(|group| async move {
                let answer = self.prepare_each(&[*group.key()]).await;
                group.answer_all(answer);
            });
            join_all(alone).await;
        } else if matches!(answer, Err(TierError::Behind(_))) {
            // One partition waits for another hot tier, and others may be in order now.
            let in_order = self.in_order(&all).await.unwrap_or_default();
            for group in groups {
                let is_in_order = in_order.contains(group.key());
                group.answer_all(if is_in_order { Ok(()) } else { answer.clone() });
            }
        } else {
            for group in groups {
                group.answer_all(answer.clone());
            }
        }
    }

    async fn in_order(&self, partitions: &[Partition]) -> Result<BTreeSet<Partition>, TierError> {
        let records = self.cold.partitions.partitions(partitions).await?;
        let states = self.states(partitions).await?;
        let each = records.into_iter().zip(&states);
        let in_order = each.filter(|(record, state)| self.need(state, *record) == Need::Nothing);
        Ok(in_order.map(|(record, _)| record.partition).collect())
    }
}
