//! Servers as processes of this program, and the roles that they play.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shard_read_server::{Claims, OwnerShard, Server};
use storage_config::Settings;
use storage_sdk::layer::ColdTier;
use storage_shard_read::owners::Owners;
use storage_shard_read::{Client, Hosts, Mode, Schema, ShardRange};
use storage_tests::bench::place::Place;
use storage_tests::bench::talk::{Talk, lines};

use super::blobs::{BlobShard, Blobs};
use super::echo;

/// The subcommands of the processes that the program starts of itself.
#[derive(Debug, clap::Subcommand)]
pub enum ServerRole {
    /// A server of blobs
    #[command(hide = true)]
    Blobs {
        /// The settings file
        #[arg(long)]
        config: PathBuf,
        /// The bytes of a value
        #[arg(long)]
        bytes: usize,
        /// Each such call stalls. 0: none
        #[arg(long, default_value = "0")]
        stall_every: u64,
        /// The number of the quarter of all keys. Without it, all keys
        #[arg(long)]
        quarter: Option<u64>,
    },
    /// A server of owners
    #[command(hide = true)]
    Owners {
        /// The settings file
        #[arg(long)]
        config: PathBuf,
        /// The most bytes of owners in memory
        #[arg(long)]
        memory: u64,
    },
    /// A bare server
    #[command(hide = true)]
    Echo {
        /// The settings file
        #[arg(long)]
        config: PathBuf,
        /// The bytes of a reply
        #[arg(long)]
        reply: usize,
    },
}

/// Plays a role until the standard input ends. Prints the address first.
///
/// # Errors
/// The server can't start.
pub async fn play(role: ServerRole) -> Result<()> {
    match role {
        ServerRole::Blobs {
            bytes,
            stall_every,
            quarter,
            ..
        } => {
            let range = quarter.map_or(Some(ShardRange::ALL), quarter_range);
            let claims = Claims::fixed(range.context("an empty range")?);
            let shard = BlobShard::new(bytes, stall_every);
            serve(Server::<Blobs>::builder(shard, claims)).await
        }
        ServerRole::Owners { config, memory } => {
            let cold = ColdTier::open(&Settings::load(&config)?).await?;
            let shard = OwnerShard::new(cold).memory_max(memory);
            let claims = Claims::fixed(ShardRange::ALL);
            serve(Server::<Owners>::builder(shard, claims)).await
        }
        ServerRole::Echo { reply, .. } => echo::serve(reply).await,
    }
}

/// A quarter of all sharding keys.
fn quarter_range(number: u64) -> Option<ShardRange> {
    let begin = number << 62;
    ShardRange::new(begin, begin.checked_add(1 << 62))
}

async fn serve<S: Schema>(builder: shard_read_server::ServerBuilder<S>) -> Result<()> {
    let server = builder.listen("127.0.0.1:0".parse()?).await?;
    println!("{}", server.address());
    let mut lines = lines();
    while lines.recv().await.is_some() {}
    Ok(())
}

/// A server, seen from its parent. It ends with this value.
#[derive(Debug)]
pub struct ServerProcess(Talk);

impl ServerProcess {
    /// Starts a server with this role.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(place: &Place, role: &str, args: &[String]) -> Result<Self> {
        Ok(Self(Talk::start(place, role, args).await?))
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.first()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.pid()
    }
}

/// A client of these servers, which knows all of them.
///
/// # Errors
/// They do not answer.
pub async fn client<S: Schema>(servers: &[ServerProcess], mode: Mode) -> Result<Client<S>> {
    let hosts = servers.iter().map(|server| server.address().to_owned());
    let client = Client::<S>::builder(Hosts::list(hosts))
        .mode(mode)
        .build()?;
    let is_known = || {
        let hosts = client.hosts();
        let told = hosts.iter().filter_map(|host| host.shard.as_ref());
        told.filter(|shard| shard.state.answers()).count() == servers.len()
    };
    let known = async {
        while !is_known() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    storage_tests::bounded("all servers serve", known).await?;
    Ok(client)
}

/// Between two looks at servers that start.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A call that takes longer has failed.
pub const DEADLINE: Duration = Duration::from_secs(20);
