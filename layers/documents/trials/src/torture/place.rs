//! The place of a run: servers, links and workers of the core's torture, two gateways, and the
//! receiver of a sink.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use storage_tests::torture::arena::{Arena, GAME_SETTINGS};
use storage_tests::torture::children::{Program, Running};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::args::Args;
use super::client::Client;
use super::receiver::Receiver;
use crate::gateway::TOKEN;

/// The number of gateways.
pub const GATES: usize = 2;
/// How long a gateway may need to serve after all is well.
const PATIENCE: Duration = Duration::from_secs(60);
/// A gateway, with all its lives.
#[derive(Debug)]
pub struct Gate {
    address: RwLock<Option<String>>,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    running: Running,
    program: Program,
    args: Vec<String>,
    number: usize,
    generation: u32,
}

impl Life {
    fn log(&self) -> String {
        format!("gateway-{}-{}.log", self.number, self.generation)
    }

    fn restart(&mut self) -> Result<()> {
        self.generation += 1;
        self.running = Running::start(&self.program, &self.args, &[], &self.log())?;
        Ok(())
    }

    /// The address that the process has printed.
    fn printed(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.program.folder.join(self.log())).ok()?;
        let (whole, _) = log.rsplit_once('\n')?;
        let address = whole.lines().find(|line| line.starts_with("http://"));
        address.map(str::to_owned)
    }
}

impl Gate {
    /// Starts a gateway.
    ///
    /// # Errors
    /// The process can't be started.
    fn start(program: &Program, args: &[String], number: usize) -> Result<Self> {
        let log = format!("gateway-{number}-0.log");
        let life = Life {
            running: Running::start(program, args, &[], &log)?,
            program: program.clone(),
            args: args.to_vec(),
            number,
            generation: 0,
        };
        Ok(Self {
            address: RwLock::default(),
            life: Mutex::new(life),
        })
    }

    /// Its address, while it serves.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        self.address
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_address(&self, address: Option<String>) {
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Waits until it serves. A gateway that ended, because a tier was away, is started again.
    ///
    /// # Errors
    /// It does not serve after a minute.
    pub async fn serves(&self) -> Result<()> {
        let begun = Instant::now();
        let mut life = self.life.lock().await;
        loop {
            if let Some(address) = life.printed() {
                self.set_address(Some(address));
                return Ok(());
            }
            if life.running.has_ended()? {
                sleep(Duration::from_millis(100)).await;
                life.restart()?;
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "no gateway serves: {}",
                life.running.tail()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it in the middle of its work, and starts it again after a pause.
    ///
    /// # Errors
    /// It had ended by itself, or does not serve again.
    pub async fn kill(&self, pause: Duration) -> Result<()> {
        {
            let mut life = self.life.lock().await;
            life.running.kill().await?;
            self.set_address(None);
            sleep(pause).await;
            life.restart()?;
        }
        self.serves().await
    }

    /// Lets it stand still for a while. Clients keep its address.
    ///
    /// # Errors
    /// It had ended by itself.
    pub async fn stop_for(&self, pause: Duration) -> Result<()> {
        let mut life = self.life.lock().await;
        life.running.signal(Signal::STOP)?;
        sleep(pause).await;
        life.running.signal(Signal::CONT)
    }

    /// Asks it to end, and starts it again. Its storage may not close whole while a tier is away.
    ///
    /// # Errors
    /// It had ended by itself, does not end, or does not serve again.
    pub async fn reopen(&self) -> Result<()> {
        {
            let mut life = self.life.lock().await;
            life.running.terminate().await?;
            self.set_address(None);
            life.restart()?;
        }
        self.serves().await
    }

    /// Asks it to end for good. Returns why it did not end well.
    ///
    /// # Errors
    /// It had ended by itself, or does not end.
    pub async fn close(&self) -> Result<Option<String>> {
        let mut life = self.life.lock().await;
        let status = life.running.terminate().await?;
        let tail = || format!("a gateway ended with {status}: {}", life.running.tail());
        Ok((!status.success()).then(tail))
    }
}

/// Everything that a run starts.
#[derive(Debug)]
pub struct Place {
    /// Servers, links and workers.
    pub arena: Arena,
    /// The gateways.
    pub gates: Arc<[Arc<Gate>]>,
    /// The receiver of the sink.
    pub receiver: Receiver,
}

impl Place {
    /// Starts all of it. `exe` is this program, or one with its hidden subcommands.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start(args: &Args, exe: &Path) -> Result<Self> {
        let receiver = Receiver::start().await?;
        let sink = format!(
            "[sinks.trial]\nkind = \"webhook\"\nurl = {:?}\ntimeout = \"500ms\"\n",
            receiver.url()
        );
        let arena = Arena::without_games(&args.core(), &sink, exe).await?;
        let folder = arena.folder.path().to_owned();
        std::fs::write(folder.join("token"), TOKEN)?;
        let words = gateway_args(&folder);
        let program = arena.program(exe);
        let gates: Vec<Arc<Gate>> = (0..GATES)
            .map(|number| Gate::start(&program, &words, number).map(Arc::new))
            .collect::<Result<_>>()?;
        for gate in &gates {
            gate.serves().await?;
        }
        Ok(Self {
            arena,
            gates: gates.into(),
            receiver,
        })
    }

    /// A client of all gateways.
    #[must_use]
    pub fn client(&self) -> Client {
        // The client asks for it, also for plain HTTP. Another client of the process may have named it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(
            reqwest::Client::new(),
            Arc::clone(&self.gates),
            TOKEN.into(),
        )
    }

    /// A file of the run.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.arena.folder.path().join(name)
    }
}

fn gateway_args(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (config, token) = (file(GAME_SETTINGS), file("token"));
    let mut args = vec!["gateway", "--config", &config, "--token-file", &token];
    // Clients of a trial may rest for longer than those of a game.
    args.extend(["--idle", "1h"]);
    args.into_iter().map(str::to_owned).collect()
}
