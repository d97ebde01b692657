//! One server process that dies with the process that started it.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// Becomes the server (`exec`), and leaves a watchdog beside it. The watchdog reads a pipe, and the
/// starter holds the other end. A line means that the starter has ended the server itself. The end
/// of the pipe means that the starter is dead, in any way. Then the watchdog kills the server and
/// removes its folder.
///
/// Linux's parent-death signal would need no shell. But it fires when the *thread* that started the
/// server ends, and a shared server outlives the test that started it.
const WATCHED: &str = r#"
folder=$1
shift
exec 3<&0 0</dev/null
{ read -r line <&3 || { kill -9 $$; rm -rf -- "$folder"; }; } >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

/// The longest time that a server can take to become ready, or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at a condition.
const POLL: Duration = Duration::from_millis(5);

/// A running server. Dropping it kills the server with SIGKILL.
pub(crate) struct Process {
    child: Child,
    watchdog: ChildStdin,
    log: PathBuf,
}

/// The reason why a server did not become ready.
pub(crate) enum NotReady {
    /// Another process has its port. Another port, or a later attempt, will succeed.
    PortTaken,
    /// Any other reason.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for NotReady {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Process {
    /// Starts `program` and waits until it writes `ready` to its log, `folder/log`.
    ///
    /// The log is the server's own. An answer on its port could come from another server.
    pub(crate) async fn start(
        program: &Path,
        args: &[String],
        folder: &Path,
        ready: &str,
    ) -> Result<Self, NotReady> {
        let mut process = Self::spawn(program, args, folder)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = process
                .child
                .try_wait()
                .context("cannot ask after the server")?;
            let log = process.read_log()?;
            if log.contains(ready) {
                return Ok(process);
            }
            if ended.is_some()
                && (log.contains("Address already in use")
                    || log.contains("Failed listening on port"))
            {
                return Err(NotReady::PortTaken);
            }
            if let Some(status) = ended {
                return Err(NotReady::Failed(anyhow!(
                    "{} ended with {status}; its log ends: {}",
                    program.display(),
                    tail(&log)
                )));
            }
            if Instant::now() > deadline {
                let error = anyhow!(
                    "{} is not ready after {PATIENCE:?}; its log ends: {}",
                    program.display(),
                    tail(&log)
                );
                return Err(NotReady::Failed(error));
            }
            sleep(POLL).await;
        }
    }

    fn spawn(program: &Path, args: &[String], folder: &Path) -> Result<Self> {
        let log = folder.join("log");
        let output =
            fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut child = Command::new("sh")
            .args(["-c", WATCHED, "sh"])
            .arg(folder)
            .arg(program)
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().context("cannot share the log")?)
            .stderr(output)
            .process_group(0) // Ctrl-C in the terminal reaches only the starter, which may still need its servers
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let watchdog = child
            .stdin
            .take()
            .context("a piped child has a standard input")?;
        Ok(Self {
            child,
            watchdog,
            log,
        })
    }

    /// The process id, since the shell has become the server. `None` if it has ended by itself.
    pub(crate) fn id(&mut self) -> Option<u32> {
        matches!(self.child.try_wait(), Ok(None)).then(|| self.child.id())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal process {}", self.child.id()))
    }

    /// Asks the server to stop (SIGTERM) and waits for its end.
    pub(crate) async fn stop(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "process {} did not stop in {PATIENCE:?} and was killed",
                    self.child.id()
                );
            }
            sleep(POLL).await;
        }
    }

    fn read_log(&self) -> Result<String> {
        let bytes =
            fs::read(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // ORDER: the watchdog ends before the process id is free, otherwise it could kill the id's
        // next owner.
        let _ = self.watchdog.write_all(b"\n");
        let _ = self.child.wait();
    }
}

/// The last lines of a log, on one line.
fn tail(log: &str) -> String {
    const LINES: usize = 8;
    let lines: Vec<&str> = log.lines().collect();
    lines
        .get(lines.len().saturating_sub(LINES)..)
        .unwrap_or_default()
        .join(" | ")
}
