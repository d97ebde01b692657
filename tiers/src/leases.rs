//! When a session holder counts as gone, and when a grace ends. Each observer judges by its own
//! monotonic clock.

use std::collections::BTreeMap;
use std::time::Duration;

use storage_dirty::{Adoption, Beats, Holders, HotError};
use storage_model::{Fence, OpId, Owner, Partition, times};
use tokio::time::Instant;

/// The holders of each partition as an observer has seen them. Pure: time is a parameter.
#[derive(Debug)]
pub struct Leases {
    /// A lease and a tenth. The tenth covers that a holder counts its lease from before it sends a
    /// beat, and by another clock.
    patience: Duration,
    partitions: BTreeMap<Partition, PartitionBeats>,
}

#[derive(Debug, Default)]
struct PartitionBeats {
    /// The last adoption, and when the observer saw it first.
    adoption: Option<(Adoption, Instant)>,
    /// Each holder's beat, and when the observer saw it first.
    beats: BTreeMap<OpId, (u64, Instant)>,
}

/// An observer's judgement of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Holders with a beat that has not changed for a lease and a tenth, and that beat.
    pub gone: Vec<(OpId, u64)>,
    /// The last adoption, if its epoch has lasted for a lease and a tenth and its grace has not
    /// ended.
    pub graced: Option<Adoption>,
}

impl Leases {
    /// An observer that has seen nothing yet.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self {
            patience: lease + lease / 10,
            partitions: BTreeMap::new(),
        }
    }

    /// The verdict that follows from the present beats of a partition.
    pub fn see(&mut self, partition: Partition, beats: &Beats, now: Instant) -> Verdict {
        let patience = self.patience;
        let has_lasted = |since: Instant| now.saturating_duration_since(since) >= patience;
        let seen = self.partitions.entry(partition).or_default();
        // Silence in an earlier epoch proves nothing in this one: the hot tier may show older
        // beats.
        if seen.adoption.map(|(adoption, _)| adoption) != Some(beats.adoption) {
            *seen = PartitionBeats {
                adoption: Some((beats.adoption, now)),
                beats: BTreeMap::new(),
            };
        }
        let mut before = std::mem::take(&mut seen.beats);
        let mut verdict = Verdict::default();
        for (holder, beat) in &beats.beats {
            let since = before
                .remove(holder)
                .filter(|(last, _)| last == beat)
                .map_or(now, |(_, since)| since);
            seen.beats.insert(*holder, (*beat, since));
            if has_lasted(since) {
                verdict.gone.push((*holder, *beat));
            }
        }
        let grace_lasted = seen.adoption.is_some_and(|(_, since)| has_lasted(since));
        verdict.graced = Some(beats.adoption).filter(|_| grace_lasted && !beats.graced);
        verdict
    }

    /// The partitions in which another holder has been silent for a lease and a tenth. The observer
    /// must look at them again.
    #[must_use]
    pub fn overdue(&self, own: OpId, now: Instant) -> Vec<Partition> {
        let mut overdue = Vec::new();
        for (partition, seen) in &self.partitions {
            let is_silent = |since: Instant| now.saturating_duration_since(since) >= self.patience;
            if seen
                .beats
                .iter()
                .any(|(holder, (_, since))| *holder != own && is_silent(*since))
            {
                overdue.push(*partition);
            }
        }
        overdue
    }
}

impl Verdict {
    /// Reports the verdict to the hot tier, for all holders but this one.
    ///
    /// # Errors
    /// The hot tier failed. The next look reports again.
    pub async fn say(
        self,
        hot: &dyn Holders,
        partition: Partition,
        own: Option<OpId>,
    ) -> Result<(), HotError> {
        let Self { gone, graced } = self;
        for (holder, beat) in gone.into_iter().filter(|(holder, _)| Some(*holder) != own) {
            let sessions = hot.lapse(partition, holder, beat).await?;
            if sessions > 0 {
                tracing::warn!(partition = partition.0, %holder, sessions, "a session holder is silent: its sessions lapse");
            }
        }
        if let Some(adoption) = graced {
            hot.end_grace(partition, adoption).await?;
        }
        Ok(())
    }
}

