//! A gateway or bare handlers as a process of this program, seen from the client.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use document_gateway::routes::PREFIX;
use storage_tests::bench::place::Place;
use storage_tests::bench::talk::Talk;

use super::http::Connection;

/// The token of callers. Bare handlers ask for none.
pub(super) const TOKEN: &str = "token-of-the-benchmark";

/// A process that serves HTTP. It ends with this value.
#[derive(Debug)]
pub struct Served {
    talk: Talk,
    address: SocketAddr,
}

impl Served {
    /// Starts a gateway.
    ///
    /// # Errors
    /// The gateway does not start.
    pub async fn gateway(place: &Place) -> Result<Self> {
        let token = place.program.folder.join("token");
        std::fs::write(&token, TOKEN)?;
        // Clients of a trial may rest for longer than those of a game.
        let args = ["--idle", "1h", "--token-file", &token.display().to_string()];
        Self::start(place, "gateway", &args.map(str::to_owned)).await
    }

    /// Starts bare handlers.
    ///
    /// # Errors
    /// They do not start.
    pub async fn bare(place: &Place) -> Result<Self> {
        let args = ["--database".to_owned(), place.database.clone()];
        Self::start(place, "bare", &args).await
    }

    async fn start(place: &Place, role: &str, args: &[String]) -> Result<Self> {
        let talk = Talk::start(place, role, args).await?;
        let address = talk.first().strip_prefix("http://").context("an address")?;
        Ok(Self {
            address: address.parse()?,
            talk,
        })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.talk.pid()
    }

    /// The URL of a resource.
    #[must_use]
    pub fn url(&self, resource: &str) -> String {
        format!("http://{}{PREFIX}/{resource}", self.address)
    }

    /// A connection to it.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address).await
    }
}
