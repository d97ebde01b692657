//! The background tasks of a holder. It beats, looks for requests of other servers, claims suspect
//! sessions, saves, and ends sessions that this process does not know.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use storage_dirty::{Asked, Beats};
use storage_model::{Ids, OpId, Partition};
use storage_tiers::Leases;
use tokio::time::{Instant, sleep, timeout};

use super::call::after;
use super::end::by_partition;
use super::hold::Hold;
use super::save::SaveRequest;
use crate::core::Core;
use crate::{Error, Kind, Result};

/// Beats in each lease.
const BEATS: u32 = 4;
/// The pause between beats until every partition has one. The first session waits for that.
const FIRST_BEATS_EVERY: Duration = Duration::from_millis(200);
/// Looks for requests in each lease. A holder sees a request within about a fiftieth of the lease.
const LOOKS: u32 = 50;
/// The most sessions that are claimed or saved at the same time.
pub(super) const AT_ONCE: usize = 64;
/// The pause before suspect sessions are claimed again.
const CLAIM_EVERY: Duration = Duration::from_millis(200);

/// Starts the beats if this process does not beat yet. Ready once each partition has a beat, so
/// that every observer of a session also sees its holder.
pub(super) async fn begin(core: &Arc<Core>, until: Instant) -> Result<()> {
    if core.holder.begins() {
        let weak = Arc::downgrade(core);
        core.background.begin(
            "beats of sessions",
            &core.tiers,
            &core.backpressure,
            move || beat(weak.clone()),
        );
        let weak = Arc::downgrade(core);
        core.background.begin(
            "claims of sessions",
            &core.tiers,
            &core.backpressure,
            move || claim_all(weak.clone()),
        );
        let weak = Arc::downgrade(core);
        core.background.begin(
            "asks for sessions",
            &core.tiers,
            &core.backpressure,
            move || listen(weak.clone()),
        );
        let weak = Arc::downgrade(core);
        core.background.begin(
            "upkeep of sessions",
            &core.tiers,
            &core.backpressure,
            move || upkeep(weak.clone()),
        );
    }
    if core.holder.is_heard() {
        return Ok(());
    }
    // This names the tier that is away, if there is one.
    let partitions: Vec<Partition> = (0..core.tiers.hot().partitions.partition_count())
        .map(Partition)
        .collect();
    prepare(core, &partitions).await?;
    let left = until.saturating_duration_since(Instant::now());
    let waiting = Arc::clone(core);
    let heard = core
        .within(left, async move { waiting.holder.until_heard().await })
        .await;
    heard.map_err(|late| {
        Error::new(
            Kind::HotUnavailable,
            format!("this server could not announce itself to the hot tier {late}"),
        )
    })
}

/// Prepares all partitions. A connection that just broke is opened again first.
async fn prepare(core: &Core, partitions: &[Partition]) -> Result<()> {
    for pause in [50, 100, 200] {
        match core
            .tiers
            .prepare(partitions)
            .await
            .map_err(Error::of_tiers)
        {
            Err(error) if matches!(error.kind(), Kind::HotUnavailable | Kind::Timeout) => {
                sleep(Duration::from_millis(pause)).await;
            }
            done => return done,
        }
    }
    let prepared = core.tiers.prepare(partitions).await;
    prepared.map_err(Error::of_tiers)
}

/// The state of a holder's own beats.
struct Pulse {
    number: u64,
    leases: Leases,
    /// For each partition, the time of sending of the last answered beat.
    heard: BTreeMap<Partition, Instant>,
}

async fn beat(core: Weak<Core>) {
    let Some(lease) = core.upgrade().map(|core| core.holder.lease) else {
        return;
    };
    let mut pulse = Pulse {
        number: 0,
        leases: Leases::new(lease),
        heard: BTreeMap::new(),
    };
    let mut next_beat = Instant::now();
    loop {
        let Some(core) = core.upgrade() else { return };
        if Instant::now() >= next_beat || !core.holder.is_heard() {
            next_beat = Instant::now() + lease / BEATS;
            pulse.beat(&core).await;
            pulse.doubt(&core);
        } else {
            pulse.look_again(&core).await;
        }
        let pause = if core.holder.is_heard() {
            lease / LOOKS
        } else {
            FIRST_BEATS_EVERY.min(lease / LOOKS)
        };
        drop(core);
        sleep(pause).await;
    }
}

/// The beats of these partitions, each in a call of its own. A hanging node then keeps no other
/// partition from its beat.
async fn beats_of(
    core: &Core,
    partitions: &[Partition],
    raise: Option<(OpId, u64)>,
) -> Vec<(Partition, Beats)> {
    let beats = partitions.iter().map(|partition| async move {
        let beats = timeout(core.holder.lease / BEATS, beats_in(core, *partition, raise))
            .await
            .ok()??;
        Some((*partition, beats))
    });
    join_all(beats).await.into_iter().flatten().collect()
}