/// The lapsed sessions of each partition, and when the observer listed them.
#[derive(Debug, Default)]
pub struct Lapsed(BTreeMap<Partition, (Instant, Vec<(Owner, Fence)>)>);

impl Lapsed {
    /// Forgets the sessions of a partition that had lapsed an hour ago and are still lapsed. Their
    /// holders will not come back. Looks at most once an hour.
    ///
    /// # Errors
    /// The hot tier failed. The next call tries again.
    pub async fn forget_old(
        &mut self,
        hot: &dyn Holders,
        partition: Partition,
        now: Instant,
    ) -> Result<(), HotError> {
        let before = self.0.get(&partition);
        if before.is_some_and(|(at, _)| now.saturating_duration_since(*at) < times::LAPSED_SESSION)
        {
            return Ok(());
        }
        let mut lapsed = hot.lapsed(partition).await?;
        if let Some((_, before)) = before {
            let old: Vec<_> = lapsed
                .iter()
                .filter(|session| before.contains(session))
                .cloned()
                .collect();
            hot.forget_lapsed(partition, &old).await?;
            lapsed.retain(|session| !old.contains(session));
        }
        self.0.insert(partition, (now, lapsed));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use storage_dirty::Asked;
    use storage_model::{Epoch, Timestamp, Version};

    use super::*;

    const LEASE: Duration = Duration::from_secs(10);
    const PARTITION: Partition = Partition(3);

    fn holder(number: u8) -> OpId {
        OpId::new([number; 16])
    }

    fn adoption(epoch: u64, at: u64) -> Adoption {
        Adoption {
            epoch: Epoch(epoch),
            at: Timestamp(at),
        }
    }

    fn beats(list: &[(u8, u64)], epoch: u64, graced: bool) -> Beats {
        Beats {
            beats: list
                .iter()
                .map(|(number, beat)| (holder(*number), *beat))
                .collect(),
            adoption: adoption(epoch, 0),
            graced,
        }
    }

    /// A late copy of an adoption begins an epoch again, after a flush of Redis. All sessions are
    /// lost, and their holders need the whole grace to claim them.
    #[test]
    fn an_epoch_that_begins_again_gets_its_whole_grace() {
        let (mut leases, start) = (Leases::new(LEASE), Instant::now());
        let mut graced = |seconds: u64, at: u64| {
            let beats = Beats {
                adoption: adoption(7, at),
                ..beats(&[], 7, false)
            };
            let now = start + Duration::from_secs(seconds);
            leases.see(PARTITION, &beats, now).graced
        };
        assert_eq!((graced(0, 1), graced(10, 1)), (None, None));
        assert_eq!((graced(11, 2), graced(21, 2)), (None, None));
        assert_eq!(graced(22, 2), Some(adoption(7, 2)));
    }

    #[test]
    fn a_holder_is_gone_once_its_beat_has_stood_still_for_a_lease_and_its_tenth() {
        let (mut leases, start) = (Leases::new(LEASE), Instant::now());
        let mut gone = |seconds: u64, list: &[(u8, u64)]| {
            leases
                .see(
                    PARTITION,
                    &beats(list, 1, true),
                    start + Duration::from_secs(seconds),
                )
                .gone
        };
        assert_eq!(gone(0, &[(1, 5), (2, 9)]), []);
        assert_eq!(gone(10, &[(1, 5), (2, 10)]), []);
        assert_eq!(gone(11, &[(1, 5), (2, 10)]), [(holder(1), 5)]);
        assert_eq!(gone(12, &[(2, 10)]), []);
        assert_eq!(
            gone(13, &[(1, 5), (2, 10)]),
            [],
            "a holder that came back counts from now"
        );
    }

    #[test]
    fn a_grace_has_lasted_once_its_epoch_was_seen_for_a_lease_and_its_tenth() {
        let (mut leases, start) = (Leases::new(LEASE), Instant::now());
        let mut graced = |seconds: u64, epoch: u64, graced: bool| {
            leases
                .see(
                    PARTITION,
                    &beats(&[], epoch, graced),
                    start + Duration::from_secs(seconds),
                )
                .graced
        };
        assert_eq!(graced(0, 2, false), None);
        assert_eq!(graced(9, 3, false), None, "another epoch, another grace");
        assert_eq!(graced(12, 3, false), None);
        assert_eq!(graced(20, 3, false), Some(adoption(3, 0)));
        assert_eq!(graced(21, 3, true), None);
    }

    #[test]
    fn what_stood_still_in_an_epoch_before_says_nothing_of_this_one() {
        let (mut leases, start) = (Leases::new(LEASE), Instant::now());
        leases.see(PARTITION, &beats(&[(1, 5)], 1, true), start);
        let after = start + LEASE * 2;
        assert_eq!(
            leases.see(PARTITION, &beats(&[(1, 5)], 2, false), after),
            Verdict::default()
        );
    }

    #[test]
    fn a_partition_is_overdue_once_a_holder_has_been_silent_for_as_long_as_it_may_be() {
        let (mut leases, start) = (Leases::new(LEASE), Instant::now());
        leases.see(PARTITION, &beats(&[(1, 5), (2, 9)], 1, true), start);
        let overdue = |own: u8, seconds: u64| {
            leases.overdue(holder(own), start + Duration::from_secs(seconds))
        };
        assert_eq!((overdue(2, 10), overdue(2, 11)), (vec![], vec![PARTITION]));
        leases.see(PARTITION, &beats(&[(2, 9)], 1, true), start);
        assert_eq!(
            leases.overdue(holder(2), start + LEASE * 2),
            [],
            "a holder does not judge itself"
        );
    }

    /// A hot tier of lapsed sessions alone. One trait of the contract is enough for the observer.
    #[derive(Debug, Default)]
    struct OnlyLapsed(Mutex<Vec<(Owner, Fence)>>);

    type Listed = Vec<(Owner, Fence)>;

    #[async_trait]
    impl Holders for OnlyLapsed {
        async fn beat(
            &self,
            _: &[Partition],
            _: Option<(OpId, u64)>,
        ) -> Vec<Result<Beats, HotError>> {
            Vec::new()
        }
        async fn asked(&self, _: &[Partition], _: OpId) -> Vec<Result<Vec<Asked>, HotError>> {
            Vec::new()
        }
        async fn held_by(&self, _: Partition, _: OpId) -> Result<Listed, HotError> {
            Ok(Vec::new())
        }
        async fn lapse(&self, _: Partition, _: OpId, _: u64) -> Result<u32, HotError> {
            Ok(0)
        }
        async fn lapsed(&self, _: Partition) -> Result<Listed, HotError> {
            Ok(self.0.lock().unwrap().clone())
        }
        async fn forget_lapsed(
            &self,
            _: Partition,
            sessions: &[(Owner, Fence)],
        ) -> Result<u32, HotError> {
            let mut lapsed = self.0.lock().unwrap();
            lapsed.retain(|session| !sessions.contains(session));
            Ok(0)
        }
        async fn end_grace(&self, _: Partition, _: Adoption) -> Result<bool, HotError> {
            Ok(true)
        }
    }

    #[tokio::test]
    async fn a_lapsed_session_is_forgotten_once_it_was_listed_an_hour_ago() {
        let session = |id: &str| {
            let owner = Owner::new("game", "eu", "player", id).unwrap();
            let (version, token) = (Version::ZERO, holder(1));
            (owner, Fence { version, token })
        };
        let (hot, mut lapsed, start) = (
            OnlyLapsed(Mutex::new(vec![session("ann")])),
            Lapsed::default(),
            Instant::now(),
        );
        for (minutes, left) in [
            (0, vec!["ann"]),
            (59, vec!["ann", "bob"]),
            (60, vec!["bob"]),
            (119, vec!["bob"]),
            (120, vec![]),
        ] {
            let now = start + Duration::from_mins(minutes);
            lapsed.forget_old(&hot, PARTITION, now).await.unwrap();
            let left: Vec<_> = left.into_iter().map(session).collect();
            assert_eq!(*hot.0.lock().unwrap(), left, "after {minutes} minutes");
            if minutes == 0 {
                hot.0.lock().unwrap().push(session("bob"));
            }
        }
    }
}
