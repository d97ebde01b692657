//! A call on its way: which hosts are asked for which keys, and when further ones.
//!
//! A key is *open* until it has a result. An open key is under way in one or several attempts, or it waits for
//! a host. A host is asked once in a round. When no host is left, the call pauses, and the next round begins.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::Mode;
use super::core::Core;
use super::endpoint::Endpoint;
use super::transport::Fault;
use crate::error::{Error, Kind, Result};
use crate::{FailureKind, GetReply, GetRequest, KeyAnswer, Place};

/// The pause before the first further round, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// The least time until a hedge, and the time while a data centre's usual time is not known.
const HEDGE_MIN: Duration = Duration::from_millis(1);
const HEDGE_UNKNOWN: Duration = Duration::from_millis(10);
/// How often an attempt is looked at that could not be hedged.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A request has at most so many keys, and so many bytes of keys.
const KEYS_MAX: usize = 1_000;
const KEY_BYTES_MAX: usize = 1 << 20;
/// A key under which so many connections broke is not sent again, since it may be the cause.
const BROKEN_MAX: u32 = 2;

/// What a caller reads whom no server knows.
const DENIED: &str = "the servers do not know this client";

/// A key of a call.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) sharding_key: u64,
    pub(crate) bytes: Bytes,
}

/// What a call asks for.
#[derive(Debug, Clone)]
pub(crate) struct CallOptions {
    pub(crate) mode: Mode,
    pub(crate) max_age: Option<Duration>,
    pub(crate) after: Vec<Place>,
}

/// What came of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyResult {
    Value(Bytes),
    Failed(String),
}

#[derive(Debug, Default)]
struct KeyProgress {
    result: Option<KeyResult>,
    /// The attempts that it is in.
    under_way: u32,
    /// The hosts that were asked in this round.
    asked: Vec<Arc<Endpoint>>,
    /// Whether it was ever sent.
    is_sent: bool,
    /// Whether the next attempt costs nothing, since the last one did not burden a server.
    is_free: bool,
    /// So many connections broke under it.
    broken: u32,
    /// Why the last attempt failed.
    reason: Option<String>,
}

#[derive(Debug)]
struct Attempt {
    id: u64,
    endpoint: Arc<Endpoint>,
    keys: Vec<usize>,
    begun: Instant,
    /// When to look whether the keys should also go elsewhere.
    look_at: Option<Instant>,
}

type Asked<'a> = Pin<Box<dyn Future<Output = (u64, Result<GetReply, Fault>)> + Send + 'a>>;

/// Why keys are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    First,
    Retry,
    Hedge,
}

pub(crate) struct Call<'a> {
    core: &'a Arc<Core>,
    items: Vec<Item>,
    options: CallOptions,
    until: Instant,
    keys: Vec<KeyProgress>,
    open: usize,
    attempts: Vec<Attempt>,
    asked: FuturesUnordered<Asked<'a>>,
    attempts_made: u64,
    /// How many calls the client has begun before this one.
    turn: usize,
    pause: Duration,
    /// The end of the pause, if a key waits for a host.
    paused_until: Option<Instant>,
    age: ReplyAges,
    is_stale: bool,
    hosts: Vec<(Arc<str>, String)>,
}