/// The beats of a partition. An unprepared partition is prepared and asked once more.
async fn beats_in(core: &Core, partition: Partition, raise: Option<(OpId, u64)>) -> Option<Beats> {
    for _ in 0..2 {
        match core
            .tiers
            .hot()
            .holders
            .beat(&[partition], raise)
            .await
            .pop()?
        {
            Ok(beats) => return Some(beats),
            Err(error) => {
                if let Err(error) = core.tiers.prepare_after(error).await {
                    tracing::debug!(%error, partition = partition.0, "a beat of this server failed");
                    return None;
                }
            }
        }
    }
    None
}

impl Pulse {
    async fn beat(&mut self, core: &Arc<Core>) {
        self.number += 1;
        let hot = core.tiers.hot();
        let partitions: Vec<Partition> = (0..hot.partitions.partition_count())
            .map(Partition)
            .collect();
        // ORDER: before the beat is sent. The lease counts from this moment.
        let sent = Instant::now();
        let beats = beats_of(core, &partitions, Some((core.holder.id, self.number))).await;
        let holds = core.holder.open();
        for (partition, beats) in &beats {
            self.heard(core, &holds, *partition, beats, sent);
        }
        if self.heard.len() == partitions.len() {
            core.holder.heard();
        }
        self.judge(core, &beats).await;
    }

    /// Reports the verdict of these beats about other holders.
    async fn judge(&mut self, core: &Core, beats: &[(Partition, Beats)]) {
        let (hot, own, now) = (core.tiers.hot(), core.holder.id, Instant::now());
        let verdicts: Vec<_> = beats
            .iter()
            .map(|(partition, beats)| (*partition, self.leases.see(*partition, beats, now)))
            .collect();
        let said = verdicts.into_iter().map(|(partition, verdict)| async move {
            if let Ok(Err(error)) = timeout(
                core.holder.lease / BEATS,
                verdict.say(hot.holders.as_ref(), partition, Some(own)),
            )
            .await
            {
                tracing::debug!(%error, "a verdict about holders of sessions failed");
            }
        });
        join_all(said).await;
    }

    /// Looks again at partitions in which another holder is overdue, without a wait for the next
    /// beat.
    async fn look_again(&mut self, core: &Core) {
        let overdue = self.leases.overdue(core.holder.id, Instant::now());
        let answering = |partition: &Partition| {
            self.heard
                .get(partition)
                .is_some_and(|at| at.elapsed() < core.holder.lease / 2)
        };
        let overdue: Vec<Partition> = overdue.into_iter().filter(answering).collect();
        if !overdue.is_empty() {
            let beats = beats_of(core, &overdue, None).await;
            self.judge(core, &beats).await;
        }
    }

    /// A partition has the beat. Sessions of another epoch are claimed. Sessions that may have
    /// lapsed before the beat are claimed too.
    fn heard(
        &mut self,
        core: &Core,
        holds: &[Arc<Hold>],
        partition: Partition,
        beats: &Beats,
        sent: Instant,
    ) {
        let before = self.heard.insert(partition, sent);
        let lapsed =
            before.is_some_and(|before| sent.saturating_duration_since(before) > core.holder.lease);
        for hold in holds.iter().filter(|hold| hold.partition == partition) {
            if lapsed || hold.look(|known| known.epoch) != beats.adoption.epoch {
                hold.suspect();
            }
        }
    }

    /// Sessions may have lapsed in a partition without a beat for a lease.
    fn doubt(&self, core: &Core) {
        for (partition, heard) in &self.heard {
            if heard.elapsed() > core.holder.lease {
                core.holder
                    .open_in(*partition)
                    .iter()
                    .for_each(|hold| hold.suspect());
            }
        }
    }
}

async fn listen(core: Weak<Core>) {
    loop {
        let Some(strong) = core.upgrade() else { return };
        let lease = strong.holder.lease;
        hear(&strong).await;
        drop(strong);
        sleep(lease / LOOKS).await;
    }
}

/// Reads the requests for owners, and saves the requested sessions.
async fn hear(core: &Arc<Core>) {
    let hot = core.tiers.hot();
    let partitions: Vec<Partition> = (0..hot.partitions.partition_count())
        .map(Partition)
        .collect();
    let holds = core.holder.open();
    for (partition, asked) in partitions
        .iter()
        .zip(hot.holders.asked(&partitions, core.holder.id).await)
    {
        let Ok(asked) = asked else { continue };
        let mut by: BTreeMap<OpId, Asked> = asked
            .into_iter()
            .map(|asked| (asked.fence.token, asked))
            .collect();
        for hold in holds.iter().filter(|hold| hold.partition == *partition) {
            let is_asked = hold.asked(by.remove(&hold.fence.token));
            if is_asked && hold.is_dirty() && !hold.is_suspect() {
                begin_save(core, Arc::clone(hold));
            }
        }
    }
}

