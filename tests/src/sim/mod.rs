//! The simulator: the real SDK, hot tier and landing code on one thread and simulated time, over
//! models of Redis and of the database. One seed decides schedule, faults, clocks and sizes; the
//! same seed replays exactly.
//!
//! | module | concept |
//! | --- | --- |
//! | [`redis`] | the model of a Redis server |
//! | [`database`] | the model of the database |
//! | [`process`], [`network`] | processes that stop and die, and their connections |
//! | [`clock`] | a server's clock, which may be wrong |
//! | [`plan`], [`world`] | what a seed plays; servers, game servers and workers |
//! | [`play`], [`guest`], [`nemesis`] | what players do, and those who have sessions, and what happens to them |
//! | [`oracle`] | what must hold, checked as it happens |
//! | [`run`](mod@run), [`summary`] | one seed from its beginning to a verdict, and many of them together |
//! | [`chance`], [`fault`], [`point`] | the one source of chance, and what it hit |

pub mod chance;
pub mod clock;
pub mod database;
pub mod fault;
pub mod guest;
pub mod nemesis;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod play;
pub mod point;
pub mod process;
pub mod redis;
pub mod run;
pub mod summary;
pub mod world;
