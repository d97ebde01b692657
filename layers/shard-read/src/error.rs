//! Errors of a call.

use std::fmt;
use std::time::Duration;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Some keys have no answer: their servers are away, busy, or hold other keys. The same call may succeed
    /// later.
    Unanswered,
    /// No server had values as young as the call asked for, or had heard the event that it named. The same
    /// call may succeed later, or at once with a greater age.
    Stale,
    /// The call can't succeed: a key is there twice, or no server of this schema can read it.
    Invalid,
    /// The servers do not know this client. An operator must act.
    Denied,
}

/// A call without an answer to each key.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    keys: Vec<FailedKey>,
    hosts: Vec<FailedHost>,
    best_age: Option<Duration>,
}

/// A key without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedKey {
    /// Its id, as `Debug` shows it.
    pub id: String,
    /// Why it has no answer.
    pub reason: String,
}

/// A host that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedHost {
    /// Its address.
    pub address: String,
    /// Why it gave none, as it told last.
    pub reason: String,
}

/// So many keys are named in a text.
const NAMED_MAX: usize = 5;

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            keys: Vec::new(),
            hosts: Vec::new(),
            best_age: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    pub(crate) fn with_keys(mut self, keys: impl IntoIterator<Item = (String, String)>) -> Self {
        let keys = keys.into_iter();
        self.keys
            .extend(keys.map(|(id, reason)| FailedKey { id, reason }));
        self
    }

    pub(crate) fn with_hosts(mut self, hosts: impl IntoIterator<Item = (String, String)>) -> Self {
        let hosts = hosts.into_iter();
        self.hosts
            .extend(hosts.map(|(address, reason)| FailedHost { address, reason }));
        self
    }

    pub(crate) fn with_best_age(mut self, best_age: Option<Duration>) -> Self {
        self.best_age = best_age;
        self
    }

    /// What a caller can do.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The keys without an answer, with their reasons.
    #[must_use]
    pub fn keys(&self) -> &[FailedKey] {
        &self.keys
    }

    /// The hosts that gave no answer, with their reasons.
    #[must_use]
    pub fn hosts(&self) -> &[FailedHost] {
        &self.hosts
    }

    /// Of a `Stale` call: the least age that a server told. None: no server told its age.
    #[must_use]
    pub fn best_age(&self) -> Option<Duration> {
        self.best_age
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (at, key) in self.keys.iter().take(NAMED_MAX).enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            write!(f, "{before}{} ({})", key.id, key.reason)?;
        }
        if self.keys.len() > NAMED_MAX {
            write!(f, " and {} more", self.keys.len() - NAMED_MAX)?;
        }
        for host in &self.hosts {
            write!(f, "; {} said: {}", host.address, host.reason)?;
        }
        Ok(())
    }
}

/// For people, because a program whose `main` returns an error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} [{:?}]", self.kind)
    }
}