/// Saves a session in a task of its own.
fn begin_save(core: &Arc<Core>, hold: Arc<Hold>) {
    let wanted = SaveRequest {
        durability: hold.durability,
        within: core.deadline,
        ends: false,
    };
    core.tiers.home().spawn(async move {
        match hold.save(wanted).await {
            Ok(_) => {}
            // The last save of the session has overtaken this one, and holds its edits.
            Err(error) if error.kind() == Kind::Closing => {}
            Err(error) => {
                tracing::warn!(%error, "a session could not save by itself; it tries again")
            }
        }
    });
}

/// Claims suspect sessions, at once and then again and again.
async fn claim_all(core: Weak<Core>) {
    loop {
        let Some(strong) = core.upgrade() else { return };
        let mut suspect = strong.holder.open();
        suspect.retain(|hold| hold.is_suspect());
        let parts = by_partition(&suspect)
            .into_iter()
            .map(|part| timeout(strong.holder.lease, claim(part)));
        join_all(parts).await;
        tokio::select! {
            biased;
            () = strong.holder.suspects() => {}
            () = sleep(CLAIM_EVERY) => {}
        }
    }
}

async fn upkeep(core: Weak<Core>) {
    let mut due = Due::default();
    let mut swept = (Partition(0), Instant::now());
    loop {
        let Some(strong) = core.upgrade() else { return };
        let holds = strong.holder.open();
        for hold in due.now(&holds, strong.ids.as_ref()) {
            begin_save(&strong, hold);
        }
        if swept.1.elapsed() >= strong.holder.lease {
            // A hanging node must not delay the saves.
            let _ = timeout(strong.holder.lease / BEATS, sweep(&strong, swept.0)).await;
            swept = (
                Partition((swept.0.0 + 1) % strong.tiers.hot().partitions.partition_count().max(1)),
                Instant::now(),
            );
        }
        let pause = due.pause(holds.len());
        drop((holds, strong));
        sleep(pause).await;
    }
}

/// Claims sessions.
async fn claim(suspect: Vec<Arc<Hold>>) {
    let claims = stream::iter(suspect).for_each_concurrent(AT_ONCE, async |hold: Arc<Hold>| {
        if let Err(error) = hold.resume().await {
            tracing::debug!(%error, "a session could not be claimed yet");
        }
    });
    claims.await;
}

/// Ends the sessions of a partition that the hot tier has under this holder, and that this process
/// does not know. Their opening arrived late, or their end was forgotten.
async fn sweep(core: &Arc<Core>, partition: Partition) {
    let hot = core.tiers.hot();
    let Ok(held) = hot.holders.held_by(partition, core.holder.id).await else {
        return;
    };
    for (owner, fence) in held {
        // ORDER: after the answer of the hot tier. This process knows a session before its opening
        // is sent.
        if !core.holder.knows(fence.token) {
            let ended = hot.sessions.close_session(&owner, fence).await;
            tracing::info!(%owner, ended = ended.is_ok(), "a session that this process does not know is ended");
        }
    }
}

/// The times of the automatic saves (S17). The first time is a random moment within the period, to
/// spread the saves.
#[derive(Default)]
struct Due {
    next: BTreeMap<OpId, Instant>,
}

impl Due {
    /// The sessions that are due.
    fn now(&mut self, holds: &[Arc<Hold>], ids: &dyn Ids) -> Vec<Arc<Hold>> {
        let (now, mut due, mut next) = (Instant::now(), Vec::new(), BTreeMap::new());
        for hold in holds {
            let Some(period) = hold.autosave else {
                continue;
            };
            let token = hold.fence.token;
            let at = self
                .next
                .get(&token)
                .copied()
                .unwrap_or_else(|| after(random_part_of(period, ids)));
            let is_due = at <= now;
            // A suspect session saves everything once it is claimed.
            if is_due && hold.is_dirty() && !hold.is_over() && !hold.is_suspect() {
                due.push(Arc::clone(hold));
            }
            next.insert(token, if is_due { after(period) } else { at });
        }
        self.next = next;
        due
    }

    /// The pause before the next look. It is short enough to meet each period closely, and longer
    /// while there are no sessions.
    fn pause(&self, sessions: usize) -> Duration {
        if sessions == 0 {
            Duration::from_millis(200)
        } else {
            Duration::from_millis(50)
        }
    }
}

fn random_part_of(period: Duration, ids: &dyn Ids) -> Duration {
    let random = ids.next().to_string();
    let number = u32::from_str_radix(random.get(..8).unwrap_or_default(), 16).unwrap_or_default();
    period.mul_f64(f64::from(number) / f64::from(u32::MAX))
}
