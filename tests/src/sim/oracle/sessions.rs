//! Sessions: the holders of an owner, by the scripts that opened, claimed and ended sessions and
//! applied their saves.
//!
//! | rule | check, in the model of Redis after each script |
//! | --- | --- |
//! | S1 | a save is of the session that holds the owner; a plain write finds none |
//! | S2 | a session begins with the owner's last state, and replaces only the session that it names |
//! | S5 | a holder that has beaten within a lease does not lapse |
//! | S6 | a session is lost only to another session or write, to a write that it never saw and that Redis came back with, to a grace that ended before it came, or to a save that was lost in part |
//! | S7 | no save overwrites writes that came after its session was opened; the values at the end of a session are stored |
//! | S8 | nothing is opened or saved within a lease of a new epoch, and an earlier session claims nothing that a later one holds |

use std::collections::BTreeMap;
use std::time::Duration;

use storage_model::Version;
use storage_sdk::LossReason;

use super::Begun;
use super::applied::Applied;
use super::book::{Book, Told};
use super::history::History;
use super::line::Line;
use super::slot::{Change, Slot};
use crate::sim::redis::Executed;
use crate::sim::redis::data::Data;
use crate::sim::redis::keyspace::Hash;
use crate::sim::redis::reply::Reply;

/// A session's fence: the version with which it was opened, and its token.
pub type Fence = (u64, String);

/// Fields and their values.
pub type Values = Vec<(String, Option<Vec<u8>>)>;

/// The sessions of an owner in this history of Redis. A copy keeps them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenancy {
    /// In the order in which they were opened, or claimed if they had been forgotten.
    order: Vec<Tenure>,
    /// The last write that was applied.
    last: Option<Written>,
}

/// A write.
#[derive(Debug, Clone)]
struct Written {
    version: u64,
    /// The session that made it. None if no session did.
    by: Option<Fence>,
    /// The number of openings and writes before it, in all histories.
    step: usize,
}

/// A session in this history.
#[derive(Debug, Clone)]
struct Tenure {
    fence: Fence,
    /// The epoch in which it was opened, or confirmed last.
    epoch: u64,
    lapsed: bool,
    wrote: bool,
    /// The epoch in which it ended.
    ended: Option<u64>,
}

/// The sessions of an owner in all histories.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) tenancy: Tenancy,
    /// The last write of each version.
    writes: BTreeMap<u64, Written>,
    /// The number of openings and writes.
    steps: usize,
    /// The number of openings and writes before each session was opened.
    opened: BTreeMap<Fence, usize>,
    /// Whether each session may be lost, because others took or wrote the owner after it was
    /// opened, or because Redis came back with a write that it had lost by then.
    doomed: BTreeMap<Fence, bool>,
    /// The greatest version that each session knows: the one that it began with, or that of a save.
    told: BTreeMap<Fence, u64>,
    /// The fields as the last applied save of each session leaves them.
    left: BTreeMap<Fence, BTreeMap<String, Option<Vec<u8>>>>,
}

impl Sessions {
    /// Redis came back with this content, and rows up to this version.
    pub(super) fn rewind(&mut self, kept: Tenancy, landed: u64) {
        self.tenancy = kept;
        let row = self
            .writes
            .range(..=landed)
            .next_back()
            .map(|(_, write)| write.clone());
        let version = |write: &Option<Written>| write.as_ref().map_or(0, |write| write.version);
        if version(&row) > version(&self.tenancy.last) {
            self.tenancy.last = row;
        }
        self.doom_by_what_came_back();
    }

    /// Redis came back with a write that it had lost when a session was opened. The session never
    /// saw it, and did not begin with its version or a later one. So it may be lost to that write,
    /// although the write is from before it.
    fn doom_by_what_came_back(&mut self) {
        let Some(last) = &self.tenancy.last else {
            return;
        };
        for (fence, doomed) in &mut self.doomed {
            let told = self.told.get(fence).copied().unwrap_or_default();
            *doomed |= last.by.as_ref() != Some(fence) && last.version > told;
        }
    }

