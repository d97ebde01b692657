//! Starts Redis, Redis with Sentinels, Redis Cluster and MariaDB in temporary folders, for tests
//! and the demo.
//!
//! Every server listens on a free port of 127.0.0.1 and keeps its data in a folder of its own. It
//! dies with the process that started it, even when that process is killed with SIGKILL. The
//! library never uses or changes servers that already run on the machine.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
//!
//! let hot = RedisServer::start(RedisOptions { appendonly: true, ..RedisOptions::default() }).await?;
//! let cold = MariaDbServer::start(MariaDbOptions::default()).await?;
//! println!("{} {}", hot.url(), cold.url());
//!
//! hot.kill()?; // SIGKILL
//! hot.restart().await?; // same port, same folder: the append-only file restores the data
//! # Ok(())
//! # }
//! ```

mod clock;
mod cluster;
mod mariadb;
mod node;
mod port;
mod process;
mod program;
mod redis;
mod resp;
mod sentinel;
mod sentinel_process;
mod slot_move;
mod tls;
mod topology;
mod url;

pub use cluster::{ClusterOptions, RedisCluster};
pub use mariadb::{MariaDbOptions, MariaDbServer};
pub use program::Missing;
pub use redis::{RedisOptions, RedisServer};
pub use resp::Reply;
pub use sentinel::{RedisSentinel, SentinelOptions};
pub use sentinel_process::Sentinel;
pub use slot_move::SlotMove;
