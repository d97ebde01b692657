//! One MariaDB or MySQL.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::{
    node::{Launch, Node, node_calls},
    program,
};

/// Debian's packages of the server, the program that makes its data folder, and the client.
const PACKAGES: &str = "mariadb-server";
/// The database of [`MariaDbServer::url`], and the name of its user.
const NAME: &str = "storage";
/// The password of that user.
const PASSWORD: &str = "secret";

/// The options of a MariaDB.
#[derive(Debug, Clone)]
pub struct MariaDbOptions {
    /// The server's program, a path or a name in `PATH`: MariaDB's or MySQL's. Default: `mariadbd`,
    /// else `mysqld`.
    pub program: Option<PathBuf>,
    /// `innodb_flush_log_at_trx_commit`: 1 syncs at each commit. 2 can lose the last second in a
    /// crash of the machine, and 0 in a crash of the server. Default: 1.
    pub flush_log_at_trx_commit: u8,
    /// More arguments of the command line, such as `["--sql-mode="]`. Default: none.
    pub args: Vec<String>,
}

impl Default for MariaDbOptions {
    fn default() -> Self {
        Self {
            program: None,
            flush_log_at_trx_commit: 1,
            args: Vec::new(),
        }
    }
}

/// A running MariaDB or MySQL with a folder of its own. Dropping it kills the server and removes
/// the folder.
///
/// The user of [`url`](Self::url) has all rights inside its databases and none on the server.
/// [`sql`](Self::sql) runs as root.
pub struct MariaDbServer {
    node: Node,
    client: PathBuf,
}

/// The folder of a server's files. A server that is meant to forget commits when it is killed keeps
/// them on a disk: MariaDB maps a log in `/dev/shm` into its memory, and then a kill loses nothing.
fn folder_for(options: &MariaDbOptions) -> std::io::Result<TempDir> {
    const PREFIX: &str = "storage-mariadb-";
    if options.flush_log_at_trx_commit == 1 {
        return TempDir::with_prefix(PREFIX);
    }
    TempDir::with_prefix_in(PREFIX, "/var/tmp")
}

impl MariaDbServer {
    /// Makes a data folder, starts the server on a free port, and returns when the database
    /// `storage` accepts its user. This takes about a second. Tests that share a server take a
    /// [`fresh_database`](Self::fresh_database) each.
    ///
    /// # Errors
    /// [`Missing`](crate::Missing) if a program is not installed. Otherwise the server's own
    /// message.
    ///
    /// # Cancel safety
    /// A cancelled start leaves no server. A data folder that is being made is finished first.
    pub async fn start(options: MariaDbOptions) -> Result<Self> {
        let server = match &options.program {
            Some(program) => program::find(&[program], PACKAGES)?,
            None => program::find(&[Path::new("mariadbd"), Path::new("mysqld")], PACKAGES)?,
        };
        let client = program::find(&[Path::new("mariadb"), Path::new("mysql")], PACKAGES)?;
        let kind = Kind::of(&server).await?;
        let folder = folder_for(&options).context("cannot make a temporary folder")?;
        let folder = kind.install(&server, folder).await?;
        fs::write(folder.path().join("init.sql"), init_sql())?;
        let node = Node::start(folder, |port, folder| {
            let args = kind.args(&options, port, folder);
            Ok(Launch {
                program: server.clone(),
                args,
                ready: "ready for connections",
            })
        })
        .await?;
        Ok(Self { node, client })
    }

    node_calls!();

    /// `mysql://storage:secret@127.0.0.1:PORT/storage`: the database that every server begins with.
    pub fn url(&self) -> String {
        self.url_of(NAME)
    }

    /// The server's own unix socket, where root needs no password.
    pub fn socket(&self) -> PathBuf {
        socket(self.folder())
    }

    /// Makes another empty database for the same user, and returns its URL. A database of that name
    /// is dropped first.
    ///
    /// # Errors
    /// The name is not 1 to 64 letters, digits and `_`, or [`sql`](Self::sql) fails.
    ///
    /// # Cancel safety
    /// The server may or may not have made the database of a cancelled call.
    pub async fn fresh_database(&self, name: &str) -> Result<String> {
        let valid = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !valid {
            bail!("the name of a database is 1 to 64 letters, digits and '_', not {name:?}");
        }
        // In the database part of a grant, '_' matches any character.
        let pattern = name.replace('_', "\\_");
        let create = format!("DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}`;");
        self.sql(&format!(
            "{create} GRANT ALL ON `{pattern}`.* TO '{NAME}'@'%';"
        ))
        .await?;
        Ok(self.url_of(name))
    }

