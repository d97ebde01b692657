//! Which ranges a client knows: every interleaving of two servers that change their ranges, a client
//! that sends three requests, and messages that overtake each other. There are two keys.
//!
//! Each reply has the present range of its server. The *map* of a client has an entry for each server,
//! which is the range of one of its replies. A client sends a key only to a server whose entry has the
//! key. A request without a key asks for the range alone.
//!
//! The rules:
//! - V1: a reply has a value only if the server's range had the key from before the value was read
//!   until after. Otherwise it has the range alone.
//! - V4: an entry is replaced by each reply to a request that was sent later, and by no other reply.
//!
//! So no client is told that a key is absent by a server that did not hold the key. When no message
//! is under way, the entry of each server is its reply to the request that was sent last.
//!
//! A server holds the values of its range, and changes both in one step. Each change of the range
//! has a number, so that a range that comes back is known as another one. No message is lost. A lost
//! one only leaves the entry as it was.

#![expect(
    clippy::indexing_slicing,
    reason = "all servers and keys are numbered below the arrays' lengths"
)]

use super::decisions::{may_answer, replaces};
use super::step;
use crate::search::{Model, Step};

const SERVERS: usize = 2;
const KEYS: usize = 2;

/// The keys of a range.
type Range = [bool; KEYS];

const BOTH: Range = [true, true];
const NEITHER: Range = [false, false];
/// The changes in their order: a server, and its next range. The second key goes to the other server
/// and comes back.
const CHANGES: [(usize, Range); 3] = [(1, [false, true]), (0, [true, false]), (0, [false, true])];

/// A rule of the map that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A server answers for keys outside of its range.
    Range,
    /// A server compares the key with its range once, before it reads the value.
    Once,
    /// The reply that arrives last replaces the entry.
    Arrival,
}

/// The map of a client within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Map {
    /// How many requests the client sends.
    pub requests: u8,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Server {
    range: Range,
    /// How often the range has changed.
    changes: u8,
}

/// A request, or the call that it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Request {
    number: u8,
    server: usize,
    key: Option<usize>,
}

/// The answer for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Value {
    Present,
    Absent,
}

/// A message under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Message {
    Request(Request),
    Reply {
        to: Request,
        range: Range,
        value: Option<Value>,
    },
}

/// A call under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Call {
    request: Request,
    key: usize,
    /// The server as the call began.
    begun: Server,
    value: Option<Value>,
}

/// An entry of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entry {
    /// The number of the request.
    request: u8,
    range: Range,
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    servers: [Server; SERVERS],
    /// How many of the changes are done.
    changed: usize,
    messages: Vec<Message>,
    calls: Vec<Call>,
    map: [Entry; SERVERS],
    /// How many requests were sent.
    sent: u8,
    /// The oracle: of the replies of each server that have arrived, the one whose request was sent last.
    newest: [Option<Entry>; SERVERS],
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl World {
    fn reply(&mut self, to: Request, range: Range, value: Option<Value>) {
        self.messages.push(Message::Reply { to, range, value });
    }
}

impl Map {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn client(&self, world: &World, take: Take<'_>) {
        if world.sent == self.requests {
            return;
        }
        for server in 0..SERVERS {
            let keys = (0..KEYS).filter(|key| world.map[server].range[*key]);
            for key in keys.map(Some).chain([None]) {
                let mut next = world.clone();
                next.sent += 1;
                next.messages.push(Message::Request(Request {
                    number: next.sent,
                    server,
                    key,
                }));
                take(step("client", 0, asks(server)), Ok(next));
            }
        }
    }

    fn network(&self, world: &World, take: Take<'_>) {
        for at in 0..world.messages.len() {
            let mut next = world.clone();
            match next.messages.remove(at) {
                Message::Request(request) => {
                    self.begin(&mut next, request);
                    take(step("server", request.server, "gets a request"), Ok(next));
                }
                Message::Reply { to, range, value } => {
                    self.learn(&mut next, to, range);
                    let absent = to.key.filter(|_| value == Some(Value::Absent));
                    let result = absent.map_or(Ok(next), |key| {
                        Err(format!(
                            "key {key} is absent, says a server that did not hold it"
                        ))
                    });
                    take(step("client", 0, "gets a reply"), result);
                }
            }
        }
    }

    /// Begins the call of a request for a key of the range. Any other request is answered by the range.
    fn begin(&self, world: &mut World, request: Request) {
        let begun = world.servers[request.server];
        let is_inside = |key: &usize| begun.range[*key] || self.is(Broken::Range);
        match request.key.filter(is_inside) {
            Some(key) => world.calls.push(Call {
                request,
                key,
                begun,
                value: None,
            }),
            None => world.reply(request, begun.range, None),
        }
    }

    /// Takes the range of a reply into the map, unless the entry is of a later request.
    fn learn(&self, world: &mut World, to: Request, range: Range) {
        let entry = Entry {
            request: to.number,
            range,
        };
        let known = world.map[to.server].request;
        if replaces(known, to.number) || self.is(Broken::Arrival) {
            world.map[to.server] = entry;
        }
        let newest = &mut world.newest[to.server];
        if newest.is_none_or(|newest| newest.request < to.number) {
            *newest = Some(entry);
        }
    }

    fn calls(&self, world: &World, take: Take<'_>) {
        for at in 0..world.calls.len() {
            let mut next = world.clone();
            let call = next.calls.remove(at);
            let what = self.go_on(&mut next, call);
            take(step("server", call.request.server, what), Ok(next));
        }
    }

    /// The next step of a call: it reads the value, or it ends.
    fn go_on(&self, world: &mut World, mut call: Call) -> &'static str {
        let Server { range, changes } = world.servers[call.request.server];
        if call.value.is_none() {
            call.value = Some(if range[call.key] {
                Value::Present
            } else {
                Value::Absent
            });
            world.calls.push(call);
            return "reads a value";
        }
        if may_answer(call.begun.changes, changes) || self.is(Broken::Once) {
            world.reply(call.request, call.begun.range, call.value);
            return "answers with a value";
        }
        world.reply(call.request, range, None);
        "finds that its range has changed, and answers with the range"
    }
}

fn asks(server: usize) -> &'static str {
    if server == 0 {
        "sends a request to server 0"
    } else {
        "sends a request to server 1"
    }
}

impl Model for Map {
    type State = World;

    /// The first server has both keys, and the client knows it.
    fn start(&self) -> World {
        let ranges = [BOTH, NEITHER];
        World {
            servers: ranges.map(|range| Server { range, changes: 0 }),
            changed: 0,
            messages: Vec::new(),
            calls: Vec::new(),
            map: ranges.map(|range| Entry { request: 0, range }),
            sent: 0,
            newest: [None; SERVERS],
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        if let Some((server, range)) = CHANGES.get(world.changed).copied() {
            let mut next = world.clone();
            let changes = world.servers[server].changes + 1;
            next.servers[server] = Server { range, changes };
            next.changed += 1;
            take(step("server", server, "changes its range"), Ok(next));
        }
        self.client(world, take);
        self.network(world, take);
        self.calls(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        if !world.messages.is_empty() || !world.calls.is_empty() {
            return None;
        }
        (0..SERVERS)
            .find(|server| {
                world.newest[*server].is_some_and(|newest| newest.range != world.map[*server].range)
            })
            .map(|server| format!("the entry of server {server} is not its newest reply"))
    }
}
