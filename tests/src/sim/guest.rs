//! Guests: players of owners that one server at a time writes. Guests begin sessions, edit, save
//! and end them. Now and then they make a plain write of an owner.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use storage_sdk::{
    Autosave, ByteOwner, ByteSession, Durability, Error, Kind, OnConflict, Otherwise, Outcome,
    SessionOptions, SessionState,
};
use tokio::time::{Instant, sleep};

use super::oracle::book::{PAIR, value_key};
use super::oracle::sessions::{Fence, Values};
use super::play::{Games, call, named, owner_of, server, told};
use super::process::Process;
use super::world::World;

/// The logic type of owners that sessions hold.
pub const HELD: &str = "s";
const FIELDS: [&str; 4] = ["a", "b", PAIR[0], PAIR[1]];
/// The time for which the end of a session is tried after the last fault.
const END_MAX: Duration = Duration::from_secs(120);

/// One guest.
#[derive(Debug)]
pub struct Guest {
    /// The world.
    pub world: Arc<World>,
    /// The game servers.
    pub games: Games,
    /// The number of the guest.
    pub number: u64,
}

/// A session that a guest has.
#[derive(Debug)]
pub struct Stay {
    world: Arc<World>,
    process: Arc<Process>,
    session: ByteSession,
    name: String,
    fence: Fence,
    /// The prefix of all values that it sets.
    prefix: String,
    edits: u64,
}

impl Guest {
    /// Plays. A session that is left at the end must be ended after all faults have ended.
    pub async fn play(self) -> Option<Stay> {
        let World {
            chance,
            plan,
            history,
            ..
        } = &*self.world;
        let sessions = plan.sessions?;
        for turn in 1..=sessions.visits {
            if history.violation().is_some() {
                return None;
            }
            let (process, storage) = server(&self.games, self.number).await;
            let number = chance.below(sessions.owners);
            let (name, prefix) = (named(HELD, number), format!("g{}.{turn}", self.number));
            let owner = owner_of(&storage, HELD, number).ok()?;
            // The holder of the session keeps the storage open.
            drop(storage);
            match chance.below(8) {
                0 => self.write(&process, &owner, &name, &prefix).await,
                1 => self.read(&process, &owner, &name).await,
                _ => {
                    let steps = chance.below(7);
                    if let Some(mut stay) = self.begin(&process, &owner, name, prefix).await {
                        stay.live(steps).await;
                        if turn == sessions.visits && !stay.is_over() {
                            return Some(stay);
                        }
                        stay.leave().await;
                    }
                }
            }
            sleep(chance.millis(0, plan.pause_max)).await;
        }
        None
    }

    /// A plain write. It is rejected if a session holds the owner.
    async fn write(&self, process: &Arc<Process>, owner: &ByteOwner, name: &str, value: &str) {
        let World {
            chance,
            plan,
            history,
            ..
        } = &*self.world;
        let begun = history.begin(name);
        let write = owner
            .update([(*chance.one(&["a", "b"]), value.to_owned())])
            .deadline(plan.deadline);
        let key = value_key(name, value.as_bytes());
        match call(&self.world, process, write.into_future()).await {
            Some(Ok(ack)) => {
                let (version, changed) = told(&ack);
                history.acknowledged(&begun, &key, version, changed);
            }
            Some(Err(error)) => {
                history.failed(
                    &begun,
                    &key,
                    error.outcome(),
                    &format!("{:?} {error}", error.kind()),
                );
                refused(&self.world, name, &error);
            }
            None => history.failed(&begun, &key, Outcome::Unknown, "the caller is gone"),
        }
    }

    async fn read(&self, process: &Arc<Process>, owner: &ByteOwner, name: &str) {
        let history = &self.world.history;
        let begun = history.begin(name);
        if let Some(Ok(record)) = call(&self.world, process, owner.get_all()).await {
            let values: Values = FIELDS
                .map(|field| {
                    (
                        field.to_owned(),
                        record.get(field).map(|value| value.to_vec()),
                    )
                })
                .into();
            history.read(&begun, record.version(), &values);
        }
    }

