//! What a holder does by itself: it beats, hears who asks for its owners, claims what is suspect, saves, and ends what nobody knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use storage_dirty::Beats;
use storage_landing::Leases;
use storage_model::{Ids, OpId, Partition};
use tokio::time::{Instant, sleep, timeout};

use super::hold::Hold;
use super::save::Wanted;
use crate::core::Core;
use crate::{Error, Kind, Result};

/// Beats in a lease.
const BEATS: u32 = 4;
/// Looks in a lease at who asks: a holder hears of it within some fiftieth of the lease.
const LOOKS: u32 = 50;
/// Sessions that are claimed or saved at once.
pub(super) const AT_ONCE: usize = 64;
/// How long suspect sessions wait until they are claimed again.
const CLAIM_EVERY: Duration = Duration::from_millis(200);

/// Begins to beat, if this process does not yet; ready once each partition has its beat, so that whoever sees a session sees its holder.
pub(super) async fn begin(core: &Arc<Core>, until: Instant) -> Result<()> {
    if core.holder.begins() {
        let weak = Arc::downgrade(core);
        core.background.begin("beats of sessions", &core.tiers, &core.brake, move || beat(weak.clone()));
        let weak = Arc::downgrade(core);
        core.background.begin("upkeep of sessions", &core.tiers, &core.brake, move || upkeep(weak.clone()));
    }
    if core.holder.is_heard() {
        return Ok(());
    }
    // Tells which tier is away, if one is.
    let partitions: Vec<Partition> = (0..core.tiers.hot().partition_count()).map(Partition).collect();
    core.tiers.prepare(&partitions).await?;
    let left = until.saturating_duration_since(Instant::now());
    let waiting = Arc::clone(core);
    let heard = core.within(left, async move { waiting.holder.until_heard().await }).await;
    heard.map_err(|late| Error::new(Kind::HotUnavailable, format!("the hot tier did not hear of this server {late}")))
}

/// What a holder knows of its own beats.
struct Pulse {
    number: u64,
    leases: Leases,
    /// When the last beat was sent that a partition answered.
    heard: BTreeMap<Partition, Instant>,
}

async fn beat(core: Weak<Core>) {
    let Some(lease) = core.upgrade().map(|core| core.holder.lease) else { return };
    let mut pulse = Pulse { number: 0, leases: Leases::new(lease), heard: BTreeMap::new() };
    let mut next_beat = Instant::now();
    loop {
        let Some(core) = core.upgrade() else { return };
        if Instant::now() >= next_beat {
            next_beat = Instant::now() + lease / BEATS;
            pulse.beat(&core).await;
            pulse.doubt(&core);
        }
        pulse.look_again(&core).await;
        // A node that hangs must not hold up the beats to the others.
        let _ = timeout(lease / BEATS, hear(&core)).await;
        drop(core);
        sleep(lease / LOOKS).await;
    }
}

impl Pulse {
    async fn beat(&mut self, core: &Arc<Core>) {
        self.number += 1;
        let (hot, own) = (core.tiers.hot().as_ref(), core.holder.id);
        let partitions: Vec<Partition> = (0..hot.partition_count()).map(Partition).collect();
        // ORDER: the lease is counted from before the beat is sent.
        let sent = Instant::now();
        let raise = Some((own, self.number));
        // One by one, so that a node that hangs keeps no other partition from being heard, and none for longer than half of a lease.
        let beats = partitions.iter().map(|partition| async move {
            let beat = async {
                match hot.beat(std::slice::from_ref(partition), raise).await.pop() {
                    Some(Ok(beats)) => Some(beats),
                    Some(Err(error)) => {
                        let prepared = core.tiers.prepare_after(error).await;
                        tracing::debug!(?prepared, partition = partition.0, "this server was not heard of");
                        None
                    }
                    None => None,
                }
            };
            (*partition, timeout(core.holder.lease / 2, beat).await.ok().flatten())
        });
        for (partition, beats) in join_all(beats).await {
            let Some(beats) = beats else { continue };
            self.heard(core, partition, &beats, sent);
            let told = timeout(core.holder.lease / 2, self.leases.tell(hot, partition, &beats, Some(own))).await;
            if let Ok(Err(error)) = told {
                tracing::debug!(%error, "the holders of sessions could not be judged");
            }
        }
        if self.heard.len() == partitions.len() {
            core.holder.heard();
        }
    }

    /// Looks again at partitions in which another holder's time is up, without waiting for the next beat.
    async fn look_again(&mut self, core: &Core) {
        let (hot, own) = (core.tiers.hot().as_ref(), core.holder.id);
        let overdue = self.leases.overdue(own, Instant::now());
        if overdue.is_empty() {
            return;
        }
        let looks = async {
            for (partition, beats) in overdue.iter().zip(hot.beat(&overdue, None).await) {
                if let Ok(beats) = beats
                    && let Err(error) = self.leases.tell(hot, *partition, &beats, Some(own)).await
                {
                    tracing::debug!(%error, "the holders of sessions could not be judged");
                }
            }
        };
        let _ = timeout(core.holder.lease / BEATS, looks).await;
    }

