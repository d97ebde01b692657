//! Hot-loading: bringing cold owners back, once for all who wait (R12), with proof (R7, R8, R15).
//!
//! Misses of a process queue up. Whoever finds no batch under way carries the next one: it takes what waits, observes the
//! markers, reads all the owners in one statement, fills them, and answers everyone. Further misses of the same owner join a
//! load that has not begun; so an answer is never older than the call it answers. Those that come later wait for the next load, which
//! looks at the hash first and mostly finds it filled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storage_dirty::{Fields, Filled, Header, HotError, HotKind, HotRead, Load, Marker, Observed, Read};
use storage_model::sabotage::broken;
use storage_model::{Cell, Field, Owner, Row, Version};
use tokio::sync::{Semaphore, broadcast};
use tokio::time::sleep;

use super::{TierError, Tiers};

/// Owners in one statement. More gain nothing and delay the first.
const BATCH_OWNERS_MAX: usize = 64;
/// Batches under way at once; each holds one database connection.
const BATCHES_MAX: usize = 4;
/// Each try fails only if a write of the same owner came in between.
const TRIES_MAX: u32 = 64;
/// How long the right to load an owner outlives a process that died with it (R12). All tries together take longer.
const LEASE: Duration = Duration::from_secs(2);
/// The waits for another process' load; they double.
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(64);

/// A load that was accepted: what it brought, and the owner as it is with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullLoad {
    /// Rows and proof, for a mutation that builds on them.
    pub load: Load,
    /// Rows and hash taken together.
    pub read: HotRead,
}

/// How many loads there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadCounts {
    /// Owners read from the database.
    pub owners: u64,
    /// Statements that read them.
    pub statements: u64,
}

type Answer = Result<Option<Arc<FullLoad>>, TierError>;

/// Who waits for an owner.
#[derive(Debug)]
struct Waiting {
    listeners: broadcast::Sender<Answer>,
    /// Whether a carrier has taken it. What it brings may then be older than what a new caller has seen.
    begun: bool,
    /// Those who came after it began; the next load is theirs, and mostly finds the hash filled.
    later: Option<broadcast::Sender<Answer>>,
}

fn channel() -> broadcast::Sender<Answer> {
    broadcast::channel(1).0
}

#[derive(Debug, Default)]
struct Queue {
    /// Owners whose load waits or runs. Written by joiners and carriers under the lock; entries end with their answer.
    waiting: HashMap<Owner, Waiting>,
    /// Those of them that no carrier took yet.
    fresh: Vec<Owner>,
}

/// The loads under way in this process. A plain mutex: it is held for map operations only, never across an await.
#[derive(Debug, Clone)]
pub(super) struct Loader {
    rows_max: usize,
    queue: Arc<Mutex<Queue>>,
    carriers: Arc<Semaphore>,
    owners: Arc<AtomicU64>,
    statements: Arc<AtomicU64>,
}