    /// A write was applied.
    fn wrote(&mut self, version: u64, by: Option<Fence>) {
        self.steps += 1;
        let written = Written {
            version,
            by,
            step: self.steps,
        };
        self.writes.insert(version, written.clone());
        self.tenancy.last = Some(written);
    }

    /// The last write, if it is by others and came after the session was opened. The order of play
    /// decides that, since a clock may have been set back.
    fn news(&self, fence: &Fence) -> Option<Written> {
        let opened = self.opened.get(fence).copied().unwrap_or_default();
        let is_news = |write: &&Written| write.step > opened && write.by.as_ref() != Some(fence);
        self.tenancy.last.as_ref().filter(is_news).cloned()
    }

    /// Whether the last write is a save that its session does not know to be applied.
    fn ends_with_an_untold_save(&self, fence: &Fence) -> bool {
        let told = self.told.get(fence).copied().unwrap_or_default();
        self.tenancy
            .last
            .as_ref()
            .is_some_and(|last| last.by.as_ref() == Some(fence) && last.version > told)
    }

    /// A session was opened, and begins with this version of the owner.
    fn begins(&mut self, fence: &Fence, version: u64, epoch: u64) {
        self.doom(Some(fence), |_| true);
        self.doomed.insert(fence.clone(), false);
        self.told.insert(fence.clone(), version);
        self.steps += 1;
        self.opened.insert(fence.clone(), self.steps);
        self.goes_on(fence, epoch);
    }

    /// A save of a session was applied.
    fn leaves(&mut self, fence: &Fence, changes: &[(String, Change)]) {
        let left = self.left.entry(fence.clone()).or_default();
        for (field, change) in changes {
            let value = if let Change::Set(value) = change {
                Some(value.clone())
            } else {
                None
            };
            left.insert(field.clone(), value);
        }
    }

    /// Others took or wrote the owner.
    fn doom(&mut self, by: Option<&Fence>, is_before: impl Fn(&Fence) -> bool) {
        for (fence, doomed) in &mut self.doomed {
            *doomed |= by != Some(fence) && is_before(fence);
        }
    }

    /// The sessions that came after one in this history. If that one was forgotten, the sessions
    /// that are later than it.
    fn after(&self, fence: &Fence, epoch: u64) -> Vec<Tenure> {
        let order = &self.tenancy.order;
        match order.iter().position(|tenure| tenure.fence == *fence) {
            Some(at) => order.get(at + 1..).unwrap_or_default().to_vec(),
            None => order
                .iter()
                .filter(|other| other.fence > *fence || other.epoch == epoch)
                .cloned()
                .collect(),
        }
    }

    /// The session goes on. From now on it is the last one.
    fn goes_on(&mut self, fence: &Fence, epoch: u64) -> Option<&mut Tenure> {
        let order = &mut self.tenancy.order;
        let wrote = order
            .iter()
            .any(|tenure| tenure.fence == *fence && tenure.wrote);
        order.retain(|tenure| tenure.fence != *fence);
        order.push(Tenure {
            fence: fence.clone(),
            epoch,
            lapsed: false,
            wrote,
            ended: None,
        });
        order.last_mut()
    }
}

/// The times of events in a partition.
#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) lease: Duration,
    /// The epoch of each partition, and its beginning.
    epochs: BTreeMap<String, (u64, Duration)>,
    /// Each holder's beat in each partition, and its time.
    beats: BTreeMap<(String, Vec<u8>), (Vec<u8>, Duration)>,
}

impl Leases {
    fn see(&mut self, scene: &Scene<'_>, now: Duration) {
        let epoch = scene.epoch();
        let since = self
            .epochs
            .entry(scene.partition.clone())
            .or_insert((epoch, now));
        if since.0 != epoch {
            *since = (epoch, now);
        }
    }

