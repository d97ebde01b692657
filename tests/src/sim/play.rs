//! Players: their actions, and their reports to the oracle.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use storage_sdk::{
    Ack, Bulk, ByteOwner, Counters, Durability, Error, Kind, OpId, Outcome, Part, Record, Retry,
    Storage, Version, Write,
};
use tokio::time::{sleep, timeout};

use super::fault::Fault;
use super::oracle::Begun;
use super::oracle::book::{PAIR, step_key, value_key};
use super::plan::Operation;
use super::process::Process;
use super::world::{Game, World};

/// The logic type of owners that no session holds.
const PLAIN: &str = "t";
/// The logic type of owners that transactions change together.
const GROUPED: &str = "g";
/// Fields that are set. Owners with an odd number also have `poison`.
const TEXTS: [&str; 2] = ["a", "b"];
const COUNTERS: [&str; 2] = ["n", "m"];
/// Steps with which a counter leaves the exact range of a float, and then the range of 64 bits.
const LARGE: [i64; 4] = [(1 << 53) + 1, -(1 << 53) - 1, i64::MAX / 2, i64::MIN / 2];
/// Longer than any call takes.
const NEVER: Duration = Duration::from_secs(600);

/// The game servers that run now. Players ask for theirs at each operation. The nemesis replaces
/// them.
pub type Games = Arc<Mutex<Vec<Game>>>;

/// One player.
#[derive(Debug)]
pub struct Player {
    /// The world.
    pub world: Arc<World>,
    /// The game servers.
    pub games: Games,
    /// The number of the player.
    pub number: u64,
}

/// The inputs of a player's operation.
struct Turn<'a> {
    world: &'a World,
    process: Arc<Process>,
    storage: Storage,
    /// The owner's number.
    number: u64,
    owner: ByteOwner,
    name: String,
    texts: Vec<&'static str>,
    counters: &'static [&'static str],
    value: String,
    /// The value that a counter is set to. No two turns have the same.
    count: String,
    id: OpId,
    /// Whether its writes leave notes.
    is_noted: bool,
}

/// The answer to an applied write: its owner's version, and the number of changed fields.
pub(super) type Answer = (Version, u32);

pub(super) fn told(ack: &Ack) -> Answer {
    (ack.version(), ack.changed())
}

/// Whether a failed write may have been applied and a repeat under its id finds it out.
fn is_repeatable(error: &Error) -> bool {
    (error.outcome(), error.retry()) == (Outcome::Unknown, Retry::SameId)
}

impl Player {
    /// Plays.
    pub async fn play(self) {
        // The last version that it read of each owner.
        let mut known: BTreeMap<u64, Version> = BTreeMap::new();
        for turn in 0..self.world.plan.operations_each {
            if self.world.history.violation().is_some() {
                return;
            }
            let (process, storage) = server(&self.games, self.number).await;
            let World { chance, plan, .. } = &*self.world;
            let number =
                chance.below(plan.owners) + turn.checked_div(plan.moves_on).unwrap_or_default();
            let Ok(owner) = owner_of(&storage, PLAIN, number) else {
                return;
            };
            let size = if chance.below(20) == 0 {
                chance.below(3_000)
            } else {
                chance.below(20)
            };
            let value = format!(
                "{}.{turn}{}",
                self.number,
                ".".repeat(usize::try_from(size).unwrap_or_default())
            );
            let turn = Turn {
                world: &self.world,
                process,
                number,
                name: named(PLAIN, number),
                texts: TEXTS
                    .into_iter()
                    .take(plan.texts)
                    .chain((number % 2 == 1).then_some("poison"))
                    .collect(),
                counters: COUNTERS.get(..plan.counters).unwrap_or(&COUNTERS),
                owner,
                value,
                count: ((self.number + 1) * 1_000_000 + turn).to_string(),
                id: storage.next_id(),
                is_noted: chance.below(2) == 0,
                storage,
            };
            let operation = *chance.one(&plan.operations);
            chance.note("player", || {
                format!("{} {operation:?} {}", self.number, turn.name)
            });
            turn.take(operation, known.entry(number).or_default()).await;
            sleep(chance.millis(0, plan.pause_max)).await;
        }
    }
}

