//! The partitions that were verified to belong to the server that holds them now (R14).
//!
//! This view serves reads and connections, and any doubt withdraws it. `Tiers` keeps the epoch in
//! which writes are sent, by which a lost write is judged, so a doubt must not change it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use storage_model::{Epoch, Partition, tries};

use super::transport::{Answer, Command, Under};
use crate::redis::RedisStore;
use crate::redis::error::Failure;
use crate::redis::operations::partition::state_of;
use crate::redis::scripts;
use crate::{PartitionRecord, PartitionState};
use storage_coalesce::locked;

/// For each partition the number of the incarnation that it was last verified under. It is 0 at
/// first, and after an adoption. `verify` writes it. Every call that relies on the server's memory
/// reads it. Each incarnation has a number of its own, so no partition is verified by mistake.
#[derive(Debug)]
pub(in crate::redis) struct Guard(Vec<VerifiedState>);

/// The last verified state of a partition.
#[derive(Debug, Default)]
struct VerifiedState {
    incarnation: AtomicU64,
    // Written before the incarnation, since readers under that incarnation rely on it.
    generation: AtomicU64,
    /// The epoch of its record, or a later epoch of an answer.
    epoch: AtomicU64,
    /// When the question of the last known answer was asked. Held by the writer of the other
    /// fields.
    asked: Mutex<u64>,
}

impl Guard {
    pub(in crate::redis) fn new(partitions: u32) -> Self {
        Self((0..partitions).map(|_| VerifiedState::default()).collect())
    }

    fn entry(&self, partition: Partition) -> Option<&VerifiedState> {
        self.0.get(usize::try_from(partition.0).ok()?)
    }

    fn verified(&self, partition: Partition) -> Under {
        Under::Incarnation(
            self.entry(partition)
                .map_or(0, |entry| entry.incarnation.load(Ordering::Acquire)),
        )
    }

    /// Whether the partition was last verified under this incarnation.
    pub(in crate::redis) fn is_verified(&self, partition: Partition, incarnation: u64) -> bool {
        self.verified(partition) == Under::Incarnation(incarnation)
    }

    /// The generation of the partition when it was verified. A hash of a lower one is suspect.
    pub(in crate::redis) fn generation(&self, partition: Partition) -> Epoch {
        Epoch(
            self.entry(partition)
                .map_or(0, |entry| entry.generation.load(Ordering::Acquire)),
        )
    }

    /// Notes the result of a look at the record. `asked` is the serial number of the question.
    fn set(
        &self,
        partition: Partition,
        asked: u64,
        incarnation: u64,
        record: Option<&PartitionRecord>,
    ) {
        let Some(entry) = self.entry(partition) else {
            return;
        };
        let mut last = locked(&entry.asked);
        if asked < *last {
            return; // a newer answer came meanwhile
        }
        *last = asked;
        entry
            .epoch
            .store(record.map_or(0, |record| record.epoch.0), Ordering::Release);
        entry.generation.store(
            record.map_or(0, |record| record.generation.0),
            Ordering::Release,
        );
        entry.incarnation.store(incarnation, Ordering::Release);
    }

    /// Whether the epoch of an answer is later than the verified one. Then another process has
    /// adopted the partition since.
    fn is_outdated(&self, partition: Partition, epoch: Epoch) -> bool {
        self.entry(partition)
            .is_some_and(|entry| entry.epoch.load(Ordering::Acquire) < epoch.0)
    }

    /// Forces a look at the record before the next read, since hashes may have become suspect.
    fn forget(&self, partition: Partition, now: u64, epoch: Epoch) {
        let Some(entry) = self.entry(partition) else {
            return;
        };
        let mut last = locked(&entry.asked);
        *last = now.max(*last);
        entry.epoch.store(epoch.0, Ordering::Release);
        entry.incarnation.store(0, Ordering::Release);
    }
}