    async fn begin(
        &self,
        process: &Arc<Process>,
        owner: &ByteOwner,
        name: String,
        prefix: String,
    ) -> Option<Stay> {
        let World { chance, plan, .. } = &*self.world;
        let lease = u64::try_from(plan.lease.as_millis()).unwrap_or_default();
        let wait = chance.millis(0, 3 * lease);
        let on_conflict = *chance.one(&[
            OnConflict::Fail,
            OnConflict::Wait { at_most: wait },
            OnConflict::Ask {
                after: wait,
                then: Otherwise::Steal,
            },
            OnConflict::Ask {
                after: wait,
                then: Otherwise::Fail,
            },
            OnConflict::Steal,
        ]);
        let autosave = *chance.one(&[Autosave::Off, Autosave::Every(chance.millis(50, 2 * lease))]);
        let options = SessionOptions::new()
            .on_conflict(on_conflict)
            .autosave(autosave)
            .within(chance.millis(lease, 6 * lease));
        Stay::begin(&self.world, process, owner, name, prefix, options).await
    }
}

impl Stay {
    /// Begins a session. None if that fails.
    pub async fn begin(
        world: &Arc<World>,
        process: &Arc<Process>,
        owner: &ByteOwner,
        name: String,
        prefix: String,
        options: SessionOptions,
    ) -> Option<Self> {
        let history = &world.history;
        history.note(&name, || {
            format!("{prefix} begins a session: {:?}", options.on_conflict)
        });
        let begun = history.begin(&name);
        match call(world, process, owner.session(options)).await? {
            Ok(session) => {
                let fence = session.fence();
                let fence = (fence.version.get(), fence.token.to_string());
                let (world, process) = (Arc::clone(world), Arc::clone(process));
                let stay = Self {
                    world,
                    process,
                    session,
                    name,
                    fence,
                    prefix,
                    edits: 0,
                };
                stay.world
                    .history
                    .read(&begun, stay.session.saved(), &stay.values());
                Some(stay)
            }
            Err(error) => {
                history.note(&name, || format!("{prefix} has no session: {error}"));
                refused(world, &name, &error);
                None
            }
        }
    }

    fn values(&self) -> Values {
        FIELDS
            .map(|field| {
                (
                    field.to_owned(),
                    self.session.get(field).map(|value| value.to_vec()),
                )
            })
            .into()
    }

    /// Edits, saves and waits.
    async fn live(&mut self, steps: u64) {
        let world = Arc::clone(&self.world);
        let World { chance, plan, .. } = &*world;
        for _ in 0..steps {
            if self.is_over()
                || matches!(self.session.state(), SessionState::HandOverAsked { .. })
                    && chance.below(4) > 0
            {
                return;
            }
            match chance.below(8) {
                0..4 => self.edit(),
                4..7 => {
                    self.save().await;
                }
                _ => {
                    sleep(
                        chance.millis(0, u64::try_from(plan.lease.as_millis()).unwrap_or_default()),
                    )
                    .await
                }
            }
            sleep(chance.millis(0, plan.pause_max)).await;
        }
    }

    /// Edits a field, or a pair of fields that is always written together.
    pub fn edit(&mut self) {
        self.edits += 1;
        let value = format!("{}.{}", self.prefix, self.edits);
        let chance = &self.world.chance;
        let fields: &[&str] = chance.one::<&[&str]>(&[&["a"], &["b"], &PAIR]);
        let removes = chance.below(6) == 0;
        for field in fields {
            let edited = if removes {
                self.session.remove(field)
            } else {
                self.session.set(field, value.clone())
            };
            if let Err(error) = edited {
                refused(&self.world, &self.name, &error);
            }
        }
        self.world.history.note(&self.name, || {
            format!("session edits {fields:?}: {value}, removed: {removes}")
        });
    }

    /// Saves. Returns whether the save was acknowledged.
    pub async fn save(&self) -> bool {
        let World {
            chance,
            plan,
            history,
            ..
        } = &*self.world;
        let mut save = self.session.save().deadline(plan.deadline);
        if chance.below(6) == 0 {
            save = save.durability(Durability::Landed {
                timeout: chance.millis(100, 3_000),
            });
        }
        let (begun, values) = (history.begin(&self.name), self.values());
        match call(&self.world, &self.process, save.into_future()).await {
            Some(Ok(ack)) => {
                let (version, changed) = told(&ack);
                history.saved(&begun, &self.fence, version, changed, &values);
                true
            }
            Some(Err(error)) => self.failed("saved", &error),
            None => false,
        }
    }