/// The game server of a player, once it is open.
pub(super) async fn server(games: &Games, number: u64) -> (Arc<Process>, Storage) {
    loop {
        {
            let games = locked(games);
            let mine = usize::try_from(number).unwrap_or_default() % games.len().max(1);
            if let Some(game) = games.get(mine)
                && let Some(storage) = game.storage()
            {
                return (Arc::clone(&game.process), storage);
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a call in a game server's process. None if it was cut off.
pub(super) async fn call<T>(
    world: &World,
    process: &Arc<Process>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let cut = world
        .chance
        .fault("call", &[Fault::CallDropped])
        .map(|_| world.chance.millis(0, 20));
    let mut call = std::pin::pin!(process.task(call));
    tokio::select! {
        biased;
        done = timeout(cut.unwrap_or(NEVER), &mut call) => done.ok(),
        () = process.killed() => None,
    }
}

/// An owner of a logic type.
pub(super) fn owner_of(
    storage: &Storage,
    logic_type: &str,
    number: u64,
) -> Result<ByteOwner, Error> {
    storage
        .world("app", "eu")
        .and_then(|world| world.bytes().owner(logic_type, number))
}

/// The owner's part of keys and marks.
pub(super) fn named(logic_type: &str, number: u64) -> String {
    format!("app:eu:{logic_type}:{number}")
}

impl Turn<'_> {
    async fn take(&self, operation: Operation, known: &mut Version) {
        let (chance, owner) = (&self.world.chance, &self.owner);
        let (text, counter) = (*chance.one(&self.texts), *chance.one(self.counters));
        let by = i64::try_from(chance.below(9)).unwrap_or_default() - 3;
        match operation {
            Operation::Update => self.set(owner.update([(text, self.value.clone())])).await,
            Operation::UpdatePair => {
                self.set(owner.update(PAIR.map(|field| (field, self.value.clone()))))
                    .await
            }
            Operation::UpdateAll => {
                let all = self
                    .texts
                    .iter()
                    .chain(&PAIR)
                    .map(|field| (*field, self.value.clone()));
                self.set(owner.update(all)).await;
            }
            Operation::UpdateSome => {
                let text = *chance.one(&TEXTS);
                self.update_some(chance.below(4) + 1, text).await;
            }
            Operation::SetCounter => {
                let set = owner.update([(counter, self.count.clone())]);
                if chance.below(4) == 0 {
                    self.write(set).await
                } else {
                    self.set_to(&self.count, set).await
                }
            }
            Operation::UpdateIfVersion => {
                self.set(
                    owner
                        .update([(text, self.value.clone())])
                        .if_version(*known),
                )
                .await;
            }
            Operation::UpdateIfAbsent => {
                self.write(owner.update([(text, self.value.clone())]).if_absent())
                    .await
            }
            Operation::UpdateLanded => {
                let landed = Durability::Landed {
                    timeout: chance.millis(100, 3_000),
                };
                self.land(
                    owner
                        .update([(text, self.value.clone())])
                        .durability(landed),
                    text,
                )
                .await;
            }
            Operation::Incr if chance.below(4) == 0 => self.count(owner.incr(counter, by)).await,
            Operation::Incr => self.add(counter).await,
            Operation::IncrLarge => {
                let by = *chance.one(&LARGE);
                self.count(owner.incr(counter, by)).await;
            }
            Operation::IncrTwo => {
                self.count(owner.incr_many(COUNTERS.map(|field| (field, by))))
                    .await
            }
            Operation::Remove => {
                self.write(owner.remove([*chance.one(&[text, counter])]))
                    .await
            }
            Operation::RemovePair => self.write(owner.remove(PAIR)).await,
            Operation::RestorePair => self.write(owner.restore(PAIR)).await,
            Operation::Restore => {
                self.write(owner.restore([*chance.one(&[text, counter])]))
                    .await
            }
            Operation::Purge => {
                self.flush().await;
                self.write(owner.purge([text, counter])).await;
            }
            Operation::PurgePair => {
                self.flush().await;
                self.write(owner.purge(PAIR)).await;
            }
            Operation::Get => {
                self.read(owner.get([text, counter]), &[text, counter], known)
                    .await
            }
            Operation::GetAll => {
                let all = [&self.texts, self.counters, &PAIR].concat();
                self.read(owner.get_all(), &all, known).await;
            }
            Operation::Flush => self.flush().await,
            Operation::Evict => drop(self.call(owner.evict()).await),
            Operation::Together => self.together().await,
            Operation::Names => {
                let begun = self.world.history.begin(&self.name);
                if let Some(Ok(version)) = self.call(owner.version()).await {
                    *known = version;
                    self.world.history.read(&begun, version, &[]);
                }
            }
        }
    }

    /// Changes owners of one group, alone or together, or lands or evicts one of them.
    async fn together(&self) {
        let World {
            history, chance, ..
        } = self.world;
        let count = usize::try_from(chance.below(2) + 2).unwrap_or(2);
        let first = chance.below(3);
        let mut owners = Vec::new();
        for number in (first..).take(count) {
            let id = format!("{{g}}{number}");
            let scope = self.storage.world("app", "eu");
            let Ok(owner) = scope.and_then(|world| world.bytes().owner(GROUPED, &id)) else {
                return;
            };
            owners.push((owner, format!("app:eu:{GROUPED}:{id}")));
        }
        let Some((one, name)) = owners.first() else {
            return;
        };
        let set = |part: Part| {
            let part = part.set("a", self.value.clone());
            match self.is_noted {
                true => part.note(self.value.clone()),
                false => part,
            }
        };
        match chance.below(8) {
            0 => {
                let begun = history.begin(name);
                let answered = self
                    .send(one.update([("a", self.value.clone())]), told)
                    .await;
                self.answered(&begun, &value_key(name, self.value.as_bytes()), answered);
            }
            1 => {
                let begun = history.begin(name);
                if let Some(Ok(_)) = self.call(one.flush(chance.millis(100, 3_000))).await {
                    history.landed(&begun, &self.world.database);
                }
            }
            2 => drop(self.call(one.evict()).await),
            _ => {
                let begun: Vec<_> = owners.iter().map(|(_, name)| history.begin(name)).collect();
                let mut transaction = one.transaction(set);
                for (owner, _) in owners.iter().skip(1) {
                    transaction = transaction.owner(owner, set);
                }
                let sent = transaction.deadline(self.world.plan.deadline);
                let answered = self.call(sent.into_future()).await;
                for ((owner, name), begun) in owners.iter().zip(&begun) {
                    let answer = answered.as_ref().map(|answered| match answered {
                        Ok(receipt) => Ok(receipt.of(owner).map(|one| told(one.ack()))),
                        Err(error) => Err(error.clone()),
                    });
                    let answer = answer.map(|answer| answer.map(Option::unwrap_or_default));
                    self.answered(begun, &value_key(name, self.value.as_bytes()), answer);
                }
            }
        }
    }

    /// Runs a call in the game server's process. None if it was cut off.
    async fn call<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        call(self.world, &self.process, run).await
    }

    /// Sends a write that only sets fields to the turn's value. In most cases the player gives it
    /// no id.
    async fn set(&self, write: Write) {
        if self.world.chance.below(4) == 0 {
            return self.write(write).await;
        }
        self.set_to(&self.value, write).await;
    }

    /// Sends a write that sets fields to this value. The player gives it no id.
    async fn set_to(&self, value: &str, write: Write) {
        let begun = self.world.history.begin(&self.name);
        let answered = self.send(write, told).await;
        self.answered(&begun, &value_key(&self.name, value.as_bytes()), answered);
    }

    /// Sends a write that sets a text and is acknowledged only after it is in the database.
    async fn land(&self, write: Write, text: &str) {
        let World {
            history,
            database,
            chance,
            ..
        } = self.world;
        let begun = history.begin(&self.name);
        let answer = |ack: &Ack| {
            history.wrote_row(&begun, text, ack.version(), database);
            told(ack)
        };
        if chance.below(4) == 0 {
            return self.send_as(write, answer).await;
        }
        let answered = self.send(write, answer).await;
        self.answered(
            &begun,
            &value_key(&self.name, self.value.as_bytes()),
            answered,
        );
    }

    /// Sets a text of some owners in one call.
    async fn update_some(&self, count: u64, text: &str) {
        let history = &self.world.history;
        let named = |number| {
            Some((
                owner_of(&self.storage, PLAIN, number).ok()?,
                named(PLAIN, number),
            ))
        };
        let owners: Vec<_> = (self.number..self.number + count)
            .filter_map(named)
            .collect();
        let Ok(scope) = self.storage.world("app", "eu") else {
            return;
        };
        let add = |bulk: Bulk, (owner, _): &(ByteOwner, String)| {
            bulk.update(owner, [(text, self.value.clone())])
        };
        let bulk = owners.iter().fold(scope.bytes().bulk(), add);
        let begun: Vec<_> = owners.iter().map(|(_, name)| history.begin(name)).collect();
        let answers = self.call(bulk.into_future()).await;
        let mut answers = answers.map(|answers| answers.into_iter());
        for ((_, name), begun) in owners.iter().zip(&begun) {
            let answer = answers
                .as_mut()
                .and_then(Iterator::next)
                .map(|answer| answer.as_ref().map(told).map_err(Clone::clone));
            self.answered(begun, &value_key(name, self.value.as_bytes()), answer);
        }
    }

    async fn write(&self, write: Write) {
        self.send_as(write, told).await;
    }

    async fn count(&self, write: Write<Counters>) {
        self.send_as(write, |counters: &Counters| told(counters.ack()))
            .await;
    }

    /// Adds a step to a counter that no other turn adds. The player gives it no id.
    async fn add(&self, counter: &str) {
        let step = self.count.parse().unwrap_or_default();
        let begun = self.world.history.begin(&self.name);
        let answered = self
            .send(self.owner.incr(counter, step), |counters| {
                told(counters.ack())
            })
            .await;
        self.answered(&begun, &step_key(&self.name, step), answered);
    }

    /// Sends a write under the turn's id. If its outcome is unknown, another call may send it once
    /// more under that id.
    async fn send_as<T: Clone + Send + 'static>(
        &self,
        write: Write<T>,
        answer: impl Fn(&T) -> Answer,
    ) {
        let World {
            history,
            chance,
            plan,
            ..
        } = self.world;
        let begun = history.begin(&self.name);
        let answered = self.send(write.clone().id(self.id), &answer).await;
        let is_unknown = answered
            .as_ref()
            .is_none_or(|answer| answer.as_ref().is_err_and(is_repeatable));
        self.answered(&begun, self.id.as_bytes(), answered);
        if is_unknown && chance.below(2) == 0 {
            sleep(chance.millis(0, 4 * plan.pause_max)).await;
            history.note(&self.name, || "repeated by another call".to_owned());
            let repeated = history.begin(&self.name);
            match self.send(write.id(self.id), answer).await {
                Some(Ok((version, changed))) => {
                    history.repeated(&begun, &repeated, self.id.as_bytes(), version, changed)
                }
                // The outcome that it names is the present one. An earlier copy may still be on its
                // way.
                Some(Err(error)) => self.refused(&error),
                None => {}
            }
        }
    }

    /// Sends a write. None if it was cut off.
    async fn send<T: Send + 'static>(
        &self,
        write: Write<T>,
        answer: impl Fn(&T) -> Answer,
    ) -> Option<Result<Answer, Error>> {
        let sent = write.deadline(self.world.plan.deadline);
        let sent = if self.is_noted {
            sent.note(self.value.clone())
        } else {
            sent
        };
        let answered = self.call(sent.into_future()).await;
        answered.map(|answered| answered.map(|done| answer(&done)))
    }

    /// Reports the answer to an owner's write to the oracle.
    fn answered(&self, begun: &Begun, key: &[u8], answer: Option<Result<Answer, Error>>) {
        let history = &self.world.history;
        match answer {
            Some(Ok((version, changed))) => history.acknowledged(begun, key, version, changed),
            Some(Err(error)) => {
                history.failed(
                    begun,
                    key,
                    error.outcome(),
                    &format!("{:?} {error}", error.kind()),
                );
                self.refused(&error);
            }
            None => history.failed(begun, key, Outcome::Unknown, "the caller is gone"),
        }
    }

    /// A write failed. Its error must be possible here.
    fn refused(&self, error: &Error) {
        // A clock that was set back puts deadlines further ahead than ids are remembered, and such
        // a deadline is rejected.
        let refused = error.kind() == Kind::Invalid && !error.to_string().contains("DEADLINE");
        if refused || matches!(error.kind(), Kind::Corrupt | Kind::Denied) {
            self.world.history.fail(&self.name, &format!("V9: {error}"));
        }
    }

    async fn read(
        &self,
        read: impl Future<Output = Result<Record, Error>>,
        fields: &[&str],
        known: &mut Version,
    ) {
        let begun = self.world.history.begin(&self.name);
        match self.call(read).await {
            Some(Ok(record)) => {
                let values: Vec<_> = fields
                    .iter()
                    .map(|field| {
                        (
                            (*field).to_owned(),
                            record.get(field).map(|value| value.to_vec()),
                        )
                    })
                    .collect();
                self.world.history.read(&begun, record.version(), &values);
                *known = record.version();
            }
            Some(Err(error)) => self
                .world
                .history
                .note(&self.name, || format!("not read: {error}")),
            None => {}
        }
    }

    async fn flush(&self) {
        let begun = self.world.history.begin(&self.name);
        if let Some(Ok(_)) = self
            .call(self.owner.flush(self.world.chance.millis(100, 3_000)))
            .await
        {
            self.world.history.landed(&begun, &self.world.database);
        }
    }
}