impl RedisStore {
    /// Sends commands, each only to the incarnation that its partition's record was made under. A
    /// new connection to another incarnation costs one more round trip, in which the record is
    /// compared. Nothing is sent to a server that has forgotten data. With `together`, commands of
    /// one partition that stand in a row are answered in their order.
    pub(in crate::redis) async fn send_verified(
        &self,
        mut commands: Vec<Command>,
        partitions: &[Partition],
        together: bool,
    ) -> Vec<Answer> {
        let mut answers: Vec<Answer> = commands.iter().map(|_| Err(Failure::Unverified)).collect();
        let mut pending: Vec<usize> = (0..commands.len()).collect();
        for round in 1..=tries::VERIFICATIONS {
            if round == tries::VERIFICATIONS {
                // The partitions were verified, and the commands were refused again. So connections
                // are older than the present incarnation of their server.
                futures::future::join_all(self.router.nodes().iter().map(|node| node.ask_all()))
                    .await;
            }
            let mut last: Option<(Partition, Under)> = None;
            for (command, partition) in commands.iter_mut().zip(partitions) {
                // Looked up once for commands of one partition in a row. So either all of them are
                // sent or none, and they keep their order.
                let known = last.filter(|(at, _)| at == partition);
                let (_, under) = *last
                    .insert(known.unwrap_or_else(|| (*partition, self.guard.verified(*partition))));
                command.under = under;
            }
            let sent = if pending.len() == commands.len() {
                self.router.send(&commands, together).await
            } else {
                let rest: Vec<Command> = pending
                    .iter()
                    .filter_map(|index| commands.get(*index).cloned())
                    .collect();
                self.router.send(&rest, together).await
            };
            for (index, answer) in pending.iter().zip(sent) {
                if let Some(slot) = answers.get_mut(*index) {
                    *slot = answer;
                }
            }
            pending.retain(|index| matches!(answers.get(*index), Some(Err(Failure::Unverified))));
            let mut unverified: Vec<Partition> = pending
                .iter()
                .filter_map(|index| partitions.get(*index).copied())
                .collect();
            unverified.sort_unstable();
            unverified.dedup();
            if unverified.is_empty() {
                break;
            }
            let foreign = self.verify(&unverified).await;
            for (partition, failure) in foreign {
                for index in
                    pending.extract_if(.., |index| partitions.get(*index) == Some(&partition))
                {
                    if let Some(slot) = answers.get_mut(index) {
                        *slot = Err(failure.clone());
                    }
                }
            }
        }
        answers
    }

    /// As [`RedisStore::send_verified`], for one command: the hot path. The rare steps are boxed,
    /// so that the future that is boxed and moved for each call is small.
    pub(in crate::redis) async fn send_one_verified(
        &self,
        mut command: Command,
        partition: Partition,
    ) -> Answer {
        command.under = self.guard.verified(partition);
        if command.barrier.is_none() {
            match self.router.send_once(&command).await {
                None | Some(Err(Failure::Unverified)) => {}
                Some(answer) => return answer,
            }
        }
        Box::pin(self.send_verified(vec![command], &[partition], false))
            .await
            .pop()
            .unwrap_or(Err(Failure::Unverified))
    }

    /// Remembers that a partition's record belongs to this incarnation. `asked` is the number that
    /// [`RedisStore::asking`] gave before the look at it.
    pub(in crate::redis) fn verified(
        &self,
        partition: Partition,
        asked: u64,
        state: &PartitionState,
    ) {
        self.guard.set(
            partition,
            asked,
            self.router.common.number_of(&state.incarnation),
            state.record.as_ref(),
        );
    }

    /// A number that tells the order of questions. It must be taken before the question is sent.
    pub(in crate::redis) fn asking(&self) -> u64 {
        self.router.common.next_serial()
    }

    /// Notes the epoch of an answer.
    pub(in crate::redis) fn answered(&self, partition: Partition, epoch: Epoch) {
        if self.guard.is_outdated(partition, epoch) {
            self.guard.forget(partition, self.asking(), epoch);
        }
    }

    /// Compares records with the servers that hold them. Returns the partitions that can't be used,
    /// with the reason.
    async fn verify(&self, partitions: &[Partition]) -> Vec<(Partition, Failure)> {
        let commands: Vec<_> = partitions
            .iter()
            .map(|partition| scripts::part_state(&self.space, *partition))
            .collect();
        let asked = self.asking();
        let answers = self.router.send(&commands, false).await;
        let judged = partitions
            .iter()
            .zip(answers)
            .map(|(partition, answer)| (*partition, answer.and_then(state_of)));
        judged
            .filter_map(|(partition, state)| match state {
                // Without a record there is nothing to believe: the scripts reject writes, and
                // reads find nothing.
                Ok(state) if state.record.is_none() || state.is_current() => {
                    self.verified(partition, asked, &state);
                    None
                }
                // The data may be older than landed data, so no hash is believed alone.
                Ok(mut state) if self.router.common.read_only => {
                    if let Some(record) = &mut state.record {
                        record.generation = Epoch(u64::MAX);
                    }
                    self.verified(partition, asked, &state);
                    None
                }
                Ok(_) => Some((partition, Failure::Unverified)),
                // The question came before the command, so nothing of the command was sent.
                Err(failure) => Some((partition, failure.before_sending("the record"))),
            })
            .collect()
    }
}
