//! A call as a program makes it.

use std::collections::HashSet;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Client;
use super::call::{Call, CallOptions, Item, KeyResult};
use crate::error::{Error, FailedHost, Kind, Result};
use crate::{Place, Schema};

/// The default of [`Get::deadline`].
const DEADLINE: Duration = Duration::from_secs(1);
/// The longest time of a call.
const DEADLINE_MAX: Duration = Duration::from_hours(24);

/// The values of keys. It is sent when it is awaited.
#[must_use = "nothing is sent before it is awaited"]
pub struct Get<'a, S: Schema> {
    client: &'a Client<S>,
    keys: Vec<S::Key>,
    within: Duration,
    options: CallOptions,
    is_partial: bool,
}

impl<'a, S: Schema> Get<'a, S> {
    pub(crate) fn new(client: &'a Client<S>, keys: Vec<S::Key>) -> Self {
        Self {
            client,
            keys,
            within: DEADLINE,
            options: CallOptions {
                mode: client.mode,
                max_age: None,
                after: Vec::new(),
            },
            is_partial: false,
        }
    }

    /// The longest time of the call, a day at most. Default: 1 s.
    pub fn deadline(mut self, within: Duration) -> Self {
        self.within = within.min(DEADLINE_MAX);
        self
    }

    /// How old the answer may be: every change that landed longer ago is in it. Default: any age.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.options.max_age = Some(age);
        self
    }

    /// The answer reflects the event of this place, so that a program reads its own write. Can be given
    /// several times.
    pub fn after(mut self, place: Place) -> Self {
        self.options.after.push(place);
        self
    }

    /// Keys without an answer are listed, and the call succeeds. It fails as `Denied` all the same.
    pub fn partial(mut self) -> Self {
        self.is_partial = true;
        self
    }

    /// Which replicas are asked, in place of the client's setting.
    pub fn mode(mut self, mode: super::Mode) -> Self {
        self.options.mode = mode;
        self
    }

    async fn send(self) -> Result<Found<S>> {
        let until = Instant::now() + self.within;
        let core = Arc::clone(&self.client.core);
        let ids: Vec<S::Id> = self.keys.iter().map(S::id).collect();
        check_unique(&ids)?;
        let items = self.keys.iter().map(|key| Item {
            sharding_key: S::sharding_key(key),
            bytes: S::encode_key(key),
        });
        core.figures.calls.add(1);
        let mut call = Call::new(&core, items.collect(), self.options, until);
        call.run(self.is_partial).await?;
        let (results, age, end) = call.finish();
        let mut found = Found {
            values: Vec::with_capacity(ids.len()),
            unanswered: Vec::new(),
            hosts: Vec::new(),
            age,
        };
        let mut failed = Vec::new();
        for (id, result) in ids.into_iter().zip(results) {
            let value = match result {
                KeyResult::Value(bytes) => S::decode_value(&bytes)
                    .map_err(|error| format!("the value can't be read: {error}")),
                KeyResult::Failed(reason) => Err(reason),
            };
            match value {
                Ok(value) => found.values.push((id, value)),
                Err(reason) => {
                    failed.push((format!("{id:?}"), reason.clone()));
                    found.unanswered.push((id, reason));
                }
            }
        }
        // A token that no server knows is no matter of single keys.
        let may_lack = self.is_partial && end.kind() != Kind::Denied;
        if failed.is_empty() || may_lack {
            if !failed.is_empty() {
                found.hosts = end.hosts().to_vec();
            }
            return Ok(found);
        }
        Err(end.with_keys(failed))
    }
}

fn check_unique<I: Eq + std::hash::Hash + std::fmt::Debug>(ids: &[I]) -> Result<()> {
    let mut seen = HashSet::with_capacity(ids.len());
    match ids.iter().find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => Err(Error::new(
            Kind::Invalid,
            format!("two keys of the call have the id {id:?}; ask for each key once"),
        )),
    }
}

impl<'a, S: Schema> IntoFuture for Get<'a, S> {
    type Output = Result<Found<S>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// The answer of a call.
#[non_exhaustive]
pub struct Found<S: Schema> {
    /// The values, in the order of the keys.
    pub values: Vec<(S::Id, S::Value)>,
    /// Of a [partial](Get::partial) call: keys without an answer, each with its reason.
    pub unanswered: Vec<(S::Id, String)>,
    /// Hosts whose last request had no reply, if a key has no answer.
    pub hosts: Vec<FailedHost>,
    /// Every change that landed longer ago than this is in all values. None: a server did not know.
    pub age: Option<Duration>,
}

impl<S: Schema> Found<S> {
    /// The value of an id.
    pub fn get(&self, id: &S::Id) -> Option<&S::Value> {
        let mut values = self.values.iter();
        values.find(|(of, _)| of == id).map(|(_, value)| value)
    }
}

impl<S: Schema> std::fmt::Debug for Found<S>
where
    S::Value: std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found")
            .field("values", &self.values)
            .field("unanswered", &self.unanswered)
            .field("hosts", &self.hosts)
            .field("age", &self.age)
            .finish()
    }
}
