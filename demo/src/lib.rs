//! The demo: the whole system at work, checked three ways.
//!
//! Simulated game servers log players in, let them play, save and log out, while their writes land.
//! Then all cached players are evicted and hot-loaded. The players' own log, the rows by plain SQL
//! and the hot-loads must agree.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`] | the arguments of a play |
//! | [`game`] | [`game::play`]: the game servers and their progress |
//! | [`player`], [`log`] | one player: its actions, and its log of acknowledged states |
//! | [`verify`], [`rows`], [`difference`] | [`verify::compare`]: log, rows and hot-loads |
//! | [`embedded`] | the stage: one process and a SQLite file |
//! | [`progress`], [`table`] | the shown progress, and the printed result |
//!
//! The package `storage-demo-servers` lets the same game play on servers.

pub mod args;
pub mod difference;
pub mod embedded;
pub mod game;
pub mod log;
pub mod player;
pub mod progress;
pub mod rows;
pub mod table;
pub mod verify;
