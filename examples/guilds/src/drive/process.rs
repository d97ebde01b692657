//! A child process: this program under another subcommand.

use std::fs::File;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::stage::Stage;

/// A game server or a worker. It ends with its standard input, so it does not outlive the driver.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: tokio::process::Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts this program with these arguments and the settings of the stage.
    ///
    /// # Errors
    /// The process can't be started.
    pub fn start(args: &[&str], stage: &Stage) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // The file alone gives the settings. A variable could name the servers of a real game.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STORAGE__") {
                command.env_remove(name);
            }
        }
        command.args(args).arg("--config").arg(&stage.config);
        let log = File::options().create(true).append(true).open(&stage.log)?;
        command.env("NO_COLOR", "1").stderr(log);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = args.join(" ");
        let mut process = command
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} can't be started"))?;
        let output = process.stdout.take().context("the output is piped")?;
        Ok(Self {
            name,
            input: process.stdin.take(),
            output: BufReader::new(output).lines(),
            process,
        })
    }

    /// Waits for the next line of its output.
    ///
    /// # Errors
    /// It has ended.
    pub async fn line(&mut self) -> anyhow::Result<String> {
        let line = self.output.next_line().await?;
        line.with_context(|| format!("{} has ended too early", self.name))
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// It ends with a failure.
    pub async fn wait(&mut self) -> anyhow::Result<()> {
        let status = self.process.wait().await?;
        ensure!(status.success(), "{} has ended with {status}", self.name);
        Ok(())
    }

    /// Asks the process to end, and waits for that.
    ///
    /// # Errors
    /// It ends with a failure.
    pub async fn end(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        self.wait().await
    }

    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// It can't be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }
}
