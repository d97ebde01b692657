//! A gateway in a process of a trial's program.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use document_gateway::args::Args;
use document_gateway::serve::Gateway;
use storage_tests::torture::children::{Program, Running};
use tokio::signal::unix::{SignalKind, signal};

/// The token of callers of a [`Process`].
pub const TOKEN: &str = "trial";

/// The options of a gateway. Its port is one that the system chooses.
#[derive(Debug, Clone, clap::Args)]
pub struct GatewayArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Serves until SIGTERM, and ends in order. It prints its address first. It also ends when its
/// parent has died, because its standard input ends then.
///
/// # Errors
/// A tier is away, or the gateway does not end in order.
pub async fn serve(args: GatewayArgs) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let fixed = ["gateway", "--listen", "127.0.0.1:0"].map(str::to_owned);
    let args = Args::try_parse_from(fixed.into_iter().chain(args.options))?;
    let gateway = Gateway::open(&args).await?;
    println!("http://{}", gateway.address());
    // A thread of its own, since the runtime would wait for a read at its end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let _ = term.recv().await;
    gateway.close().await
}

/// A gateway on a file alone, seen from its parent.
#[derive(Debug)]
pub struct Process {
    /// Its process.
    pub running: Running,
    /// Its address.
    pub address: SocketAddr,
}

impl Process {
    /// Starts `exe`, this program or one with the hidden subcommand, in a folder, and waits until it
    /// serves the file `data.db` there.
    ///
    /// # Errors
    /// It does not serve.
    pub async fn start(exe: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        let file = |name: &str| folder.join(name).display().to_string();
        std::fs::write(folder.join("token"), TOKEN)?;
        let (data, token) = (file("data.db"), file("token"));
        let mut args = vec!["gateway", "--embedded", &data, "--token-file", &token];
        args.extend(options);
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let program = Program {
            path: exe.to_owned(),
            folder: folder.to_owned(),
        };
        let mut running = Running::start(&program, &args, &[], "gateway.log")?;
        let mut address = None;
        let serves = async || {
            ensure!(!running.has_ended()?, "a gateway ended: {}", running.tail());
            let log = std::fs::read_to_string(folder.join("gateway.log"))?;
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            address = whole
                .lines()
                .find_map(|line| line.strip_prefix("http://")?.parse().ok());
            Ok(address.is_some())
        };
        storage_tests::until("the gateway serves", serves).await?;
        Ok(Self {
            address: address.context("an address")?,
            running,
        })
    }

    /// The URL of a resource.
    #[must_use]
    pub fn url(&self, resource: &str) -> String {
        format!("http://{}/hyper-storage/{resource}", self.address)
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// It does not end in order.
    pub async fn close(mut self) -> Result<()> {
        let status = self.running.terminate().await?;
        ensure!(
            status.success(),
            "a gateway ended with {status}: {}",
            self.running.tail()
        );
        Ok(())
    }
}
