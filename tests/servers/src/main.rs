//! Starts a Redis and a MariaDB for a developer, prints their URLs, and keeps them until the
//! standard input ends.

use std::io;

use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let hot = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let cold = MariaDbServer::start(MariaDbOptions::default()).await?;
    for (url, folder) in [(hot.url(), hot.folder()), (cold.url(), cold.folder())] {
        println!("{url} {}", folder.display());
    }
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
