//! The common parts of the integration tests: servers, fresh worlds, workers, seeded play, a proxy,
//! and the database seen by plain SQL.

pub mod bench;
mod copy;
pub mod crash;
pub mod feed;
pub mod footprint;
pub mod game;
pub mod holder;
pub mod no_room;
pub mod program;
pub mod proxy;
pub mod reference;
pub mod rows;
pub mod sim;
pub mod size;
pub mod stack;
pub mod torture;
pub mod worker;

pub use copy::back_up;
pub use proxy::{Link, Proxy, Weather};
pub use rows::{StoredRow, rows};
pub use size::size;
pub use stack::{Stack, Worker, World, bounded, redis, until};