    /// The age of the epoch, if it is less than a lease. The first epoch ever has no grace.
    fn too_young(&self, scene: &Scene<'_>, now: Duration) -> Option<Duration> {
        let (epoch, since) = self.epochs.get(&scene.partition)?;
        Some(now.saturating_sub(*since)).filter(|age| *epoch > 1 && *age < self.lease)
    }
}

/// A partition after a script.
struct Scene<'a> {
    data: &'a Data,
    partition: String,
}

impl<'a> Scene<'a> {
    fn of(executed: &Executed<'a>) -> Option<Self> {
        let (_, rest) = text(executed.keys.first()?)?.split_once('{')?;
        Some(Self {
            data: executed.data,
            partition: rest.split_once('}')?.0.to_owned(),
        })
    }

    fn hash(&self, name: &str, after: &str) -> Option<&'a Hash> {
        self.data
            .keys
            .hash(format!("slug-{name}:{{{}}}{after}", self.partition).as_bytes())
            .ok()?
    }

    fn epoch(&self) -> u64 {
        self.number("epoch")
    }

    fn is_graced(&self) -> bool {
        self.number("graced") == self.epoch()
    }

    /// The number in the partition's record under this name.
    fn number(&self, name: &str) -> u64 {
        let number = self
            .hash("part", "")
            .and_then(|part| part.get(name.as_bytes()));
        number
            .and_then(|number| text(number)?.parse().ok())
            .unwrap_or_default()
    }

    /// The session that holds an owner, or the one that has lapsed.
    fn session(&self, owner: &str, after: &str) -> Option<Fence> {
        fence_of(text(self.hash("sess", after)?.get(owner.as_bytes())?)?)
    }
}

