//! The contract, call by call.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Epoch, Fence, Field, Mutation, OpId, Owner, Partition, Timestamp, Version};

use super::state::{PartState, Present};
use super::store::{MemoryStore, lock};
use super::{fill, landing, lock as lease, mutate, park, probation, read, record, room, session};
use crate::{
    Acquit, Adopt, Asked, Beats, ClaimSession, Claimed, Collected, Entry, ErrorEntry, Evicted,
    Filled, HotError, HotKind, HotPaired, HotPairing, HotRead, HotStore, Load, Lock, Map,
    MemoryUse, Mutated, Observed, OpenSession, Opened, Page, Park, PartitionPeek, PartitionState,
    Probation, Read, Session, SessionStore, Settle, Settled, Snapshot,
};

#[async_trait]
impl HotStore for MemoryStore {
    fn partition_count(&self) -> u32 {
        self.partitions()
    }

    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>> {
        let one = |asked: &Read| {
            self.run_for(&asked.owner, "read", |state, _, _| {
                read::read(state, &asked.owner, &asked.fields)
            })
        };
        reads.iter().map(one).collect()
    }

    async fn mutate(
        &self,
        mutations: &[(Mutation, Option<Load>)],
    ) -> Vec<Result<Mutated, HotError>> {
        mutations
            .iter()
            .map(|(mutation, load)| self.mutate_one(mutation, load.as_ref()))
            .collect()
    }

    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "observe", |state, _, partition| {
                read::observe(state, partition, owner)
            })?
        };
        owners.iter().map(one).collect()
    }

    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        let one = |load: &Load| {
            self.run_for(&load.owner, "fill", |state, now, at| {
                fill::fill(state, now, at, load)
            })?
        };
        loads.iter().map(one).collect()
    }

    async fn lease(&self, owners: &[Owner], _: Duration) -> Vec<Result<bool, HotError>> {
        // No other process can reach this engine, and within one process loads are shared.
        owners.iter().map(|_| Ok(true)).collect()
    }

    async fn release(&self, _: &[Owner]) -> Result<(), HotError> {
        Ok(())
    }

    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "marked", |state, _, at| {
                read::marked(state, at, owner, epoch)
            })?
        };
        owners.iter().map(one).collect()
    }

    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>> {
        owners
            .iter()
            .map(|owner| self.run_for(owner, "evict", |state, _, _| read::evict(state, owner)))
            .collect()
    }

    async fn touch(&self, owners: &[Owner]) -> Result<(), HotError> {
        owners.iter().try_for_each(|owner| {
            self.run_for(owner, "touch", |state, now, _| {
                read::touch(state, now, owner)
            })
        })
    }

    async fn time(&self) -> Result<Timestamp, HotError> {
        Ok(self.now())
    }

    async fn pairing(&self) -> Result<HotPairing, HotError> {
        Ok(self.read_pairing())
    }

    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError> {
        Ok(self.write_pairing(seen, *paired))
    }

    async fn leave_layout(&self, _: &HotPairing) -> Result<Vec<Partition>, HotError> {
        // All data in this process was made by this program.
        Ok(Vec::new())
    }

    async fn forget_calls(&self, _partitions: &[Partition]) -> Result<(), HotError> {
        Ok(()) // a call of memory is never lost
    }

    async fn check(&self) -> Result<(), HotError> {
        Ok(())
    }

    async fn memory(&self) -> Result<Option<MemoryUse>, HotError> {
        Ok(self.taken())
    }

    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>> {
        let one = |at: &Partition| {
            self.run(*at, "partition_states", |state, _| {
                record::partition_state(state)
            })
        };
        partitions.iter().map(one).collect()
    }

    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>> {
        let one = |adopt: &Adopt| {
            self.run(adopt.partition, "adopt", |state, now| {
                record::adopt(state, now, adopt)
            })
        };
        adopts.iter().map(one).collect()
    }

    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError> {
        self.run(partition, "raise_landed", |state, _| {
            record::raise_landed(state, partition, epoch, landed)
        })?
    }

    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "peek", |state, present| read::peek(state, present)))
            .collect()
    }

    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "lock", |state, now| lease::lock(state, now, lock, ttl)))
            .collect()
    }

    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        partitions
            .iter()
            .map(|at| {
                self.run(*at, "renew", |state, now| {
                    lease::renew(state, now, lock, ttl)
                })
            })
            .collect()
    }

    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "unlock", |state, now| lease::unlock(state, now, lock)))
            .collect()
    }

    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError> {
        self.run(partition, "snapshot", |state, now| {
            landing::snapshot(state, now, partition, lock)
        })?
    }

    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError> {
        self.run(partition, "scan", |state, _| {
            landing::scan(state, map, cursor, count)
        })
    }

    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError> {
        self.run(partition, "errors", |state, _| {
            park::errors(state, cursor, count)
        })
    }

    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Collected, HotError> {
        self.run(partition, "collect", |state, _| {
            let collected = landing::collect(state, partition, wanted)?;
            record::collects(state);
            Ok(collected)
        })?
    }

    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError> {
        self.run(settle.partition, "settle", |state, now| {
            landing::settle(state, now, settle)
        })?
    }

    async fn park(&self, park: &Park) -> Result<Vec<bool>, HotError> {
        self.run(park.partition, "park", |state, now| {
            park::park(state, now, park)
        })?
    }

    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError> {
        self.run(partition, "probation", |state, now| {
            probation::probation(state, now, partition, lock)
        })?
    }

    async fn acquit(&self, acquit: &Acquit) -> Result<u32, HotError> {
        self.run(acquit.partition, "acquit", |state, now| {
            probation::acquit(state, now, acquit)
        })?
    }

    async fn relive(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError> {
        self.run(partition, "relive", |state, now| {
            probation::relive(state, now, partition, lock, entries)
        })?
    }

    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError> {
        let now = self.now();
        let mut workers = lock(&self.workers);
        workers.retain(|_, end| *end > now);
        workers.insert(worker.to_owned(), now.plus(ttl));
        Ok(workers.keys().cloned().collect())
    }

    async fn retire(&self, worker: &str) -> Result<(), HotError> {
        lock(&self.workers).remove(worker);
        Ok(())
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError> {
        let wanted = room::of_opening(open.load.as_ref());
        self.with_room(wanted, &open.owner, "open_session", |state, present, at| {
            session::open(state, present, at, open)
        })
    }

    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError> {
        self.run_for(&claim.owner, "claim_session", |state, _, partition| {
            session::claim(state, partition, claim)
        })?
    }

    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError> {
        self.run_for(owner, "close_session", |state, present, at| {
            session::close(state, present, at, owner, fence)
        })?
    }

    async fn ask_session(&self, owner: &Owner, fence: Fence, by: &str) -> Result<bool, HotError> {
        self.run_for(owner, "ask_session", |state, _, at| {
            session::ask(state, at, owner, fence, by)
        })?
    }

    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "sessions_of", |state, _, _| {
                session::session_of(state, owner)
            })
        };
        owners.iter().map(one).collect()
    }

    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        let one = |at: &Partition| {
            self.run(*at, "beat", |state, _| session::beat(state, *at, raise))
                .flatten()
        };
        partitions.iter().map(one).collect()
    }

    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>> {
        let one = |at: &Partition| self.run(*at, "asked", |state, _| session::asked(state, holder));
        partitions.iter().map(one).collect()
    }

    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.run(partition, "held_by", |state, _| {
            session::held_by(state, holder)
        })
    }

    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError> {
        self.run(partition, "lapse", |state, present| {
            session::lapse(state, present, partition, holder, beat)
        })?
    }

    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.run(partition, "lapsed", |state, _| session::lapsed(state))
    }

    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError> {
        self.run(partition, "forget_lapsed", |state, _| {
            session::forget_lapsed(state, partition, sessions)
        })?
    }

    async fn end_grace(&self, partition: Partition, epoch: Epoch) -> Result<bool, HotError> {
        self.run(partition, "end_grace", |state, _| {
            session::end_grace(state, partition, epoch)
        })?
    }
}

impl MemoryStore {
    fn mutate_one(&self, mutation: &Mutation, load: Option<&Load>) -> Result<Mutated, HotError> {
        let wanted = room::of_mutation(mutation, load);
        self.with_room(
            wanted,
            &mutation.owner,
            "mutate",
            |state, present, partition| mutate::mutate(state, present, partition, mutation, load),
        )
    }

    /// Runs a transition on the partition of an owner. If landed data of that partition does not
    /// make enough room, landed data of the other partitions is evicted next.
    fn with_room<T>(
        &self,
        wanted: usize,
        owner: &Owner,
        operation: &'static str,
        transition: impl Fn(&mut PartState, &Present, Partition) -> Result<T, HotError>,
    ) -> Result<T, HotError> {
        let once = || self.run_for(owner, operation, &transition)?;
        match once() {
            Err(error) if error.kind == HotKind::OutOfMemory => {
                self.make_room(wanted);
                once()
            }
            reply => reply,
        }
    }
}
