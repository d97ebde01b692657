//! A storage, its landing, and processes of the program beside it.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use storage_sdk::layer::ColdTier;
use storage_sdk::layer::claims::{ServiceName, ShardRow};
use storage_sdk::{ByteOwner, Storage};
use storage_shard_read::owners::Owners;
use storage_shard_read::{Client, Hosts, Schema as _};
use storage_tests::stack::mariadb;
use storage_tests::{Link, Stack, Worker, World, bounded};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shard-read");

/// A storage whose owners are served.
#[derive(Debug)]
pub(crate) struct Place {
    storage: Storage,
    /// The options of the database.
    source: [String; 2],
    folder: TempDir,
    servers: Option<DatabaseServers>,
}

/// What stands beside a storage on servers.
#[derive(Debug)]
struct DatabaseServers {
    _worker: Worker,
    /// Between the processes of the program and the database.
    link: Link,
}

/// A server in a process of its own. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

impl Place {
    pub(crate) async fn embedded() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("game.db");
        Ok(Self {
            storage: Storage::embedded(&file).await?,
            source: ["--embedded".to_owned(), file.display().to_string()],
            folder,
            servers: None,
        })
    }

    pub(crate) async fn on_servers() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let world = World::fresh().await?;
        let port = mariadb().await?.port();
        let link = Link::start(port).await?;
        let linked = world
            .text
            .replace(&format!(":{port}/"), &format!(":{}/", link.port()));
        ensure!(linked != world.text, "the database is not at {port}");
        let file = folder.path().join("storage.toml");
        std::fs::write(&file, linked)?;
        let stack = Stack::with(world).await?;
        let worker = stack.worker();
        Ok(Self {
            storage: stack.storage,
            source: ["--config".to_owned(), file.display().to_string()],
            folder,
            servers: Some(DatabaseServers {
                _worker: worker,
                link,
            }),
        })
    }

    /// The way of the program to the database. Only on servers.
    pub(crate) fn link(&self) -> Result<&Link> {
        let servers = self.servers.as_ref().context("a database server")?;
        Ok(&servers.link)
    }

    /// All claims, past the program.
    pub(crate) async fn claims(&self) -> Result<Vec<ShardRow>> {
        let cold = ColdTier::of(&self.storage);
        let claims = cold.layers().claims().context("claims")?;
        Ok(claims.list(&ServiceName::new(Owners::NAME)?, None).await?)
    }

    /// A file with this text.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text)?;
        Ok(file)
    }

    fn owner(&self, id: &str) -> Result<ByteOwner> {
        Ok(self
            .storage
            .world("game", "eu")?
            .bytes()
            .owner("player", id)?)
    }

    /// Writes players, and waits until they have landed.
    pub(crate) async fn write(&self, ids: impl IntoIterator<Item = u32>) -> Result<()> {
        for id in ids {
            let owner = self.owner(&id.to_string())?;
            owner.update([("gold", id.to_string())]).await?;
            bounded("the owner lands", async {
                Ok(owner.flush(Duration::from_secs(25)).await?)
            })
            .await?;
        }
        Ok(())
    }

    /// A command with the options of the database.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Output> {
        let (command, rest) = args.split_first().context("a command")?;
        run(&[&[*command, &self.source[0], &self.source[1]], rest].concat()).await
    }

    /// The printed text of a command that succeeds.
    pub(crate) async fn ok(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args).await?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A server that is found by its address, of a data centre. It renews often, and ends soon.
    pub(crate) async fn serve(&self, dc: &str, args: &[&str]) -> Result<Process> {
        let usual = [("--listen", "127.0.0.1:0"), ("--period", "100ms")];
        let usual = usual.iter().filter(|(name, _)| !args.contains(name));
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--dc", dc, "--drain", "500ms"])
            .args(&self.source)
            .args(usual.flat_map(|(name, value)| [name, value]))
            .args(args)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("its output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = bounded("the server listens", async { Ok(lines.next_line().await?) }).await?;
        let address = line.context("the server has ended")?;
        Ok(Process { child, address })
    }

    /// Waits until all keys of all data centres are served.
    pub(crate) async fn served(&self) -> Result<String> {
        self.ok(&["status", "--wait", "--deadline", "30s"]).await
    }
}

/// A command with these arguments alone.
pub(crate) async fn run(args: &[&str]) -> Result<Output> {
    Ok(Command::new(PROGRAM)
        .args(args)
        .kill_on_drop(true)
        .output()
        .await?)
}

/// A client of these servers.
pub(crate) fn client<'a>(servers: impl IntoIterator<Item = &'a Process>) -> Result<Client<Owners>> {
    let hosts = servers.into_iter().map(|server| server.address.clone());
    let client = Client::builder(Hosts::list(hosts));
    Ok(client.refresh_every(Duration::from_millis(100)).build()?)
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("the process has ended")?;
        let pid = Pid::from_raw(pid.try_into()?).context("a pid")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for its end, and tells its code.
    pub(crate) async fn code(&mut self) -> Result<Option<i32>> {
        bounded("the process ends", async {
            Ok(self.child.wait().await?.code())
        })
        .await
    }
}
