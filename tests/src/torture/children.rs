//! Game servers and landing workers as processes: the same program under a hidden subcommand.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// The longest time that a process can take to end after a request.
const PATIENCE: Duration = Duration::from_secs(90);

/// The common inputs of all children.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program itself.
    pub path: PathBuf,
    /// The folder of their logs.
    pub folder: PathBuf,
}

/// A process. It ends with its standard input, so none outlives the run.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Running {
    /// Starts the program with these arguments and variables. Its output goes to `log` in the
    /// folder of the run.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn start(
        program: &Program,
        args: &[String],
        env: &[(&str, &str)],
        log: &str,
    ) -> Result<Self> {
        let path = program.folder.join(log);
        let output = std::fs::File::create(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let mut child = Command::new(&program.path)
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.path.display()))?;
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            stdin,
            log: path,
        })
    }

    /// Its id, until its end was waited for.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has ended by itself.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended by itself.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "a process ended by itself with {ended:?}: {}",
            self.tail()
        );
        let id = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Ok(kill_process(id.context("a process without id")?, signal)?)
    }

    /// Ends the process with SIGKILL.
    ///
    /// # Errors
    /// The process had ended by itself before.
    pub async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Asks the process to end with SIGTERM, and waits.
    ///
    /// # Errors
    /// The process ended before, or does not end.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        Ok(timeout(PATIENCE, self.child.wait())
            .await
            .context("a process does not end after SIGTERM")??)
    }

    /// Closes the standard input of the process, and waits.
    ///
    /// # Errors
    /// The process does not end.
    pub async fn close(&mut self) -> Result<ExitStatus> {
        drop(self.stdin.take());
        Ok(timeout(PATIENCE, self.child.wait())
            .await
            .context("a game server does not end")??)
    }

    /// The last lines of its log.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let name = self.log.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "{name}: {}",
            lines
                .get(lines.len().saturating_sub(5)..)
                .unwrap_or_default()
                .join(" | ")
        )
    }
}
