//! Numbered calls (R11): every interleaving of a store's writes, of a network that delays, doubles
//! and loses messages, of failovers, and of stores that die and are forgotten.
//!
//! The store's bookkeeping is the shipped [`Calls`]. The model has its own server, network, and
//! order of steps. The server acts like `update.lua`, `end_call.lua` and `forget_calls.lua`.

use std::collections::BTreeMap;

use storage_dirty::redis::writes::calls::{Calls, Fate};
use storage_model::OpId;
use tokio::time::Instant;

use crate::search::{Model, Step};

/// A rule of the calls that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The server carries out every call, whatever its number.
    Unnumbered,
    /// The server keeps the number of a call that changed nothing, without its answer. Then it
    /// takes the call for carried out.
    RefusalForgotten,
    /// A store that opens takes the name of the one before.
    SameName,
    /// A lost call is not ended before its writes go into another one.
    Unended,
    /// The end of a call only asks, and leaves no trace.
    OnlyAsked,
    /// Calls are forgotten at any time.
    Hasty,
    /// A call is carried out after its deadline.
    NoDeadline,
}

/// The calls within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    /// The number of writes of each store.
    pub writes: u8,
    /// The number of stores that are opened, one after the other.
    pub stores: u8,
    /// How often a store may end a call.
    pub ends: u8,
    /// The number of answers that may be lost.
    pub losses: u8,
    /// The number of calls that may be doubled on their way.
    pub doubles: u8,
    /// How often a server may be replaced by an earlier copy of it.
    pub failovers: u8,
    /// How often other writers may change the state that conditions depend on.
    pub changes: u8,
    /// Whether all deadlines may pass.
    pub time: bool,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// The answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It was applied.
    Applied,
    /// Its condition did not hold.
    Refused,
    /// Its deadline had passed.
    Late,
    /// It was sent in another epoch.
    Moved(u8),
}

/// The server, or a copy of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Server {
    /// How often each write was applied, by store and write.
    applied: BTreeMap<(u8, u8), u8>,
    /// The last call of each store by its name: its number and its answers. A void call has none.
    last: BTreeMap<u8, (u64, Option<Vec<Answer>>)>,
    epoch: u8,
    /// How often other writers changed the state that conditions depend on. A condition holds while
    /// the number is even.
    changed: u8,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Call {
        store: u8,
        number: u64,
        writes: Vec<u8>,
        epoch: u8,
    },
    End {
        store: u8,
        number: u64,
    },
    Answered {
        store: u8,
        number: u64,
        writes: Vec<u8>,
        answers: Vec<Answer>,
        /// The epoch of the server that answered.
        epoch: u8,
    },
    /// The answer to an end. It has no answers if the call is void.
    Ended {
        store: u8,
        number: u64,
        answers: Option<Vec<Answer>>,
        epoch: u8,
    },
    /// A copy came after a later call, or after its call was ended.
    Stale {
        store: u8,
        number: u64,
    },
}

/// The progress of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// It waits for a call.
    Waits,
    /// It is in a call that is open.
    Sent,
    /// Its caller learned that it was applied, or that it was not.
    Told(bool),
    /// Its caller learned that the outcome is unknown.
    Unknown,
}

/// A store that is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Store {
    number: u8,
    calls: Calls<Answer>,
    writes: Vec<At>,
    epoch: u8,
}

/// The whole state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    server: Server,
    copy: Option<Server>,
    store: Store,
    /// The results that dead stores gave: by store and write, whether it was applied.
    told: BTreeMap<(u8, u8), bool>,
    messages: Vec<Message>,
    late: bool,
    ends: u8,
    losses: u8,
    doubles: u8,
    failovers: u8,
    began: Instant,
}

fn id(store: u8, write: u8) -> OpId {
    let mut bytes = [store; 16];
    bytes[0] = write;
    OpId::new(bytes)
}

impl Numbered {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn name(&self, store: u8) -> u8 {
        if self.is(Broken::SameName) { 0 } else { store }
    }

