//! The simulator: the real SDK, hot tier and landing code on one thread and simulated time, over
//! models of Redis and of the database. One seed decides schedule, faults, clocks and sizes. The
//! same seed replays exactly.
//!
//! | module | concept |
//! | --- | --- |
//! | [`redis`] | the model of a Redis server |
//! | [`database`] | the model of the database |
//! | [`process`], [`network`] | processes that stop and die, and their connections |
//! | [`clock`] | a server's clock, which may be wrong |
//! | [`plan`], [`world`] | the plan of a seed; servers, game servers and workers |
//! | [`play`], [`guest`], [`nemesis`] | the actions of players and of guests with sessions, and the faults around them |
//! | [`oracle`] | the conditions that always hold, checked at each event |
//! | [`run`](mod@run), [`drain`], [`summary`] | one seed from its beginning to a verdict, its end, and many seeds together |
//! | [`chance`], [`fault`], [`point`] | the one source of chance, and its hits |

pub mod chance;
pub mod clock;
pub mod database;
pub mod drain;
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