impl Loader {
    pub(super) fn new(rows_max: usize) -> Self {
        Self {
            rows_max,
            queue: Arc::default(),
            carriers: Arc::new(Semaphore::new(BATCHES_MAX)),
            owners: Arc::default(),
            statements: Arc::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the owner's load that has not begun, or queues one; says whether a carrier is needed.
    fn join(&self, owner: &Owner) -> (broadcast::Receiver<Answer>, bool) {
        let mut queue = self.queue();
        if let Some(waiting) = queue.waiting.get_mut(owner) {
            let listeners = if waiting.begun { waiting.later.get_or_insert_with(channel) } else { &waiting.listeners };
            return (listeners.subscribe(), false);
        }
        let listeners = channel();
        let receiver = listeners.subscribe();
        queue.waiting.insert(owner.clone(), Waiting { listeners, begun: false, later: None });
        queue.fresh.push(owner.clone());
        (receiver, true)
    }

    fn take(&self) -> Vec<Owner> {
        let mut queue = self.queue();
        let count = queue.fresh.len().min(BATCH_OWNERS_MAX);
        let taken: Vec<Owner> = queue.fresh.drain(..count).collect();
        for owner in &taken {
            if let Some(waiting) = queue.waiting.get_mut(owner) {
                waiting.begun = true;
            }
        }
        taken
    }

    /// Answers those who waited for a load, and queues the next one for those who came after it began.
    fn answer(&self, owner: &Owner, answer: Answer) {
        let mut queue = self.queue();
        let Some(Waiting { listeners, later, .. }) = queue.waiting.remove(owner) else { return };
        if let Some(listeners) = later {
            queue.waiting.insert(owner.clone(), Waiting { listeners, begun: false, later: None });
            queue.fresh.push(owner.clone());
        }
        let _ = listeners.send(answer);
    }

    /// Answers all who wait for an owner, since nobody carries its load any more.
    fn fail(&self, owner: &Owner) {
        let Some(Waiting { listeners, later, .. }) = self.queue().waiting.remove(owner) else { return };
        for listeners in [Some(listeners), later].into_iter().flatten() {
            let _ = listeners.send(Err(contended(owner)));
        }
    }

    fn is_idle(&self) -> bool {
        self.queue().fresh.is_empty()
    }

    fn count(&self, owners: usize) {
        self.owners.fetch_add(u64::try_from(owners).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

/// Owners that a carrier has taken. Whoever is left when it ends, however it ends, gets an answer all the same.
struct Carried<'a> {
    loader: &'a Loader,
    owners: Vec<Owner>,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        self.owners.iter().for_each(|owner| self.loader.fail(owner));
    }
}

impl Tiers {
    /// Brings a whole owner into the hot tier and answers what it holds. None if it has more rows than one load takes; see
    /// [`Tiers::load_fields`] and [`Tiers::load_large`].
    ///
    /// # Errors
    /// A tier is away, or writes of the same owner came in between each time.
    ///
    /// # Cancel safety
    /// The load goes on for the others who wait for it; nothing else is left.
    pub async fn load(&self, owner: &Owner) -> Answer {
        if broken("R12-alone")
            && let Some(Some(answer)) = self.load_batch(std::slice::from_ref(owner)).await?.pop()
        {
            return answer;
        }
        let (mut answer, queued) = self.loader.join(owner);
        if queued {
            let tiers = self.clone();
            tokio::spawn(async move { tiers.carry().await });
        }
        answer.recv().await.unwrap_or_else(|_| Err(contended(owner)))
    }

    /// Carries queued loads in batches, as long as there are any.
    async fn carry(&self) {
        let Ok(_permit) = self.loader.carriers.acquire().await else { return };
        while !self.loader.is_idle() {
            self.carry_batch().await;
        }
    }

    async fn carry_batch(&self) {
        let mut carried = Carried { loader: &self.loader, owners: self.loader.take() };
        let mut pause = WAIT_MIN;
        for _ in 0..TRIES_MAX {
            if carried.owners.is_empty() {
                return;
            }
            let before = carried.owners.len();
            match self.load_batch(&carried.owners).await {
                Ok(answers) => {
                    let mut answers = answers.into_iter();
                    carried.owners.retain(|owner| match answers.next().flatten() {
                        Some(answer) => {
                            self.loader.answer(owner, answer);
                            false
                        }
                        None => true,
                    });
                }
                Err(error) => {
                    carried.owners.drain(..).for_each(|owner| self.loader.answer(&owner, Err(error.clone())));
                    return;
                }
            }
            if carried.owners.len() == before {
                // Another process is loading them, or they are written all the time.
                sleep(pause).await;
                pause = (pause * 2).min(WAIT_MAX);
            }
        }
    }

    /// Answers owners, from the hot tier if they are back in it, else with one load. An owner without an answer moved meanwhile,
    /// and is to be loaded again.
    async fn load_batch(&self, owners: &[Owner]) -> Result<Vec<Option<Answer>>, TierError> {
        let (observed, leased) = tokio::join!(self.observe_each(owners), self.hot.lease(owners, LEASE));
        // A lease that can't be asked for, as at the memory limit, spares nobody a load.
        let leased: Vec<bool> =
            leased.into_iter().map(|leased| leased.unwrap_or(true) || broken("R12-unleased") || broken("R12-alone")).collect();
        let answers = self.load_leased(owners, observed, &leased).await;
        // ORDER: after the fill, so that whoever gets the lease next finds the hash.
        let held: Vec<Owner> =
            owners.iter().zip(&leased).filter(|(_, leased)| **leased).map(|(owner, _)| owner.clone()).collect();
        if !held.is_empty()
            && let Err(error) = self.hot.release(&held).await
        {
            tracing::debug!(%error, "leases were not given back; they run out");
        }
        answers
    }

    /// Answers owners whose hash is back, and loads those of the others that this process may load.
    async fn load_leased(
        &self,
        owners: &[Owner],
        observed: Vec<Result<Observed, TierError>>,
        leased: &[bool],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        // A caller's miss may be older than the load that just ended, so the hash is looked at once more.
        // ORDER: after the observation, so that a write in between refuses what is built on this read, as it does with rows.
        let reads: Vec<Read> = owners.iter().map(|owner| Read { owner: owner.clone(), fields: Fields::All }).collect();
        let hot = self.hot.read(&reads).await;
        let answer = |((owner, seen), hot): ((&Owner, &Result<Observed, TierError>), _)| match seen {
            // R8: the database was asked a short while ago, and any write since would have replaced that answer.
            Ok(seen) if seen.marker == Marker::Absent => Some(Ok(Some(absent(owner, *seen)))),
            Ok(seen) => back(owner, *seen, hot),
            Err(error) => Some(Err(error.clone())),
        };
        let back: Vec<Option<Answer>> = owners.iter().zip(&observed).zip(hot).map(answer).collect();
        let cold: Vec<(Owner, Observed)> = owners
            .iter()
            .zip(observed)
            .zip(back.iter().zip(leased))
            .filter(|(_, (back, leased))| back.is_none() && **leased)
            .filter_map(|((owner, observed), _)| Some((owner.clone(), observed.ok()?)))
            .collect();
        let mut loaded = self.load_cold(&cold).await?.into_iter();
        let next = |(back, leased): (Option<Answer>, &bool)| match back {
            None if *leased => loaded.next().flatten(),
            back => back,
        };
        Ok(back.into_iter().zip(leased).map(next).collect())
    }

    /// Loads owners once.
    async fn load_cold(&self, cold: &[(Owner, Observed)]) -> Result<Vec<Option<Answer>>, TierError> {
        if cold.is_empty() {
            return Ok(Vec::new());
        }
        let owners: Vec<Owner> = cold.iter().map(|(owner, _)| owner.clone()).collect();
        let loaded = self.cold.load(&owners, self.loader.rows_max).await?;
        self.loader.count(owners.len());
        let complete: Vec<bool> = loaded.iter().map(|loaded| loaded.complete).collect();
        let loads: Vec<Load> = cold
            .iter()
            .zip(loaded)
            .filter(|(_, loaded)| loaded.complete)
            .map(|((owner, observed), loaded)| load_of(owner, *observed, loaded.rows, true))
            .collect();
        let mut filled = self.hot.fill(&loads).await.into_iter().zip(loads);
        let mut answers = Vec::with_capacity(owners.len());
        for complete in complete {
            answers.push(match if complete { filled.next() } else { None } {
                None => Some(Ok(None)),
                Some((Ok(Filled::Accepted(read)), load)) => Some(Ok(Some(Arc::new(FullLoad { load, read })))),
                Some((Ok(Filled::Refused), _)) => None,
                Some((Err(error), _)) if matches!(error.kind, HotKind::Unprepared(_)) => None,
                Some((Err(error), _)) => Some(Err(error.into())),
            });
        }
        Ok(answers)
    }

    /// As [`Tiers::observe`], with an answer for each owner: one whose data is broken or whose node is away fails no other.
    async fn observe_each(&self, owners: &[Owner]) -> Vec<Result<Observed, TierError>> {
        let seen = self.hot.observe(owners).await;
        let unprepared = |seen: &Result<Observed, HotError>| match seen {
            Err(HotError { kind: HotKind::Unprepared(partition), .. }) => Some(*partition),
            _ => None,
        };
        let late: Vec<Owner> =
            owners.iter().zip(&seen).filter(|(_, seen)| unprepared(seen).is_some()).map(|(owner, _)| owner.clone()).collect();
        // Together, so that a partition is prepared once however many of the owners are in it.
        let prepared = if late.is_empty() { Ok(Vec::new()) } else { self.observe(&late).await };
        let mut again = prepared.clone().unwrap_or_default().into_iter();
        let one = |seen: Result<Observed, HotError>| match (unprepared(&seen), &prepared) {
            (None, _) => Ok(seen?),
            (Some(_), Err(error)) => Err(error.clone()),
            (Some(_), Ok(_)) => again.next().map_or_else(|| Ok(seen?), Ok),
        };
        seen.into_iter().map(one).collect()
    }

    /// What to remember before the database is asked; prepares partitions that need it.
    pub(super) async fn observe(&self, owners: &[Owner]) -> Result<Vec<Observed>, TierError> {
        for _ in 0..TRIES_MAX {
            let mut unprepared = Vec::new();
            let mut observed = Vec::with_capacity(owners.len());
            for result in self.hot.observe(owners).await {
                match result {
                    Ok(seen) => observed.push(seen),
                    Err(error) => match error.kind {
                        HotKind::Unprepared(partition) => unprepared.push(partition),
                        _ => return Err(error.into()),
                    },
                }
            }
            if unprepared.is_empty() {
                return Ok(observed);
            }
            self.prepare(&unprepared).await?;
        }
        Err(TierError::Contended { what: "observe".into(), tries: TRIES_MAX })
    }

    /// Brings the named fields of an owner that has too many rows for [`Tiers::load`].
    ///
    /// # Errors
    /// As [`Tiers::load`].
    ///
    /// # Cancel safety
    /// Nothing is left behind but what was filled.
    pub async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<FullLoad, TierError> {
        let load = || async { Ok((self.cold.load_fields(owner, fields).await?, true)) };
        self.load_proved(owner, load).await
    }

    /// Reads all of an owner that has too many rows for [`Tiers::load`]. Its rows are not kept in the hot tier.
    ///
    /// # Errors
    /// As [`Tiers::load`].
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn load_large(&self, owner: &Owner) -> Result<HotRead, TierError> {
        let load = || async {
            let loaded = self.cold.load(std::slice::from_ref(owner), usize::MAX).await?;
            Ok((loaded.into_iter().flat_map(|loaded| loaded.rows).collect(), false))
        };
        let FullLoad { load, read } = self.load_proved(owner, load).await?;
        let mut cells: std::collections::BTreeMap<Field, Cell> =
            load.rows.into_iter().map(|(field, cell, _)| (field, cell)).collect();
        cells.extend(read.cells);
        Ok(HotRead { header: read.header, cells: cells.into_iter().collect() })
    }

    /// Repeats a load of one owner until it is proved. Rows that are not `kept` serve the caller only.
    async fn load_proved<F>(&self, owner: &Owner, rows: impl Fn() -> F) -> Result<FullLoad, TierError>
    where
        F: Future<Output = Result<(Vec<Row>, bool), TierError>>,
    {
        for _ in 0..TRIES_MAX {
            let Some(observed) = self.observe(std::slice::from_ref(owner)).await?.pop() else { continue };
            let (rows, kept) = rows().await?;
            self.loader.count(1);
            let load = load_of(owner, observed, rows, false);
            let fill = if kept { load.clone() } else { Load { rows: Vec::new(), ..load.clone() } };
            match self.hot.fill(&[fill]).await.pop() {
                Some(Ok(Filled::Accepted(mut read))) => {
                    read.header = read.header.or_else(|| unkept(&load));
                    return Ok(FullLoad { load, read });
                }
                Some(Err(error)) if !matches!(error.kind, HotKind::Unprepared(_)) => return Err(error.into()),
                _ => {}
            }
        }
        Err(contended(owner))
    }

    /// How many loads this process made since it started.
    #[must_use]
    pub fn load_counts(&self) -> LoadCounts {
        LoadCounts {
            owners: self.loader.owners.load(Ordering::Relaxed),
            statements: self.loader.statements.load(Ordering::Relaxed),
        }
    }
}

/// The answer for an owner whose hash is complete: the load has all that the hash holds, since the hash may be evicted before a
/// mutation comes with it, which then takes what the load lacks as never written.
fn back(owner: &Owner, observed: Observed, hot: Result<HotRead, HotError>) -> Option<Answer> {
    let read = hot.ok()?;
    let header = read.header.filter(|header| header.complete && !header.suspect)?;
    let rows = read.cells.iter().map(|(field, cell)| (field.clone(), cell.clone(), header.version)).collect();
    let load = Load { owner: owner.clone(), observed, rows, complete: true };
    Some(Ok(Some(Arc::new(FullLoad { load, read }))))
}

/// The header of an owner that has no hash, since nothing of it was kept: its version is the marker's, or the newest row's.
fn unkept(load: &Load) -> Option<Header> {
    let newest = load.rows.iter().map(|(.., version)| *version).max().unwrap_or_default();
    let version = newest.max(load.observed.marker.version());
    (version > Version::ZERO).then_some(Header {
        version,
        complete: false,
        generation: load.observed.epoch,
        suspect: false,
        marks: 0,
    })
}

/// The answer for an owner that is known to have no row.
fn absent(owner: &Owner, observed: Observed) -> Arc<FullLoad> {
    Arc::new(FullLoad { load: load_of(owner, observed, Vec::new(), true), read: HotRead::default() })
}

pub(super) fn contended(owner: &Owner) -> TierError {
    TierError::Contended { what: format!("load {owner}"), tries: TRIES_MAX }
}

pub(super) fn load_of(owner: &Owner, observed: Observed, rows: Vec<Row>, complete: bool) -> Load {
    let rows = rows.into_iter().map(|row| (row.field, row.cell, row.version)).collect();
    Load { owner: owner.clone(), observed, rows, complete }
}

#[cfg(test)]
mod tests {
    use storage_dirty::{Adopt, HotStore, MemorySettings, MemoryStore, Mutated};
    use storage_model::{Bytes, Change, Epoch, ManualClock, Mutation, OpId, Partition, Timestamp};

    use super::*;

    #[tokio::test]
    async fn a_load_answered_by_the_hash_still_holds_when_the_hash_is_gone() {
        let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
        let hot = MemoryStore::new(MemorySettings { partitions: 1, ..MemorySettings::default() }, clock);
        let seen = hot.partition_states(&[Partition(0)]).await.remove(0).unwrap();
        let adopt = Adopt { partition: Partition(0), seen, epoch: Epoch(1), last_version: Version::ZERO, database: None };
        assert_eq!(hot.adopt(&[adopt]).await, [Ok(true)]);
        let owner = Owner::new("game", "eu", "player", "ann").unwrap();
        let (owners, gold) = ([owner.clone()], Field::new("gold").unwrap());
        let version = Version::new(1_700_000_000_000_000).unwrap();
        let row = Row { owner: owner.clone(), field: gold.clone(), cell: Cell::Live(Bytes::from_static(b"10")), version };
        let observed = hot.observe(&owners).await.remove(0).unwrap();
        hot.fill(&[load_of(&owner, observed, vec![row], true)]).await.remove(0).unwrap();

        let observed = hot.observe(&owners).await.remove(0).unwrap();
        let read = hot.read(&[Read { owner: owner.clone(), fields: Fields::All }]).await.remove(0);
        let full = back(&owner, observed, read).unwrap().unwrap().unwrap();
        hot.evict(&owners).await.remove(0).unwrap();
        let deadline = Timestamp(1_800_000_001_000_000);
        let incr = Mutation::new(owner, vec![(gold, Change::Incr(5))], OpId([1; 16]), deadline);
        let Mutated::Applied(applied) = hot.mutate(&[(incr, Some(full.load.clone()))]).await.remove(0).unwrap() else {
            panic!("not applied")
        };
        assert_eq!(applied.counters, [15]);
    }
}