    fn open(&self, number: u8, epoch: u8) -> Store {
        Store {
            number,
            calls: Calls::default(),
            writes: vec![At::Waits; usize::from(self.writes)],
            epoch,
        }
    }

    /// Carries out a call on the server, like `update.lua`.
    fn carry_out(
        &self,
        world: &mut World,
        store: u8,
        number: u64,
        writes: &[u8],
        epoch: u8,
    ) -> Message {
        let (name, late) = (self.name(store), world.late && !self.is(Broken::NoDeadline));
        let server = &mut world.server;
        let last = server
            .last
            .get(&name)
            .filter(|_| !self.is(Broken::Unnumbered));
        match last {
            Some((last, Some(answers))) if *last == number => {
                return Message::Answered {
                    store,
                    number,
                    writes: writes.to_vec(),
                    answers: answers.clone(),
                    epoch: server.epoch,
                };
            }
            Some((last, _)) if *last >= number => return Message::Stale { store, number },
            _ => {}
        }
        let mut answers = Vec::new();
        for write in writes {
            // The first write of a store has a condition.
            let answer = match write {
                _ if epoch != server.epoch => Answer::Moved(server.epoch),
                _ if late => Answer::Late,
                0 if server.changed % 2 == 1 => Answer::Refused,
                _ => Answer::Applied,
            };
            if answer == Answer::Applied {
                *server.applied.entry((store, *write)).or_default() += 1;
            }
            answers.push(answer);
        }
        let changed_nothing = !answers.contains(&Answer::Applied);
        if !(changed_nothing && self.is(Broken::RefusalForgotten)) {
            server.last.insert(name, (number, Some(answers.clone())));
        }
        Message::Answered {
            store,
            number,
            writes: writes.to_vec(),
            answers,
            epoch: server.epoch,
        }
    }

    /// Ends a call on the server, like `end_call.lua`.
    fn end(&self, server: &mut Server, store: u8, number: u64) -> Message {
        let name = self.name(store);
        match server.last.get(&name) {
            Some((last, answers)) if *last == number => Message::Ended {
                store,
                number,
                answers: answers.clone(),
                epoch: server.epoch,
            },
            Some((last, _)) if *last > number => Message::Stale { store, number },
            _ => {
                if !self.is(Broken::OnlyAsked) {
                    server.last.insert(name, (number, None));
                }
                Message::Ended {
                    store,
                    number,
                    answers: None,
                    epoch: server.epoch,
                }
            }
        }
    }
}

impl World {
    fn send(&mut self, message: Message) {
        self.messages.push(message);
        self.messages.sort();
    }

    /// Gives the caller of a write its result, or lets the write wait for another call.
    fn tell(&mut self, write: u8, answer: Answer, epoch: u8) {
        let store = &mut self.store;
        let Some(at) = store.writes.get_mut(usize::from(write)) else {
            return;
        };
        *at = match answer {
            // An acknowledgement of a server that was replaced since may be lost. This rule does
            // not promise it.
            Answer::Applied if epoch != self.server.epoch => At::Unknown,
            Answer::Applied => At::Told(true),
            Answer::Refused => At::Told(false),
            Answer::Late => At::Unknown,
            Answer::Moved(epoch) => {
                store.epoch = epoch;
                At::Waits
            }
        };
    }

