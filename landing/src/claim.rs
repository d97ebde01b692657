//! The partitions that a worker lands. Live workers have even shares, and each partition has a lock
//! that expires.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use storage_coalesce::locked;
use storage_config::LandingSettings;
use storage_dirty::{Hot, HotError, HotKind, Lock, Partitions};
use storage_model::Partition;

use crate::namesake::Namesakes;

/// The share of `worker` among the sorted `workers`: every n-th partition. The sizes of shares
/// differ by at most one.
#[must_use]
pub fn share(worker: &str, workers: &[String], partitions: u32) -> BTreeSet<Partition> {
    let Some(index) = workers.iter().position(|name| name == worker) else {
        return BTreeSet::new();
    };
    (0..partitions)
        .map(Partition)
        .skip(index)
        .step_by(workers.len())
        .collect()
}

/// The partitions of a worker. The keeper writes the claims. Tasks read them, and record which
/// partitions they are busy with.
#[derive(Debug)]
pub(crate) struct Claims {
    lock: Lock,
    // A plain mutex: held for set operations only, never across an await.
    state: Mutex<State>,
    namesakes: Namesakes,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeSet<Partition>,
    /// Partitions whose lock may belong to this worker, because an answer was lost. They do not
    /// land until the keeper knows. Without this record, nobody could land them until the lock
    /// expires.
    doubtful: BTreeSet<Partition>,
    busy: BTreeSet<Partition>,
    closed: bool,
}

/// A partition that a task works on. It is not given away until this value is dropped.
#[derive(Debug)]
pub(crate) struct Busy<'a> {
    claims: &'a Claims,
    pub(crate) partition: Partition,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.claims.state().busy.remove(&self.partition);
    }
}