    /// Runs statements as root and returns the output of the command line client: one line for each
    /// row, with tabs between the columns.
    ///
    /// # Errors
    /// The server is down, or rejects a statement. The message is the server's.
    ///
    /// # Cancel safety
    /// The statements of a cancelled call still run.
    pub async fn sql(&self, statements: &str) -> Result<String> {
        let mut command = Command::new(&self.client);
        command.args([
            "--no-defaults",
            "--user=root",
            "--batch",
            "--skip-column-names",
        ]);
        command
            .arg(format!("--socket={}", self.socket().display()))
            .args(["--execute", statements]);
        let output = run(command).await?;
        Ok(String::from_utf8(output.stdout)?)
    }

    fn url_of(&self, database: &str) -> String {
        format!(
            "mysql://{NAME}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port()
        )
    }
}

impl fmt::Debug for MariaDbServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MariaDbServer")
            .field("port", &self.port())
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

/// The two families. They differ in the making of a data folder and in a few arguments.
#[derive(Clone, Copy)]
enum Kind {
    MariaDb,
    MySql,
}

impl Kind {
    async fn of(server: &Path) -> Result<Self> {
        let mut command = Command::new(server);
        command.arg("--version");
        let version = run(command).await?;
        let is_mariadb = String::from_utf8_lossy(&version.stdout).contains("MariaDB");
        Ok(if is_mariadb {
            Self::MariaDb
        } else {
            Self::MySql
        })
    }

    /// Makes the data folder in `folder`. It takes the folder along, so that a cancelled start
    /// can't remove the folder in the meantime.
    async fn install(self, server: &Path, folder: TempDir) -> Result<TempDir> {
        let mut command = match self {
            Self::MariaDb => {
                let names = [
                    Path::new("mariadb-install-db"),
                    Path::new("mysql_install_db"),
                ];
                let mut command = Command::new(program::find(&names, PACKAGES)?);
                command.args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ]);
                command
            }
            Self::MySql => {
                let mut command = Command::new(server);
                command.args(["--no-defaults", "--initialize-insecure"]);
                command
            }
        };
        command
            .args(self.size_args())
            .arg(format!("--datadir={}", data(folder.path()).display()))
            .args(user_args());
        command.arg(tmpdir_arg(folder.path()));
        spawn_blocking(move || check(command).map(|_| folder)).await?
    }

    fn args(self, options: &MariaDbOptions, port: u16, folder: &Path) -> Vec<String> {
        let mut args = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", data(folder).display()),
            format!("--socket={}", socket(folder).display()),
            tmpdir_arg(folder),
            format!("--pid-file={}", folder.join("pid").display()),
            format!("--init-file={}", folder.join("init.sql").display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={port}"),
            "--skip-name-resolve".to_owned(),
            "--skip-log-bin".to_owned(),
            "--innodb-buffer-pool-size=32M".to_owned(),
            // Many concurrent servers would use up the machine's asynchronous requests.
            "--innodb-use-native-aio=0".to_owned(),
            format!(
                "--innodb-flush-log-at-trx-commit={}",
                options.flush_log_at_trx_commit
            ),
        ];
        args.extend(self.size_args().iter().map(|&arg| arg.to_owned()));
        if matches!(self, Self::MySql) {
            args.extend(["--mysqlx=OFF", "--secure-file-priv=NULL"].map(str::to_owned));
        }
        args.extend(user_args().iter().map(|&arg| arg.to_owned()));
        args.extend(options.args.iter().cloned());
        args
    }

    /// A redo log that is quickly made. It is equal for the data folder and the server.
    fn size_args(self) -> &'static [&'static str] {
        match self {
            Self::MariaDb => &["--innodb-log-file-size=32M"],
            Self::MySql => &[],
        }
    }
}

/// Runs at each start, before the server says that it is ready.
fn init_sql() -> String {
    format!(
        "CREATE DATABASE IF NOT EXISTS `{NAME}`;\n\
         CREATE USER IF NOT EXISTS '{NAME}'@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON `{NAME}`.* TO '{NAME}'@'%';\n"
    )
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("mysql.sock")
}

/// A server that starts removes every file that looks like an old temporary table. So two servers
/// must not share a folder for them.
fn tmpdir_arg(folder: &Path) -> String {
    format!("--tmpdir={}", folder.display())
}

/// The servers run as root only with an explicit argument.
fn user_args() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &["--user=root"]
    } else {
        &[]
    }
}

async fn run(command: Command) -> Result<Output> {
    spawn_blocking(move || check(command)).await?
}

/// Runs a program to its end. If it fails, the error contains its output.
fn check(mut command: Command) -> Result<Output> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {}", output.status, said.trim());
    }
    Ok(output)
}