/// The greatest age of the replies of a call.
#[derive(Debug, Default)]
struct ReplyAges {
    greatest: Duration,
    is_unknown: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        items: Vec<Item>,
        options: CallOptions,
        until: Instant,
    ) -> Self {
        let keys = items.iter().map(|_| KeyProgress::default()).collect();
        Self {
            core,
            open: items.len(),
            items,
            options,
            until,
            keys,
            attempts: Vec::new(),
            asked: FuturesUnordered::new(),
            attempts_made: 0,
            turn: core.next_turn(),
            pause: PAUSE_MIN,
            paused_until: None,
            age: ReplyAges::default(),
            is_stale: false,
            hosts: Vec::new(),
        }
    }

    /// Asks until each key has a result, or the time is up. A partial call goes on when a key has failed.
    pub(crate) async fn run(&mut self, is_partial: bool) -> Result<()> {
        self.core.deposit();
        let mut changes = self.core.directory.changes();
        changes.mark_unchanged();
        self.send_open();
        while self.open > 0 && (is_partial || !self.has_failed()) {
            let look_at = self
                .attempts
                .iter()
                .filter_map(|attempt| attempt.look_at)
                .min();
            let paused_until = self.paused_until;
            tokio::select! {
                biased;
                Some((id, reply)) = self.asked.next() => self.take(id, reply)?,
                () = sleep_until(self.until) => break,
                () = sleep_until(look_at.unwrap_or(self.until)), if look_at.is_some() => self.look(),
                () = sleep_until(paused_until.unwrap_or(self.until)), if paused_until.is_some() => self.next_round(),
                // A host that was not asked yet may have the key now.
                Ok(()) = changes.changed(), if paused_until.is_some() => {}
            }
            self.send_open();
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| matches!(key.result, Some(KeyResult::Failed(_))))
    }

    /// The results in the order of the keys, the age of the answer, and the error of the call if a key has none.
    pub(crate) fn finish(self) -> (Vec<KeyResult>, Option<Duration>, Error) {
        let age = (!self.age.is_unknown).then_some(self.age.greatest);
        let error = self.error();
        let result = |key: KeyProgress| {
            key.result.unwrap_or_else(|| {
                let known = if key.is_sent {
                    "no server has answered in time"
                } else {
                    "no server is known to have it"
                };
                KeyResult::Failed(key.reason.unwrap_or_else(|| known.to_owned()))
            })
        };
        (self.keys.into_iter().map(result).collect(), age, error)
    }

    fn error(&self) -> Error {
        let endpoints = self.core.directory.endpoints();
        let faults = endpoints
            .iter()
            .filter_map(|endpoint| Some((endpoint, endpoint.fault()?)));
        let faults: Vec<_> = faults.collect();
        let is_denied = |(_, fault): &(_, Fault)| matches!(fault, Fault::Denied(_));
        let error = if self.is_stale {
            let ages = endpoints
                .iter()
                .filter_map(|endpoint| endpoint.shard()?.age);
            Error::new(
                Kind::Stale,
                "the values of the servers are too old for this call",
            )
            .with_best_age(ages.min())
        } else if !faults.is_empty()
            && faults.len() == endpoints.len()
            && faults.iter().all(is_denied)
        {
            Error::new(Kind::Denied, DENIED)
        } else {
            Error::new(Kind::Unanswered, "keys have no answer")
        };
        // Hosts that the call has asked, and those that do not even tell what they hold.
        let others = faults.iter().filter(|(endpoint, _)| {
            endpoint.shard().is_none()
                && self
                    .hosts
                    .iter()
                    .all(|(asked, _)| *asked != endpoint.address)
        });
        let others =
            others.map(|(endpoint, fault)| (endpoint.address.to_string(), fault.to_string()));
        let asked = self
            .hosts
            .iter()
            .map(|(address, reason)| (address.to_string(), reason.clone()));
        error.with_hosts(asked.chain(others))
    }

    /// Sends all open keys that are not under way, each to the best host that was not asked in this round.
    fn send_open(&mut self) {
        let (routes, now) = (self.core.directory.routes(), Instant::now());
        let mut groups: Vec<(Arc<Endpoint>, Vec<usize>)> = Vec::new();
        let mut waits = false;
        for at in 0..self.keys.len() {
            let (Some(key), Some(item)) = (self.keys.get(at), self.items.get(at)) else {
                continue;
            };
            if key.result.is_some() || key.under_way > 0 {
                continue;
            }
            let hosts = routes.of(item.sharding_key);
            let chosen = match self.options.mode {
                Mode::All => hosts.iter().filter(|host| !key.has_asked(host)).collect(),
                Mode::Hedged | Mode::One => {
                    self.best(key, hosts, now).into_iter().collect::<Vec<_>>()
                }
            };
            waits |= chosen.is_empty();
            for host in chosen {
                add_to_group(&mut groups, host, at);
            }
        }
        for (endpoint, keys) in groups {
            waits |= !self.send_group(&endpoint, &keys, now);
        }
        if !waits {
            self.paused_until = None;
        } else if self.paused_until.is_none() {
            self.paused_until = Some(now + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            self.core.early.notify_one();
        }
    }

    /// The best host that was not asked in this round.
    fn best<'h>(
        &self,
        key: &KeyProgress,
        hosts: &'h [Arc<Endpoint>],
        now: Instant,
    ) -> Option<&'h Arc<Endpoint>> {
        let preferred = self.core.options.preferred_dc.as_deref();
        // A host that asked for a pause gets no retries.
        let may = |host: &&Arc<Endpoint>| !(key.has_asked(host) || key.is_sent && host.rests(now));
        // Among equals another one is the first in each call.
        let first = self.turn.checked_rem(hosts.len()).unwrap_or_default();
        let (last, first) = hosts.split_at_checked(first)?;
        let may = first.iter().chain(last).filter(may);
        may.min_by_key(|host| host.rank(now, preferred))
    }

    /// Sends keys to a host, if the budget allows it. Says whether it did.
    fn send_group(&mut self, endpoint: &Arc<Endpoint>, keys: &[usize], now: Instant) -> bool {
        let mut progress = keys.iter().filter_map(|at| self.keys.get(*at));
        let is_first = progress.clone().all(|key| !key.is_sent);
        let is_free = is_first || progress.all(|key| key.is_free || !key.is_sent);
        if !is_free && !self.core.withdraw() {
            return false;
        }
        let purpose = if is_first {
            Purpose::First
        } else {
            Purpose::Retry
        };
        self.send(endpoint, keys, purpose, now);
        true
    }

    /// Sends keys to a host, in requests of bounded size.
    fn send(&mut self, endpoint: &Arc<Endpoint>, keys: &[usize], purpose: Purpose, now: Instant) {
        match purpose {
            Purpose::First => {}
            Purpose::Retry => self.core.figures.retries.add(1),
            Purpose::Hedge => self.core.figures.hedges.add(1),
        }
        let mut keys = keys;
        while !keys.is_empty() {
            let count = self.fitting(keys);
            let (some, rest) = keys.split_at(count);
            self.send_request(endpoint, some, purpose, now);
            keys = rest;
        }
    }

    /// How many of these keys fit into one request. At least one.
    fn fitting(&self, keys: &[usize]) -> usize {
        let mut bytes = 0_usize;
        let fits = |at: &&usize| {
            let size = self.items.get(**at).map_or(0, |item| item.bytes.len());
            bytes = bytes.saturating_add(size);
            bytes <= KEY_BYTES_MAX
        };
        keys.iter().take(KEYS_MAX).take_while(fits).count().max(1)
    }

    fn send_request(
        &mut self,
        endpoint: &Arc<Endpoint>,
        keys: &[usize],
        purpose: Purpose,
        now: Instant,
    ) {
        for at in keys {
            if let Some(key) = self.keys.get_mut(*at) {
                key.under_way += 1;
                key.is_sent = true;
                key.asked.push(Arc::clone(endpoint));
            }
        }
        let items = keys.iter().filter_map(|at| self.items.get(*at));
        let request = GetRequest {
            keys: items.map(|item| item.bytes.clone()).collect(),
            max_age: self.options.max_age,
            after: self.options.after.clone(),
            attempt: if purpose == Purpose::First { 1 } else { 2 },
            ..GetRequest::new(&*self.core.messages.schema)
        };
        self.core.figures.requests.add(1);
        self.attempts_made += 1;
        let id = self.attempts_made;
        self.attempts.push(Attempt {
            id,
            endpoint: Arc::clone(endpoint),
            keys: keys.to_vec(),
            begun: now,
            look_at: self.first_look(endpoint, now),
        });
        let (core, endpoint, until) = (Arc::clone(self.core), Arc::clone(endpoint), self.until);
        let ask = async move { (id, core.ask(&endpoint, &request, until).await) };
        self.asked.push(match self.options.mode {
            Mode::Hedged | Mode::One => Box::pin(ask),
            // Nothing is cancelled. A late reply still teaches the map.
            Mode::All => {
                let task = tokio::spawn(ask);
                let lost = Fault::Broken("the task of the request has ended".to_owned());
                Box::pin(async move { task.await.unwrap_or((id, Err(lost))) })
            }
        });
    }

    /// When an attempt is first looked at. A call that waits for an event is not hedged.
    fn first_look(&self, endpoint: &Endpoint, now: Instant) -> Option<Instant> {
        if !self.options.after.is_empty() {
            return None;
        }
        match self.options.mode {
            Mode::All => None,
            Mode::Hedged => Some(now + endpoint.usual().unwrap_or(HEDGE_UNKNOWN).max(HEDGE_MIN)),
            Mode::One => Some(now + LOOK_EVERY),
        }
    }

    /// Looks at attempts that take long. Their open keys also go to another host: in the mode `Hedged`, or if
    /// the host is silent.
    fn look(&mut self) {
        let now = Instant::now();
        let is_due = |attempt: &&mut Attempt| attempt.look_at.is_some_and(|at| at <= now);
        let mut due = Vec::new();
        for attempt in self.attempts.iter_mut().filter(is_due) {
            let is_silent = attempt.endpoint.is_out(now);
            if self.options.mode == Mode::Hedged || is_silent {
                due.push((attempt.id, attempt.keys.clone()));
            }
            attempt.look_at = Some(now + LOOK_EVERY);
        }
        for (id, keys) in due {
            if self.hedge(&keys, now)
                && let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.id == id)
            {
                attempt.look_at = None;
            }
        }
    }

    /// Sends open keys to further hosts. Says whether all of them were sent.
    fn hedge(&mut self, keys: &[usize], now: Instant) -> bool {
        let routes = self.core.directory.routes();
        let mut groups: Vec<(Arc<Endpoint>, Vec<usize>)> = Vec::new();
        let mut is_whole = true;
        for at in keys {
            let (Some(key), Some(item)) = (self.keys.get(*at), self.items.get(*at)) else {
                continue;
            };
            if key.result.is_some() {
                continue;
            }
            let hosts = routes.of(item.sharding_key);
            match self.best(key, hosts, now).filter(|host| !host.is_out(now)) {
                Some(host) => add_to_group(&mut groups, host, *at),
                None => is_whole = false,
            }
        }
        for (endpoint, keys) in groups {
            if self.core.withdraw() {
                self.send(&endpoint, &keys, Purpose::Hedge, now);
            } else {
                is_whole = false;
            }
        }
        is_whole
    }

    /// All hosts may be asked again.
    fn next_round(&mut self) {
        self.paused_until = None;
        for key in &mut self.keys {
            if key.under_way == 0 {
                key.asked.clear();
            }
        }
    }

    /// Takes the result of an attempt. An error ends the call.
    fn take(&mut self, id: u64, reply: Result<GetReply, Fault>) -> Result<()> {
        let Some(at) = self.attempts.iter().position(|attempt| attempt.id == id) else {
            return Ok(());
        };
        let attempt = self.attempts.swap_remove(at);
        for at in &attempt.keys {
            if let Some(key) = self.keys.get_mut(*at) {
                key.under_way = key.under_way.saturating_sub(1);
            }
        }
        match reply {
            Ok(GetReply {
                answers: Some(answers),
                shard,
            }) if answers.len() == attempt.keys.len() => {
                self.age.note(shard.age, attempt.begun.elapsed());
                for (at, answer) in attempt.keys.iter().zip(answers) {
                    self.answer(*at, answer, &attempt.endpoint);
                }
                Ok(())
            }
            Ok(GetReply { answers: None, .. }) => {
                self.core.figures.misdirected.add(1);
                self.fail(&attempt, "it does not hold the key".to_owned(), true);
                Ok(())
            }
            Ok(_) => {
                let reason = "its reply has another number of entries than keys";
                self.fail(&attempt, reason.to_owned(), false);
                Ok(())
            }
            Err(fault) => self.take_fault(&attempt, fault),
        }
    }

    fn take_fault(&mut self, attempt: &Attempt, fault: Fault) -> Result<()> {
        let reason = fault.to_string();
        match fault {
            Fault::NotSent(_) => self.fail(attempt, reason, true),
            Fault::Stale(_) => {
                self.is_stale = true;
                self.fail(attempt, reason, true);
            }
            Fault::Busy(..) | Fault::Late => self.fail(attempt, reason, false),
            Fault::Broken(_) => {
                self.fail(attempt, reason, false);
                for at in &attempt.keys {
                    self.broke(*at);
                }
            }
            Fault::Invalid(_) => return Err(self.ended(Kind::Invalid, attempt, reason)),
            Fault::Denied(_) => return Err(self.ended(Kind::Denied, attempt, reason)),
        }
        Ok(())
    }

    fn ended(&self, kind: Kind, attempt: &Attempt, reason: String) -> Error {
        let message = match kind {
            Kind::Denied => DENIED,
            _ => "the call can't succeed",
        };
        Error::new(kind, message).with_hosts([(attempt.endpoint.address.to_string(), reason)])
    }

    /// Notes why an attempt gave no answer.
    fn fail(&mut self, attempt: &Attempt, reason: String, is_free: bool) {
        for at in &attempt.keys {
            if let Some(key) = self.keys.get_mut(*at) {
                key.is_free = is_free;
                key.reason = Some(format!("{}: {reason}", attempt.endpoint.address));
            }
        }
        let address = &attempt.endpoint.address;
        match self.hosts.iter_mut().find(|(of, _)| of == address) {
            Some((_, last)) => *last = reason,
            None => self.hosts.push((Arc::clone(address), reason)),
        }
    }

    fn broke(&mut self, at: usize) {
        let Some(key) = self.keys.get_mut(at) else {
            return;
        };
        key.broken += 1;
        if key.broken >= BROKEN_MAX && key.result.is_none() {
            let reason = key.reason.take().unwrap_or_default();
            key.result = Some(KeyResult::Failed(format!(
                "the connections of {BROKEN_MAX} servers broke while they answered, last {reason}"
            )));
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Takes the answer of a host to a key. The first one counts.
    fn answer(&mut self, at: usize, answer: KeyAnswer, from: &Arc<Endpoint>) {
        let Some(key) = self.keys.get_mut(at).filter(|key| key.result.is_none()) else {
            return;
        };
        key.is_free = false;
        let result = match answer {
            KeyAnswer::Value(value) => KeyResult::Value(value),
            KeyAnswer::Failed(failure) => {
                let reason = format!("{}: {}", from.address, failure.message);
                match failure.kind {
                    FailureKind::Invalid | FailureKind::Panic => KeyResult::Failed(reason),
                    FailureKind::Full => {
                        // The same host has it, and can be asked at once.
                        key.asked.retain(|asked| !Arc::ptr_eq(asked, from));
                        key.is_free = true;
                        key.reason = Some(reason);
                        return;
                    }
                    FailureKind::Unavailable | FailureKind::Late => {
                        key.reason = Some(reason);
                        return;
                    }
                }
            }
        };
        key.result = Some(result);
        self.open = self.open.saturating_sub(1);
    }
}

impl KeyProgress {
    fn has_asked(&self, host: &Arc<Endpoint>) -> bool {
        self.asked.iter().any(|asked| Arc::ptr_eq(asked, host))
    }
}

impl ReplyAges {
    /// To the age that a host told, the time since the request was sent is added.
    fn note(&mut self, age: Option<Duration>, since_sent: Duration) {
        match age {
            Some(age) => self.greatest = self.greatest.max(age.saturating_add(since_sent)),
            None => self.is_unknown = true,
        }
    }
}

fn add_to_group(groups: &mut Vec<(Arc<Endpoint>, Vec<usize>)>, host: &Arc<Endpoint>, key: usize) {
    match groups.iter_mut().find(|(of, _)| Arc::ptr_eq(of, host)) {
        Some((_, keys)) => keys.push(key),
        None => groups.push((Arc::clone(host), vec![key])),
    }
}