impl Claims {
    pub(crate) fn new(lock: Lock) -> Self {
        Self {
            lock,
            state: Mutex::default(),
            namesakes: Namesakes::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    pub(crate) fn lock(&self) -> &Lock {
        &self.lock
    }

    pub(crate) fn held(&self) -> Vec<Partition> {
        self.state().held.iter().copied().collect()
    }

    /// Whether this worker serves the sinks of a partition. The lock is not looked at, since a sink
    /// may get an event twice.
    pub(crate) fn serves(&self, partition: Partition) -> bool {
        let state = self.state();
        !state.closed && state.held.contains(&partition)
    }

    /// Begins work on a partition, if it is held and no task is busy with it.
    pub(crate) fn begin(&self, partition: Partition) -> Option<Busy<'_>> {
        let mut state = self.state();
        let free = !state.closed && state.held.contains(&partition) && state.busy.insert(partition);
        // Made only if it is returned. A drop here would wait for the lock that `state` holds.
        free.then(|| Busy {
            claims: self,
            partition,
        })
    }

    /// One round of the keeper. It renews the worker's locks, announces the worker, gives away
    /// partitions that left its share, and claims the missing ones. A failed partition, for example
    /// on a lost node, does not stop the others.
    ///
    /// # Errors
    /// The first failure, after all other steps.
    pub(crate) async fn keep(&self, hot: &Hot, settings: &LandingSettings) -> Result<(), HotError> {
        let mut failed = None;
        // ORDER: locks before the announcement, so that the worker keeps them even while announcing
        // fails.
        let held = self.held();
        let renewed = hot
            .partitions
            .renew(&held, &self.lock, settings.lock_ttl)
            .await;
        self.forget(&those(&held, renewed, false, &mut failed));
        match hot
            .tier
            .announce(&self.lock.holder, settings.lock_ttl)
            .await
        {
            Ok(workers) => self.balance(hot, settings, &workers, &mut failed).await,
            Err(error) => note(&mut failed, error),
        }
        failed.map_or(Ok(()), Err)
    }

    /// Gives away partitions outside the worker's share, and claims the missing ones.
    async fn balance(
        &self,
        hot: &Hot,
        settings: &LandingSettings,
        workers: &[String],
        failed: &mut Option<HotError>,
    ) {
        let share = share(&self.lock.holder, workers, hot.partitions.partition_count());
        let surplus = self.take_idle(|partition| !share.contains(partition));
        if !surplus.is_empty() {
            tracing::info!(
                partitions = surplus.len(),
                workers = workers.len(),
                "gives partitions to another worker"
            );
        }
        if let Err(error) = self.give_back(hot.partitions.as_ref(), &surplus).await {
            note(failed, error);
        }
        let missing: Vec<_> = {
            let state = self.state();
            if state.closed {
                Vec::new()
            } else {
                share.difference(&state.held).copied().collect()
            }
        };
        self.mind(&missing);
        let locked = hot
            .partitions
            .lock(&missing, &self.lock, settings.lock_ttl)
            .await;
        self.doubt(&missing, &locked);
        let refused: Vec<_> = missing
            .iter()
            .zip(&locked)
            .filter(|(_, got)| matches!(got, Ok(false)))
            .map(|(partition, _)| *partition)
            .collect();
        let got = those(&missing, locked, true, failed);
        // A lone worker takes all of them when it begins, which is no news.
        let is_news = workers.len() > 1 || !self.state().held.is_empty();
        if is_news && !got.is_empty() {
            tracing::info!(
                partitions = got.len(),
                of = hot.partitions.partition_count(),
                workers = workers.len(),
                "took partitions over"
            );
        }
        self.state().held.extend(got);
        self.namesakes
            .look(
                hot.partitions.as_ref(),
                &self.lock.holder,
                settings.lock_ttl,
                &refused,
            )
            .await;
    }

    /// Stops holding partitions that no task is busy with, and returns them.
    fn take_idle(&self, is_surplus: impl Fn(&Partition) -> bool) -> Vec<Partition> {
        let mut state = self.state();
        let idle = state.held.difference(&state.busy).chain(&state.doubtful);
        let surplus: BTreeSet<_> = idle.copied().filter(is_surplus).collect();
        state.held.retain(|partition| !surplus.contains(partition));
        surplus.into_iter().collect()
    }

    /// Gives all idle partitions away and leaves the list of workers, because this worker can't
    /// land. So its share goes to the others.
    pub(crate) async fn stand_back(&self, hot: &Hot) -> Result<(), HotError> {
        let unlocked = self
            .give_back(hot.partitions.as_ref(), &self.take_idle(|_| true))
            .await;
        hot.tier.retire(&self.lock.holder).await?;
        unlocked
    }

    /// Gives locks back that this worker holds, or may hold.
    async fn give_back(
        &self,
        store: &dyn Partitions,
        partitions: &[Partition],
    ) -> Result<(), HotError> {
        self.mind(partitions);
        let unlocked = store.unlock(partitions, &self.lock).await;
        self.doubt(partitions, &unlocked);
        unlocked.into_iter().collect()
    }

    /// Remembers partitions before a request. A round that takes too long is dropped before the
    /// answers come.
    fn mind(&self, partitions: &[Partition]) {
        self.state().doubtful.extend(partitions);
    }

    /// Remembers the partitions with lost answers.
    fn doubt<T>(&self, partitions: &[Partition], results: &[Result<T, HotError>]) {
        let mut state = self.state();
        for (partition, result) in partitions.iter().zip(results) {
            if result.is_err() {
                state.doubtful.insert(*partition)
            } else {
                state.doubtful.remove(partition)
            };
        }
    }

    fn forget(&self, lost: &[Partition]) {
        let mut state = self.state();
        lost.iter().for_each(|partition| {
            state.held.remove(partition);
        });
    }

    /// Stops all further work from beginning.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    /// Whether no further work begins.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Gives all locks back, after the tasks have stopped.
    pub(crate) async fn release(&self, hot: &Hot) -> Result<(), HotError> {
        self.close();
        let held: Vec<_> = {
            let State { held, doubtful, .. } = &mut *self.state();
            std::mem::take(held).union(doubtful).copied().collect()
        };
        let unlocked = self.give_back(hot.partitions.as_ref(), &held).await;
        hot.tier.retire(&self.lock.holder).await?;
        unlocked
    }
}

/// The partitions with this answer. Remembers the first failure.
fn those(
    partitions: &[Partition],
    results: Vec<Result<bool, HotError>>,
    wanted: bool,
    failed: &mut Option<HotError>,
) -> Vec<Partition> {
    let mut out = Vec::new();
    for (partition, result) in partitions.iter().zip(results) {
        match result {
            Ok(answer) if answer == wanted => out.push(*partition),
            Ok(_) => {}
            Err(error) => note(failed, error),
        }
    }
    out
}

/// Keeps the first failure. An error of the kind `NoWrites` replaces it, because the marks of such
/// a hot tier can be rescued.
fn note(failed: &mut Option<HotError>, error: HotError) {
    if error.kind == HotKind::NoWrites {
        *failed = Some(error);
    } else {
        failed.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_begun_only_if_it_is_held_and_by_one_task_at_a_time() {
        let claims = Claims::new(Lock {
            holder: "a".into(),
            token: "t".into(),
        });
        assert!(claims.begin(Partition(1)).is_none(), "it is not held");
        claims.state().held.insert(Partition(1));
        let busy = claims.begin(Partition(1));
        assert!(
            busy.is_some() && claims.begin(Partition(1)).is_none(),
            "another task is busy with it"
        );
        assert!(
            claims.state().busy.contains(&Partition(1)),
            "and still is after the second attempt"
        );
        drop(busy);
        assert!(claims.begin(Partition(1)).is_some());
        claims.close();
        assert!(
            claims.begin(Partition(1)).is_none(),
            "no work begins any more"
        );
    }

    #[test]
    fn shares_are_even_and_cover_every_partition_once() {
        let workers: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let shares: Vec<_> = workers
            .iter()
            .map(|worker| share(worker, &workers, 256))
            .collect();
        assert_eq!(
            shares.iter().map(BTreeSet::len).collect::<Vec<_>>(),
            [86, 85, 85]
        );
        assert_eq!(shares.iter().flatten().collect::<BTreeSet<_>>().len(), 256);
        assert!(share("stranger", &workers, 256).is_empty());
    }
}
