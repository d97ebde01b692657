//! A process of this program that gets orders line by line, and answers each with a line.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::place::Place;

/// The lines of the standard input. The process ends with it, and so with its parent.
#[must_use]
pub fn lines() -> UnboundedReceiver<String> {
    let (send, lines) = unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin()
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    lines
}

/// The process, seen from its parent.
#[derive(Debug)]
pub struct Talk {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    first: String,
}

impl Talk {
    /// Starts the program under a subcommand with the place's settings, and waits for its first
    /// line.
    ///
    /// # Errors
    /// The process does not start.
    pub async fn start(place: &Place, role: &str, args: &[String]) -> Result<Self> {
        let mut child = Command::new(&place.program.path)
            .args([role, "--config"])
            .arg(&place.config)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (
            child.stdin.take().context("a pipe")?,
            child.stdout.take().context("a pipe")?,
        );
        let mut talk = Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            first: String::new(),
        };
        talk.first = talk.answer().await?;
        Ok(talk)
    }

    /// Its first line.
    #[must_use]
    pub fn first(&self) -> &str {
        &self.first
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its answer to a line.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn ask(&mut self, line: &str) -> Result<String> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<String> {
        self.lines.next_line().await?.context("a process has ended")
    }
}
