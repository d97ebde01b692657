//! One host, as a client knows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::health::{Health, silence_max};
use super::latency::Latency;
use super::transport::{Connection, Fault};
use crate::{GetReply, ShardInfo};

/// One host.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: Arc<str>,
    pub(crate) connection: Connection,
    state: Mutex<EndpointState>,
}

#[derive(Debug)]
struct EndpointState {
    /// The number of the request whose reply is known. 0: of none.
    asked: u64,
    /// What the host told in that reply.
    shard: Option<ShardInfo>,
    /// When a reply was taken last.
    confirmed: Instant,
    /// Why the last request had no reply.
    fault: Option<Fault>,
    health: Health,
    latency: Option<Arc<Latency>>,
}

/// What a choice among endpoints needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Ejected endpoints go last, and are used if there are no others (V13).
    is_out: bool,
    is_draining: bool,
    is_elsewhere: bool,
    under_way: u32,
}

impl Endpoint {
    pub(crate) fn new(address: Arc<str>, connection: Connection, now: Instant) -> Self {
        Self {
            address,
            connection,
            state: Mutex::new(EndpointState {
                asked: 0,
                shard: None,
                confirmed: now,
                fault: None,
                health: Health::default(),
                latency: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host holds, as it told last.
    pub(crate) fn shard(&self) -> Option<ShardInfo> {
        self.state().shard.clone()
    }

    /// Why the last request had no reply. None: it had one.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.state().fault.clone()
    }

    /// When the host replied last.
    pub(crate) fn confirmed(&self) -> Instant {
        self.state().confirmed
    }

    /// The usual time of a request to the host's data centre.
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.state()
            .latency
            .as_ref()
            .and_then(|latency| latency.usual())
    }

    /// Takes what a reply tells of its host. Says whether the host holds something else now.
    ///
    /// V4: the reply to the request that was sent last counts, in whatever order replies arrive.
    pub(crate) fn heed(
        &self,
        number: u64,
        shard: &ShardInfo,
        now: Instant,
        latency: &Arc<Latency>,
    ) -> bool {
        let mut state = self.state();
        state.confirmed = now;
        if number <= state.asked {
            return false;
        }
        state.asked = number;
        state.latency = Some(Arc::clone(latency));
        let before = state.shard.replace(shard.clone());
        before.is_none_or(|before| {
            (before.range, before.state) != (shard.range, shard.state) || before.dc != shard.dc
        })
    }

    /// Forgets what the host holds. Says whether anything was known.
    pub(crate) fn forget(&self, number: u64) -> bool {
        let mut state = self.state();
        if number < state.asked {
            return false;
        }
        state.asked = number;
        state.shard.take().is_some()
    }

    pub(crate) fn begin(&self, now: Instant) {
        self.state().health.begin(now);
    }

    pub(crate) fn end(&self, now: Instant) {
        let mut state = self.state();
        let silence_max = state.silence_max();
        state.health.end(now, silence_max);
    }

    /// Judges the host by the result of a request.
    pub(crate) fn judge(&self, result: &Result<GetReply, Fault>, now: Instant) {
        let mut state = self.state();
        state.fault = result.as_ref().err().cloned();
        match result {
            Ok(reply) => state.health.replied(now, reply.answers.is_some()),
            // A reply, only no answer.
            Err(Fault::Stale(_) | Fault::Invalid(_)) => state.health.replied(now, false),
            Err(Fault::Busy(_, pause)) => {
                state.health.replied(now, false);
                state
                    .health
                    .rest(now + pause.unwrap_or(Duration::from_millis(100)));
            }
            // The request may have asked for more time than it had.
            Err(Fault::Late | Fault::Denied(_)) => {}
            Err(Fault::NotSent(_) | Fault::Broken(_)) => state.health.failed(now),
        }
    }

    /// Whether the endpoint is ejected now. One that has been silent for too long is from now on.
    pub(crate) fn is_out(&self, now: Instant) -> bool {
        let mut state = self.state();
        let silence_max = state.silence_max();
        state.health.look(now, silence_max);
        state.health.is_out(now)
    }

    /// Whether the endpoint has asked for a pause.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        self.state().health.rests(now)
    }

    /// Its place in a choice. The least is the best.
    pub(crate) fn rank(&self, now: Instant, preferred: Option<&str>) -> Rank {
        let mut state = self.state();
        let silence_max = state.silence_max();
        state.health.look(now, silence_max);
        let shard = state.shard.as_ref();
        Rank {
            is_out: state.health.is_out(now),
            is_draining: shard.is_none_or(|shard| shard.state != crate::State::Serving),
            is_elsewhere: preferred.is_some_and(|dc| shard.is_none_or(|shard| shard.dc != dc)),
            under_way: state.health.under_way(),
        }
    }
}

impl EndpointState {
    fn silence_max(&self) -> Duration {
        silence_max(self.latency.as_ref().and_then(|latency| latency.usual()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::transport::Security;
    use crate::{ShardRange, State};

    fn endpoint(address: &str) -> Endpoint {
        let path = http::uri::PathAndQuery::from_static("/s/m");
        let connection = Connection::new(address, path, &Security::default(), None, 1).unwrap();
        Endpoint::new(address.into(), connection, Instant::now())
    }

    /// V13.
    #[tokio::test]
    async fn an_ejected_endpoint_goes_last_in_the_choice() {
        let (failing, other, now) = (endpoint("a:1"), endpoint("b:1"), Instant::now());
        let shard = ShardInfo::holding("a", State::Serving, ShardRange::ALL, 1);
        for endpoint in [&failing, &other] {
            endpoint.heed(1, &shard, now, &Arc::default());
        }
        other.begin(now);
        assert!(
            failing.rank(now, None) < other.rank(now, None),
            "it has no work"
        );
        for _ in 0..5 {
            failing.judge(&Err(Fault::Broken("it broke".to_owned())), now);
        }
        assert!(failing.is_out(now) && failing.rank(now, None) > other.rank(now, None));
    }

    /// V4.
    #[tokio::test]
    async fn a_late_reply_to_an_earlier_request_changes_nothing() {
        let endpoint = endpoint("host:1");
        let latency = Arc::default();
        let heed = |number, state| {
            let shard = ShardInfo::holding("a", state, ShardRange::ALL, 1);
            endpoint.heed(number, &shard, Instant::now(), &latency)
        };
        assert!(
            heed(2, State::Serving),
            "the second request is answered first"
        );
        assert!(!heed(1, State::Loading), "and the first one after it");
        let state = || endpoint.shard().map(|shard| shard.state);
        assert_eq!(state(), Some(State::Serving));
        assert!(!endpoint.forget(1), "it knew the schema later");
        assert!(heed(3, State::Draining));
        assert_eq!(state(), Some(State::Draining));
    }
}