    /// Ends the session. Returns whether the end is known.
    async fn end(&self) -> bool {
        let history = &self.world.history;
        let (begun, values) = (history.begin(&self.name), self.values());
        match call(&self.world, &self.process, self.session.end()).await {
            Some(Ok(ack)) => {
                let (version, changed) = told(&ack);
                history.saved(&begun, &self.fence, version, changed, &values);
                history.ended(&begun, &self.fence, &values);
                true
            }
            Some(Err(error))
                if (error.kind(), error.outcome()) == (Kind::Closing, Outcome::Applied) =>
            {
                history.ended(&begun, &self.fence, &values);
                true
            }
            Some(Err(error)) => self.failed("ended", &error),
            None => false,
        }
    }

    fn failed(&self, what: &str, error: &Error) -> bool {
        let who = &self.fence.0;
        self.world.history.note(&self.name, || {
            format!("session {who} not {what}: {:?} {error}", error.kind())
        });
        refused(&self.world, &self.name, error);
        false
    }

    /// Whether the session has ended for good.
    fn is_over(&self) -> bool {
        if self.process.is_killed() {
            return true;
        }
        match self.session.state() {
            SessionState::Lost(why) => {
                self.world.history.lost(&self.name, &self.fence, &why);
                true
            }
            SessionState::Ended => true,
            _ => false,
        }
    }

    /// Ends the session in most cases. Otherwise the session ends by itself.
    async fn leave(self) {
        let World { chance, plan, .. } = &*self.world;
        match chance.below(8) {
            0 => return,
            1 => sleep(plan.lease * 2).await,
            _ => {}
        }
        for _ in 0..3 {
            if self.is_over() || self.end().await {
                break;
            }
            sleep(chance.millis(0, plan.pause_max)).await;
        }
        self.is_over();
    }

    /// S7: once all faults have ended, a session that is not lost saves all its edits.
    ///
    /// # Errors
    /// It can't be ended.
    pub async fn finish(self) -> Result<(), String> {
        let until = Instant::now() + END_MAX;
        while !self.is_over() && !self.end().await {
            if Instant::now() >= until {
                return Err(format!(
                    "V8: a session of {} can't be ended: {:?}",
                    self.name,
                    self.session.state()
                ));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Each owner that sessions held can be opened again.
///
/// # Errors
/// An owner can't be opened.
pub async fn have_all(world: &Arc<World>) -> Result<(), String> {
    let Some(_) = world.plan.sessions else {
        return Ok(());
    };
    let process = Arc::new(Process::default());
    let storage = world
        .storage(&process)
        .await
        .map_err(|error| format!("V8: no storage opens: {error}"))?;
    // A live server may not know of a session under its name. It ends such a session at its next
    // look at the partition, and it looks at one partition in each lease.
    let at_most = world.plan.lease * (4 + world.plan.partitions);
    let options = SessionOptions::new()
        .on_conflict(OnConflict::Wait { at_most })
        .autosave(Autosave::Off)
        .within(at_most * 2 + Duration::from_secs(10));
    let of_sessions = format!("app:eu:{HELD}:");
    for (at, name) in world
        .history
        .owners()
        .into_iter()
        .filter(|name| name.starts_with(&of_sessions))
        .enumerate()
    {
        let number = name
            .rsplit(':')
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or_default();
        let owner = owner_of(&storage, HELD, number).map_err(|error| error.to_string())?;
        let stay = Stay::begin(
            world,
            &process,
            &owner,
            name.clone(),
            format!("last.{at}"),
            options,
        )
        .await;
        let mut stay = stay.ok_or_else(|| format!("V8: {name} can't be opened"))?;
        stay.edit();
        stay.save().await;
        stay.edit();
        stay.finish().await?;
    }
    Ok(())
}

/// A call failed. Its error must be possible here.
fn refused(world: &World, name: &str, error: &Error) {
    let invalid = error.kind() == Kind::Invalid && !error.to_string().contains("DEADLINE");
    if invalid || matches!(error.kind(), Kind::Corrupt | Kind::Denied) {
        world.history.fail(name, &format!("V9: {error}"));
    }
}
