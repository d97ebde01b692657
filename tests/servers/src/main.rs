//! Starts a Redis and a MariaDB for a developer, prints their URLs, and keeps them until the
//! standard input ends.

use std::io;

use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};

/// The text of `--help`, and of any argument, because there are none.
const HELP: &str = "\
Starts a Redis and a MariaDB on free ports of 127.0.0.1 and prints the lines of a settings file.
Both end, and their data is deleted, when the standard input ends: Ctrl-D or Ctrl-C.

usage: storage-servers";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    if let Some(argument) = std::env::args().nth(1) {
        println!("{HELP}");
        let asked = matches!(argument.as_str(), "--help" | "-h");
        anyhow::ensure!(asked, "{argument:?} is no argument of this program");
        return Ok(());
    }
    let hot = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let cold = MariaDbServer::start(MariaDbOptions::default()).await?;
    for (key, url, folder) in [
        ("redis.url", hot.url(), hot.folder()),
        ("sql.url", cold.url(), cold.folder()),
    ] {
        println!("{key} = \"{url}\" # {}", folder.display());
    }
    eprintln!("Both run until the standard input ends: Ctrl-D.");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