    /// A partition has the beat. Sessions of another epoch are claimed, and so are those that may have lapsed before it.
    fn heard(&mut self, core: &Core, partition: Partition, beats: &Beats, sent: Instant) {
        let before = self.heard.insert(partition, sent);
        let lapsed = before.is_some_and(|before| sent.saturating_duration_since(before) > core.holder.lease);
        for hold in core.holder.open_in(partition) {
            if lapsed || hold.known().epoch != beats.epoch {
                hold.suspect();
            }
        }
    }

    /// Sessions of a partition that has not had a beat for a lease may have lapsed.
    fn doubt(&self, core: &Core) {
        for (partition, heard) in &self.heard {
            if heard.elapsed() > core.holder.lease {
                core.holder.open_in(*partition).iter().for_each(|hold| hold.suspect());
            }
        }
    }
}

/// Hears who asks for an owner, and saves at once what is asked for.
async fn hear(core: &Arc<Core>) {
    let hot = core.tiers.hot();
    let partitions: Vec<Partition> = (0..hot.partition_count()).map(Partition).collect();
    for asked in hot.asked(&partitions, core.holder.id).await.into_iter().flatten().flatten() {
        let Some(hold) = core.holder.open_one(asked.fence.token) else { continue };
        if hold.asked(&asked.by) && hold.is_dirty() {
            begin_save(core, hold);
        }
    }
}

/// Saves a session in a task of its own.
fn begin_save(core: &Arc<Core>, hold: Arc<Hold>) {
    let wanted = Wanted { durability: hold.durability, within: core.deadline, ends: false };
    core.tiers.home().spawn(async move {
        if let Err(error) = hold.save(wanted).await {
            tracing::warn!(%error, "a session could not save by itself; it tries again");
        }
    });
}

async fn upkeep(core: Weak<Core>) {
    let mut due = Due::default();
    let mut next_claim = Instant::now();
    let mut swept = (Partition(0), Instant::now());
    loop {
        let Some(strong) = core.upgrade() else { return };
        let holds = strong.holder.open();
        if Instant::now() >= next_claim {
            claim(holds.iter().filter(|hold| hold.is_suspect()).cloned().collect()).await;
            next_claim = Instant::now() + CLAIM_EVERY;
        }
        for hold in due.now(&holds, strong.ids.as_ref()) {
            begin_save(&strong, hold);
        }
        if swept.1.elapsed() >= strong.holder.lease {
            sweep(&strong, swept.0).await;
            swept = (Partition((swept.0.0 + 1) % strong.tiers.hot().partition_count().max(1)), Instant::now());
        }
        let (holder, pause) = (&strong.holder, due.pause(holds.len()));
        tokio::select! {
            biased;
            () = holder.suspects() => {}
            () = sleep(pause) => {}
        }
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

/// Ends the sessions of a partition that the hot tier has under this holder and that nobody here knows: a call about them came late, or
/// their end was forgotten.
async fn sweep(core: &Arc<Core>, partition: Partition) {
    let hot = core.tiers.hot();
    let Ok(held) = hot.held_by(partition, core.holder.id).await else { return };
    for (owner, fence) in held {
        // ORDER: the hot tier was asked first. What is being opened is known before that.
        if !core.holder.knows(fence.token) {
            let ended = hot.close_session(&owner, fence).await;
            tracing::info!(%owner, ended = ended.is_ok(), "a session that nobody has is ended");
        }
    }
}

/// When sessions save by themselves (S17): the first time at a random moment within their period, so that they are spread.
#[derive(Default)]
struct Due {
    next: BTreeMap<OpId, Instant>,
}

impl Due {
    /// The sessions whose time has come.
    fn now(&mut self, holds: &[Arc<Hold>], ids: &dyn Ids) -> Vec<Arc<Hold>> {
        let (now, mut due, mut next) = (Instant::now(), Vec::new(), BTreeMap::new());
        for hold in holds {
            let Some(period) = hold.autosave else { continue };
            let token = hold.fence.token;
            let at = self.next.get(&token).copied().unwrap_or_else(|| now + random_part_of(period, ids));
            let is_due = at <= now;
            // What is suspect saves everything once it is claimed.
            if is_due && hold.is_dirty() && !hold.is_over() && !hold.is_suspect() {
                due.push(Arc::clone(hold));
            }
            next.insert(token, if is_due { now + period } else { at });
        }
        self.next = next;
        due
    }

    /// How long until it is looked again: so often that no period is missed by much, and rarely while there are no sessions.
    fn pause(&self, sessions: usize) -> Duration {
        if sessions == 0 { Duration::from_millis(200) } else { Duration::from_millis(50) }
    }
}

fn random_part_of(period: Duration, ids: &dyn Ids) -> Duration {
    let random = ids.next().to_string();
    let number = u32::from_str_radix(random.get(..8).unwrap_or_default(), 16).unwrap_or_default();
    period.mul_f64(f64::from(number) / f64::from(u32::MAX))
}