    /// A message reaches the store. If the store is gone, nothing happens.
    fn receive(&mut self, message: Message) {
        match message {
            // Only the store that waits for the call gets its answer.
            Message::Answered {
                store,
                number,
                writes,
                answers,
                epoch,
            } if store == self.store.number
                && writes.first().is_some_and(|write| {
                    self.store.calls.open_with(id(store, *write)) == Some(number)
                }) =>
            {
                self.store.calls.close(number);
                writes
                    .into_iter()
                    .zip(answers)
                    .for_each(|(write, answer)| self.tell(write, answer, epoch));
            }
            Message::Ended {
                store,
                number,
                answers,
                epoch,
            } if store == self.store.number => {
                let all = 0..u8::try_from(self.store.writes.len()).unwrap_or_default();
                let is_in =
                    |write: &u8| self.store.calls.open_with(id(store, *write)) == Some(number);
                let writes: Vec<u8> = all.filter(is_in).collect();
                self.store.calls.ended(number, answers, self.began);
                for write in writes {
                    match self.store.calls.fate(id(store, write)) {
                        Some(Fate::Answered(answer)) => self.tell(write, answer, epoch),
                        Some(Fate::Void) => self.set(write, At::Waits),
                        Some(Fate::Apart) | None => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, write: u8, to: At) {
        if let Some(at) = self.store.writes.get_mut(usize::from(write)) {
            *at = to;
        }
    }

    fn waiting(&self) -> Vec<u8> {
        let waiting = self
            .store
            .writes
            .iter()
            .zip(0..)
            .filter(|(at, _)| **at == At::Waits);
        waiting.map(|(_, write)| write).collect()
    }

    fn sent(&self) -> Option<u8> {
        let sent = self
            .store
            .writes
            .iter()
            .zip(0..)
            .find(|(at, _)| **at == At::Sent);
        sent.map(|(_, write)| write)
    }
}

fn step(who: &'static str, number: u8, what: &'static str) -> Step {
    Step {
        who,
        number: usize::from(number),
        what,
    }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Numbered {
    fn store_steps(&self, world: &World, take: Take<'_>) {
        let number = world.store.number;
        // One write, or all that wait.
        let waiting = world.waiting();
        let mut groups = vec![waiting.clone()];
        groups.extend(
            waiting
                .first()
                .filter(|_| waiting.len() > 1)
                .map(|first| vec![*first]),
        );
        for group in groups.into_iter().filter(|group| !group.is_empty()) {
            let mut next = world.clone();
            if let Ok(call) = next
                .store
                .calls
                .begin(group.iter().map(|write| id(number, *write)).collect())
            {
                group.iter().for_each(|write| next.set(*write, At::Sent));
                next.send(Message::Call {
                    store: number,
                    number: call,
                    writes: group,
                    epoch: world.store.epoch,
                });
                take(step("store", number, "sends a call"), Ok(next));
            }
        }
        let open = world
            .sent()
            .and_then(|write| world.store.calls.open_with(id(number, write)));
        if let Some(call) = open {
            let mut next = world.clone();
            if self.is(Broken::Unended) {
                next.store.calls.close(call);
                (0..self.writes)
                    .filter(|write| next.store.writes.get(usize::from(*write)) == Some(&At::Sent))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|write| next.set(write, At::Waits));
                take(step("store", number, "takes its call for void"), Ok(next));
            } else if next.ends > 0
                && !next.messages.contains(&Message::End {
                    store: number,
                    number: call,
                })
            {
                next.ends -= 1;
                next.send(Message::End {
                    store: number,
                    number: call,
                });
                take(step("store", number, "ends its call"), Ok(next));
            }
        }
        if number + 1 < self.stores {
            let mut next = world.clone();
            let ended = world.store.writes.iter().zip(0..);
            let told = ended.filter_map(|(at, write)| {
                if let At::Told(applied) = at {
                    Some(((number, write), *applied))
                } else {
                    None
                }
            });
            next.told.extend(told);
            next.store = self.open(number + 1, world.server.epoch);
            take(
                step("store", number, "dies, and another is opened"),
                Ok(next),
            );
        }
    }

    fn network_steps(&self, world: &World, take: Take<'_>) {
        for (at, message) in world.messages.iter().enumerate() {
            let mut next = world.clone();
            next.messages.remove(at);
            let (what, store) = match message.clone() {
                Message::Call {
                    store,
                    number,
                    writes,
                    epoch,
                } => {
                    let answer = self.carry_out(&mut next, store, number, &writes, epoch);
                    next.send(answer);
                    ("brings a call", store)
                }
                Message::End { store, number } => {
                    let answer = self.end(&mut next.server, store, number);
                    next.send(answer);
                    ("brings the end of a call", store)
                }
                answer @ (Message::Answered { store, .. }
                | Message::Ended { store, .. }
                | Message::Stale { store, .. }) => {
                    next.receive(answer);
                    ("brings an answer", store)
                }
            };
            take(step("network of store", store, what), Ok(next));
            let is_answer = !matches!(message, Message::Call { .. } | Message::End { .. });
            if is_answer && world.losses > 0 {
                let mut next = world.clone();
                next.messages.remove(at);
                next.losses -= 1;
                take(step("network of store", store, "loses an answer"), Ok(next));
            }
            if let (Message::Call { .. }, 1..) = (message, world.doubles) {
                let mut next = world.clone();
                next.doubles -= 1;
                next.send(message.clone());
                take(step("network of store", store, "doubles a call"), Ok(next));
            }
        }
    }

    fn server_steps(&self, world: &World, take: Take<'_>) {
        if world.server.changed < self.changes {
            let mut next = world.clone();
            next.server.changed += 1;
            take(
                step(
                    "another program",
                    0,
                    "changes the state that conditions depend on",
                ),
                Ok(next),
            );
        }
        if self.time && !world.late {
            let mut next = world.clone();
            next.late = true;
            take(step("time", 0, "passes all deadlines"), Ok(next));
        }
        // Until a deadline can have passed, a store without calls may still make one.
        if world.late || self.is(Broken::Hasty) {
            let gone = world.server.last.keys().copied();
            for name in gone
                .filter(|name| *name != self.name(world.store.number))
                .collect::<Vec<_>>()
            {
                let mut next = world.clone();
                next.server.last.remove(&name);
                take(step("worker", 0, "forgets the calls of a store"), Ok(next));
            }
        }
        if world.failovers > 0 && world.copy.is_none() {
            let mut next = world.clone();
            next.copy = Some(world.server.clone());
            take(step("replica", 0, "has a copy"), Ok(next));
        }
        if let Some(copy) = &world.copy {
            let mut next = world.clone();
            next.failovers -= 1;
            next.copy = None;
            next.server = Server {
                epoch: world.server.epoch + 1,
                ..copy.clone()
            };
            // From here on they count like acknowledgements of the replaced server.
            next.told.retain(|_, applied| !*applied);
            next.store
                .writes
                .iter_mut()
                .filter(|at| **at == At::Told(true))
                .for_each(|at| *at = At::Unknown);
            take(step("replica", 0, "takes over"), Ok(next));
        }
    }
}

impl Model for Numbered {
    type State = World;

    fn start(&self) -> World {
        World {
            server: Server::default(),
            copy: None,
            store: self.open(0, 0),
            told: BTreeMap::new(),
            messages: Vec::new(),
            late: false,
            ends: self.ends,
            losses: self.losses,
            doubles: self.doubles,
            failovers: self.failovers,
            began: Instant::now(),
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.store_steps(world, take);
        self.network_steps(world, take);
        self.server_steps(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        let times = |store: u8, write: u8| {
            world
                .server
                .applied
                .get(&(store, write))
                .copied()
                .unwrap_or_default()
        };
        if let Some((store, write)) = world
            .server
            .applied
            .iter()
            .find(|(_, times)| **times > 1)
            .map(|(write, _)| *write)
        {
            return Some(format!("write {write} of store {store} was applied twice"));
        }
        let number = world.store.number;
        let now = world
            .store
            .writes
            .iter()
            .zip(0..)
            .filter_map(|(at, write)| match at {
                At::Told(applied) => Some(((number, write), *applied)),
                At::Waits | At::Sent | At::Unknown => None,
            });
        let wrong = world
            .told
            .iter()
            .map(|(write, applied)| (*write, *applied))
            .chain(now);
        let mut wrong =
            wrong.filter(|((store, write), applied)| u8::from(*applied) != times(*store, *write));
        let ((store, write), applied) = wrong.next()?;
        let told = if applied { "applied" } else { "not applied" };
        Some(format!(
            "write {write} of store {store} was reported as {told}, and was applied {} times",
            times(store, write)
        ))
    }
}
