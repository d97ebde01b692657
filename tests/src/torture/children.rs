//! Game servers and landing workers as processes: the same program under a hidden subcommand.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// How long a process may take to end when it was asked to.
const PATIENCE: Duration = Duration::from_secs(90);

/// What every child is started with.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program itself.
    pub path: PathBuf,
    /// Where its log goes.
    pub folder: PathBuf,
}

/// A process. It ends when its standard input does, so none outlives the run.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Running {
    /// Starts the program with these arguments and variables; what it prints goes to `log` in the
    /// folder of the run.
    ///
    /// # Errors
    /// It can't be started.
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

    /// Its id, until it has been waited for.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
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

    /// Ends it with SIGKILL.
    ///
    /// # Errors
    /// It had ended by itself before.
    pub async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Asks it to end with SIGTERM, and waits.
    ///
    /// # Errors
    /// It ended before, or does not end.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        Ok(timeout(PATIENCE, self.child.wait())
            .await
            .context("a process does not end after SIGTERM")??)
    }

    /// Lets its standard input end, and waits.
    ///
    /// # Errors
    /// It does not end.
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
