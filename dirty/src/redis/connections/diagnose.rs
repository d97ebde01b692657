//! Why a server closes each new connection: it says so by itself, or a proxy does not know a
//! command.
//!
//! The driver learns only that the connection broke. So a second connection, without the driver,
//! listens before it speaks, and then sends the commands of a greeting one by one.

use std::time::Duration;

use redis::{Cmd, ConnectionAddr, ConnectionInfo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::redis::error::Failure;

/// How long a server that rejects a client may take to say so.
const LISTEN: Duration = Duration::from_millis(100);
/// How long it may take to answer a command.
const ANSWER: Duration = Duration::from_millis(500);
/// A restart also closes a connection on a command, but not twice on the same one.
const ROUNDS: usize = 2;

/// The cause of a connection that broke before its first answer, if it can be found out.
pub(in crate::redis) async fn diagnose(info: &ConnectionInfo) -> Option<Failure> {
    let mut closes_on = None;
    for _ in 0..ROUNDS {
        let heard = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let opened = timeout(ANSWER, TcpStream::connect((host.as_str(), *port)));
                converse(opened.await.ok()?.ok()?, info).await?
            }
            ConnectionAddr::Unix(path) => {
                let opened = timeout(ANSWER, UnixStream::connect(path));
                converse(opened.await.ok()?.ok()?, info).await?
            }
            // Before its handshake a server with TLS says nothing that can be read.
            _ => return None,
        };
        match heard {
            Diagnosis::Refusal(refusal) => return Some(refusal),
            Diagnosis::Closes(command) if closes_on.is_none_or(|before| before == command) => {
                closes_on = Some(command);
            }
            Diagnosis::Closes(_) => return None,
        }
    }
    closes_on.map(|command| {
        Failure::Settings(format!(
            "{} closes the connection on {command}: that is a proxy which does not know the command; set redis.url to the Redis or Valkey server itself",
            info.addr()
        ))
    })
}

enum Diagnosis {
    /// The server rejects the client before it has asked anything.
    Refusal(Failure),
    /// It answers PING, and closes the connection on this command.
    Closes(&'static str),
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    info: &ConnectionInfo,
) -> Option<Diagnosis> {
    if let Ok(read) = timeout(LISTEN, line(&mut stream)).await {
        return refusal(&read?).map(Diagnosis::Refusal);
    }
    let ping = ask(&mut stream, &redis::cmd("PING")).await?;
    if let Some(refusal) = refusal(&ping).filter(|refusal| !refusal.text().starts_with("NO")) {
        return Some(Diagnosis::Refusal(refusal));
    }
    for (name, command) in greeting(info) {
        if ask(&mut stream, &command).await.is_none() {
            return Some(Diagnosis::Closes(name));
        }
    }
    None
}

/// The commands that a new connection begins with.
fn greeting(info: &ConnectionInfo) -> Vec<(&'static str, Cmd)> {
    let settings = info.redis_settings();
    let mut all = Vec::new();
    let mut add = |name: &'static str, args: &[&str]| {
        let mut command = redis::cmd(name);
        command.arg(args);
        all.push((name, command));
    };
    if let Some(password) = settings.password() {
        match settings.username() {
            Some(user) => add("AUTH", &[user, password]),
            None => add("AUTH", &[password]),
        }
    }
    if settings.db() != 0 {
        add("SELECT", &[&settings.db().to_string()]);
    }
    add("CLIENT", &["SETINFO", "LIB-NAME", "storage"]);
    add("INFO", &[]);
    add("SCRIPT", &["LOAD", "return 1"]);
    all
}

/// The first bytes of the answer to a command. `None` if the connection is closed instead.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), command: &Cmd) -> Option<String> {
    stream.write_all(&command.get_packed_command()).await.ok()?;
    match timeout(ANSWER, line(stream)).await {
        Ok(answer) => answer,
        // A server that hangs has not closed the connection.
        Err(_) => Some(String::new()),
    }
}

async fn line(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut buffer = vec![0; 16 << 10];
    match stream.read(&mut buffer).await {
        Ok(read) if read > 0 => {
            let text = String::from_utf8_lossy(buffer.get(..read)?);
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        _ => None,
    }
}

/// The rejection that a line is.
fn refusal(line: &str) -> Option<Failure> {
    let (code, text) = line.strip_prefix('-')?.split_once(' ')?;
    Some(Failure::answered(code, text))
}
