//! The settings of a client.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::core::{ClientOptions, Core};
use super::transport::Security;
use super::{Client, Hosts, Mode, refresh};
use crate::net::Dial;
use crate::{Result, Schema};

/// The bounds of [`ClientBuilder::refresh_every`].
const REFRESH_MIN: Duration = Duration::from_millis(10);
const REFRESH_MAX: Duration = Duration::from_hours(24);

/// The settings of a client.
#[derive(Debug)]
pub struct ClientBuilder<S> {
    hosts: Hosts,
    mode: Mode,
    seed: Option<u64>,
    service: Arc<str>,
    options: ClientOptions,
    schema: PhantomData<fn() -> S>,
}

impl<S: Schema> ClientBuilder<S> {
    pub(crate) fn new(hosts: Hosts) -> Self {
        Self {
            hosts,
            mode: Mode::default(),
            seed: None,
            service: S::NAME.into(),
            options: ClientOptions {
                preferred_dc: None,
                refresh_every: Duration::from_secs(5),
                reply_bytes_max: 4 << 20,
                security: Security::default(),
                dial: None,
            },
            schema: PhantomData,
        }
    }

    /// Which replicas a call asks. Default: [`Mode::Hedged`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The name of the service. Default: that of the schema. For tools that ask the hosts of any service what
    /// they hold ([`Client::hosts`]).
    #[must_use]
    pub fn service(mut self, name: impl Into<Arc<str>>) -> Self {
        self.service = name.into();
        self
    }

    /// The data centre whose servers are asked first.
    #[must_use]
    pub fn prefer_dc(mut self, dc: impl Into<String>) -> Self {
        self.options.preferred_dc = Some(dc.into());
        self
    }

    /// How often hosts are asked for anew, and silent ones asked what they hold. Default: 5 s, give or take a
    /// fifth. At least 10 ms, and a day at most.
    #[must_use]
    pub fn refresh_every(mut self, every: Duration) -> Self {
        self.options.refresh_every = every.clamp(REFRESH_MIN, REFRESH_MAX);
        self
    }

    /// The greatest reply that is read, in bytes. Default: 4 MiB. Servers cut their replies below that.
    #[must_use]
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.options.reply_bytes_max = bytes;
        self
    }

    /// The token of each request.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.options.security.token = Some(token.into());
        self
    }

    /// TLS, with servers' certificates checked by those of these authorities, as PEM.
    #[must_use]
    pub fn tls(mut self, authorities: impl Into<String>) -> Self {
        self.options.security.authorities = Some(authorities.into());
        self
    }

    /// The client's own certificate and its key, as PEM. Only with [`ClientBuilder::tls`].
    #[must_use]
    pub fn identity(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.options.security.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Connections that are not those of the machine.
    #[must_use]
    pub fn dial(mut self, dial: impl Dial) -> Self {
        self.options.dial = Some(Arc::new(dial));
        self
    }

    /// The seed of the pauses between refreshes, for tests. Default: random.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The client. It begins to ask the hosts, in the runtime of the caller. The first calls wait for their
    /// replies.
    ///
    /// # Errors
    /// `Invalid`: a setting can't be used.
    pub fn build(self) -> Result<Client<S>> {
        let core = Arc::new(Core::new::<S::Wire>(self.service, self.options)?);
        // Token and certificates are the same for all hosts.
        core.endpoint("127.0.0.1:1")?;
        let seed = self.seed.unwrap_or_else(rand::random);
        tokio::spawn(refresh::run(Arc::downgrade(&core), self.hosts, seed));
        Ok(Client {
            core,
            mode: self.mode,
            schema: PhantomData,
        })
    }
}