/// "version token …".
pub(super) fn fence_of(words: &str) -> Option<Fence> {
    let mut words = words.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn shown(fence: &Fence) -> String {
    format!("{} {}", fence.0, fence.1.get(..6).unwrap_or_default())
}

impl Book {
    /// A script about sessions ran. Returns its owner and its effect.
    pub(super) fn watch(
        &mut self,
        executed: &Executed<'_>,
        now: Duration,
    ) -> Option<(String, String)> {
        let scene = Scene::of(executed)?;
        self.leases.see(&scene, now);
        let argv = |at: usize| executed.argv.get(at).and_then(|arg| text(arg));
        match (executed.name, executed.reply) {
            ("open_session", Reply::Array(items))
                if items.first() == Some(&Reply::Bulk(b"open".to_vec())) =>
            {
                self.opened(&scene, executed, items, now)
            }
            ("claim_session", Reply::Array(items))
                if items.first() == Some(&Reply::Bulk(b"yes".to_vec())) =>
            {
                let (owner, fence) = (argv(0)?, (argv(1)?.parse().ok()?, argv(2)?.to_owned()));
                self.claimed(&scene, owner, &fence)
            }
            ("claim_session", Reply::Array(items)) if *items == [Reply::Bulk(b"no".to_vec())] => {
                let (owner, fence) = (argv(0)?, (argv(1)?.parse().ok()?, argv(2)?.to_owned()));
                self.not_claimed(&scene, owner, &fence);
                None
            }
            ("close_session", Reply::Int(1)) => {
                let (owner, fence) = (argv(0)?, (argv(1)?.parse().ok()?, argv(2)?.to_owned()));
                let sessions = &mut self.told(owner).sessions;
                let tenure = sessions
                    .tenancy
                    .order
                    .iter_mut()
                    .find(|tenure| tenure.fence == fence)?;
                tenure.ended = Some(scene.epoch());
                Some((
                    owner.to_owned(),
                    format!("session {} ended without a save", shown(&fence)),
                ))
            }
            ("lapse", Reply::Int(0..)) => {
                self.lapsed(&scene, executed, now);
                None
            }
            ("beat", Reply::Array(_)) if argv(0) != Some("") => {
                // A copy raises nothing.
                let (holder, beat) = (executed.argv.first()?, executed.argv.get(1)?);
                let known = self
                    .leases
                    .beats
                    .entry((scene.partition, holder.clone()))
                    .or_default();
                let number = |beat: &[u8]| text(beat).and_then(|beat| beat.parse::<u64>().ok());
                // A copy of an earlier one raises nothing.
                if number(&known.0) < number(beat) {
                    *known = (beat.clone(), now);
                }
                None
            }
            ("end_grace", Reply::Int(1)) => {
                if let Some(age) = self.leases.too_young(&scene, now) {
                    self.fail(
                        &scene.partition,
                        &format!("S8: the grace of an epoch ends after {age:?}"),
                    );
                }
                None
            }
            _ => None,
        }
    }

    fn opened(
        &mut self,
        scene: &Scene<'_>,
        executed: &Executed<'_>,
        items: &[Reply],
        now: Duration,
    ) -> Option<(String, String)> {
        let bytes = |reply: &Reply| {
            if let Reply::Bulk(bytes) = reply {
                Some(bytes.clone())
            } else {
                None
            }
        };
        let owner = text(executed.argv.first()?)?;
        let fence: Fence = (
            text(&bytes(items.get(1)?)?)?.parse().ok()?,
            text(executed.argv.get(1)?)?.to_owned(),
        );
        if self
            .told(owner)
            .sessions
            .tenancy
            .order
            .iter()
            .any(|tenure| tenure.fence == fence)
        {
            return None; // a repeat
        }
        if let Some(age) = self.leases.too_young(scene, now) {
            self.fail(
                owner,
                &format!("S8: a session is opened when its epoch is {age:?} old"),
            );
        }
        let Some(Reply::Array(hash)) = items.get(4) else {
            return None;
        };
        let hash: BTreeMap<Vec<u8>, Vec<u8>> = hash
            .chunks_exact(2)
            .filter_map(|pair| Some((bytes(pair.first()?)?, bytes(pair.get(1)?)?)))
            .collect();
        let version = version_of(&hash).unwrap_or_default();
        let names = executed
            .argv
            .get(4)
            .and_then(|takes| fence_of(text(takes)?));
        let told = self.told(owner);
        let last = told.sessions.tenancy.order.last().cloned();
        let wrong = begins_wrongly(told, &hash).or_else(|| {
            let other = last.filter(|other| {
                !other.lapsed && other.ended.is_none() && names.as_ref() != Some(&other.fence)
            })?;
            Some(format!(
                "S2: a session takes the place of {}, which it did not name",
                shown(&other.fence)
            ))
        });
        if let Some(wrong) = wrong {
            self.fail(owner, &wrong);
        }
        let told = self.told(owner);
        for (field, line) in &mut told.fields {
            // From here on the state is certain.
            let _ = line.reads(u64::MAX, hash.get(field.as_bytes()).map(Vec::as_slice));
        }
        let live = |field: &String| (field.clone(), hash.get(field.as_bytes()).cloned());
        let left = told.fields.keys().map(live).collect();
        let sessions = &mut told.sessions;
        sessions.left.insert(fence.clone(), left);
        sessions.begins(&fence, version, scene.epoch());
        let takes = names
            .map(|names| format!(" in the place of {}", shown(&names)))
            .unwrap_or_default();
        Some((
            owner.to_owned(),
            format!(
                "session {} opened in epoch {}{takes}",
                shown(&fence),
                scene.epoch()
            ),
        ))
    }

    fn claimed(
        &mut self,
        scene: &Scene<'_>,
        owner: &str,
        fence: &Fence,
    ) -> Option<(String, String)> {
        let sessions = &mut self.told(owner).sessions;
        // A session whose place was taken holds nothing any more.
        let later = sessions
            .after(fence, scene.epoch())
            .pop()
            .filter(|last| last.ended.is_none());
        if !sessions
            .tenancy
            .order
            .iter()
            .any(|tenure| tenure.fence == *fence)
        {
            sessions.doom(Some(fence), |other| other < fence);
            sessions.goes_on(fence, 0);
        }
        if let Some(later) = later {
            self.fail(
                owner,
                &format!(
                    "S8: session {} claims an owner of {}, which is a later session",
                    shown(fence),
                    shown(&later.fence)
                ),
            );
        }
        Some((
            owner.to_owned(),
            format!(
                "session {} claimed in epoch {}",
                shown(fence),
                scene.epoch()
            ),
        ))
    }

    /// A session that Redis forgot comes after the grace. Others may have come and gone.
    fn not_claimed(&mut self, scene: &Scene<'_>, owner: &str, fence: &Fence) {
        let sessions = &mut self.told(owner).sessions;
        let is_known = sessions
            .tenancy
            .order
            .iter()
            .any(|tenure| tenure.fence == *fence && tenure.ended.is_none());
        if scene.is_graced() && !is_known {
            sessions.doomed.insert(fence.clone(), true);
        }
    }

    fn lapsed(&mut self, scene: &Scene<'_>, executed: &Executed<'_>, now: Duration) {
        let Some(holder) = executed.argv.first() else {
            return;
        };
        let lease = self.leases.lease;
        let beaten = self
            .leases
            .beats
            .get(&(scene.partition.clone(), holder.clone()))
            .map(|(_, since)| *since);
        for owner in executed
            .argv
            .get(5..)
            .unwrap_or_default()
            .iter()
            .filter_map(|owner| text(owner))
        {
            let gone = scene.session(owner, ":lapsed");
            let sessions = &mut self.told(owner).sessions;
            let Some(tenure) = sessions
                .tenancy
                .order
                .last_mut()
                .filter(|last| Some(&last.fence) == gone.as_ref())
            else {
                continue;
            };
            let is_new = !std::mem::replace(&mut tenure.lapsed, true);
            if is_new
                && let Some(age) = beaten
                    .map(|beaten| now.saturating_sub(beaten))
                    .filter(|age| *age < lease)
            {
                self.fail(
                    owner,
                    &format!("S5: a session lapses {age:?} after its holder's last beat"),
                );
            }
        }
    }

    /// A mutation was applied. Checks that its sender was allowed to make it.
    pub(super) fn judge_writer(
        &mut self,
        applied: &Applied,
        executed: &Executed<'_>,
        now: Duration,
    ) {
        let Some(scene) = Scene::of(executed) else {
            return;
        };
        let Applied {
            owner,
            version,
            fence,
            closes,
            changes,
            ..
        } = applied;
        let (held, epoch) = (scene.session(owner, ""), scene.epoch());
        self.leases.see(&scene, now);
        let young = self.leases.too_young(&scene, now);
        let sessions = &mut self.told(owner).sessions;
        let over = fence.as_ref().and_then(|fence| sessions.news(fence));
        sessions.wrote(*version, fence.clone());
        let Some(fence) = fence else {
            // All known sessions were opened before, whatever their versions are. A clock may have
            // been set back.
            sessions.doom(None, |_| true);
            if let Some(held) = held {
                self.fail(
                    owner,
                    &format!(
                        "S1: a plain write at version {version} of an owner that session {} holds",
                        shown(&held)
                    ),
                );
            }
            return;
        };
        let after = sessions.after(fence, epoch);
        // A session that ended without a save before this epoch leaves no trace at all.
        let later = after.into_iter().find(|other| {
            other
                .ended
                .is_none_or(|ended| other.wrote || ended == epoch)
        });
        sessions.leaves(fence, changes);
        sessions.doom(Some(fence), |_| true);
        if let Some(tenure) = sessions.goes_on(fence, epoch) {
            tenure.wrote = true;
            tenure.ended = closes.then_some(epoch);
        }
        let who = shown(fence);
        if held.as_ref().is_some_and(|held| held != fence) || held.is_none() && !closes {
            self.fail(
                owner,
                &format!(
                    "S1: session {who} saves at version {version} an owner that {held:?} holds"
                ),
            );
        } else if let Some(later) = later {
            let later = shown(&later.fence);
            self.fail(
                owner,
                &format!(
                    "S1: session {who} saves at version {version}, after session {later} had begun"
                ),
            );
        } else if let Some(Written {
            version: written,
            by,
            ..
        }) = over
        {
            self.fail(owner, &format!("S7: session {who} saves at version {version} over the write of {by:?} at {written}"));
        } else if let Some(age) = young {
            self.fail(
                owner,
                &format!(
                    "S8: session {who} saves at version {version} when the epoch is {age:?} old"
                ),
            );
        }
    }
}

/// Whether the owner certainly is as the last applied save of a session left it.
fn is_as_left(told: &Told, fence: &Fence) -> bool {
    let Some(left) = told.sessions.left.get(fence) else {
        return false;
    };
    told.fields.iter().all(|(field, line)| {
        let value = left.get(field).and_then(Option::as_deref);
        line.now().iter().all(|slot| slot.live() == value)
    })
}

/// The version of an owner, by its hash.
fn version_of(hash: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<u64> {
    text(hash.get(b":v".as_slice())?)?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// The fault of a session's first state.
fn begins_wrongly(told: &Told, hash: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<String> {
    for (field, line) in &told.fields {
        let live = hash.get(field.as_bytes()).map(Vec::as_slice);
        let now = line.now();
        if !now.iter().any(|slot| slot.live() == live) {
            let live = live.map(String::from_utf8_lossy);
            return Some(format!(
                "S2: a session begins with {live:?} in {field}, which is {now:?}"
            ));
        }
    }
    let version = version_of(hash)?;
    (!told.rewound && version != told.version).then(|| {
        format!(
            "S2: a session begins with version {version}, though {} was given last",
            told.version
        )
    })
}

impl History {
    /// The time for which a holder of sessions must be silent until they lapse.
    pub fn lease(&self, lease: Duration) {
        self.state().leases.lease = lease;
    }

    /// A save of a session with these values was acknowledged.
    pub fn saved(
        &self,
        begun: &Begun,
        fence: &Fence,
        version: Version,
        changed: u32,
        values: &Values,
    ) {
        let (owner, version) = (begun.owner(), version.get());
        self.note(owner, || {
            format!(
                "session {} saved at version {version}, {changed} changed",
                shown(fence)
            )
        });
        let mut state = self.state();
        state.counts.acknowledged += 1;
        let told = state
            .told(owner)
            .sessions
            .told
            .entry(fence.clone())
            .or_default();
        *told = version.max(*told);
        // Values that were saved before are not saved again. They may belong to an earlier history.
        if changed == 0 || !begun.is_of(&state) {
            return;
        }
        let told = state.told(owner);
        let by = told
            .sessions
            .writes
            .get(&version)
            .and_then(|write| write.by.clone());
        let mut wrong = (by.as_ref() != Some(fence)).then(|| {
            format!(
                "V9: session {} learns of version {version}, which {by:?} made",
                shown(fence)
            )
        });
        if version <= begun.seen() {
            wrong = Some(format!(
                "V1: saved at version {version}, though {} was seen before",
                begun.seen()
            ));
        }
        for (field, value) in values {
            let line = told.fields.entry(field.clone()).or_default();
            if !line.reads(version, value.as_deref()) {
                wrong = Some(format!(
                    "S4: {field} of version {version} is not as the session saved it: {value:?}"
                ));
            }
        }
        told.seen = told.seen.max(version);
        if let Some(wrong) = wrong {
            state.fail(owner, &wrong);
        }
    }

    /// A session ended with these values, all of them saved.
    pub fn ended(&self, begun: &Begun, fence: &Fence, values: &Values) {
        let owner = begun.owner();
        self.note(owner, || format!("session {} ended", shown(fence)));
        let mut state = self.state();
        if !begun.is_of(&state) {
            return;
        }
        let told = state.told(owner);
        if told.sessions.news(fence).is_some() {
            return;
        }
        let is_so = |(field, value): &&(String, Option<Vec<u8>>)| {
            let fits = |slot: &&Slot| slot.live() == value.as_deref();
            // A session does not write a field that was uncertain when the session went on, and
            // that it found missing.
            let all = |line: &Line| {
                if value.is_some() {
                    line.now().iter().all(fits)
                } else {
                    line.now().iter().any(fits)
                }
            };
            told.fields.get(field).is_none_or(all)
        };
        let wrong = values
            .iter()
            .find(|value| !is_so(value))
            .map(|(field, value)| {
                let now = told
                    .fields
                    .get(field)
                    .map(|line| format!("{:?}", line.now()));
                format!(
                    "S7: session {} ended with {value:?} in {field}, which is {now:?}",
                    shown(fence)
                )
            });
        if let Some(wrong) = wrong {
            state.fail(owner, &wrong);
        }
    }

    /// A server learns that its session is lost.
    pub fn lost(&self, owner: &str, fence: &Fence, why: &LossReason) {
        self.note(owner, || format!("session {} lost: {why}", shown(fence)));
        let mut state = self.state();
        let told = state.told(owner);
        // Such an owner looks like one that others wrote. Its rows have the version of the save,
        // and Redis lost the rest of the save.
        let is_torn = told.rewound
            && *why == LossReason::Changed
            && told.sessions.ends_with_an_untold_save(fence)
            && !is_as_left(told, fence);
        if !is_torn && !told.sessions.doomed.get(fence).copied().unwrap_or_default() {
            state.fail(
                owner,
                &format!(
                    "S6: session {} is lost, although no other session or writer took or wrote the owner: {why}",
                    shown(fence)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(version: u64) -> Fence {
        (version, format!("{version:032x}"))
    }

    /// An owner whose session 10 has saved version 20, and a copy of Redis from then.
    fn saved() -> (Sessions, Tenancy) {
        let mut sessions = Sessions::default();
        sessions.begins(&fence(10), 0, 1);
        sessions.wrote(20, Some(fence(10)));
        let kept = sessions.tenancy.clone();
        (sessions, kept)
    }

    fn may_be_lost(sessions: &Sessions, version: u64) -> bool {
        sessions.doomed.get(&fence(version)).copied().unwrap()
    }

    #[test]
    fn a_session_may_be_lost_to_a_write_that_was_forgotten_when_it_began_and_that_came_back() {
        let (mut sessions, kept) = saved();
        sessions.rewind(Tenancy::default(), 0);
        sessions.begins(&fence(30), 0, 2);
        sessions.rewind(Tenancy::default(), 0);
        assert!(!may_be_lost(&sessions, 30), "an empty Redis has no writes");
        sessions.rewind(kept, 0);
        assert!(may_be_lost(&sessions, 30));
    }

    #[test]
    fn a_session_may_be_lost_to_such_a_write_in_the_rows() {
        let (mut sessions, _) = saved();
        sessions.rewind(Tenancy::default(), 0);
        sessions.begins(&fence(30), 0, 2);
        sessions.rewind(Tenancy::default(), 20);
        assert!(may_be_lost(&sessions, 30));
    }

    #[test]
    fn a_session_is_not_lost_to_a_write_that_it_began_with() {
        let (mut sessions, kept) = saved();
        sessions.begins(&fence(30), 20, 1);
        sessions.rewind(kept, 20);
        assert!(!may_be_lost(&sessions, 30));
    }

    #[test]
    fn a_session_is_not_lost_to_its_own_save_or_to_a_write_below_it() {
        let (mut sessions, forgotten) = saved();
        sessions.rewind(Tenancy::default(), 0);
        sessions.begins(&fence(30), 0, 2);
        sessions.wrote(40, Some(fence(30)));
        let own = sessions.tenancy.clone();
        sessions.rewind(own, 0);
        assert!(!may_be_lost(&sessions, 30), "the answer may be on its way");
        sessions.told.insert(fence(30), 40);
        sessions.rewind(forgotten, 0);
        assert!(!may_be_lost(&sessions, 30), "it goes on over older ones");
    }
}
