//! A small game on several game servers. Players log in, trade inside a guild, move between servers,
//! and survive a killed server.
//!
//! | module | concept |
//! | --- | --- |
//! | [`profile`] | [`Profile`](profile::Profile): the part of a player that a session holds |
//! | [`bag`] | [`Bags`](bag::Bags): gold and items, changed by transactions alone |
//! | [`game`] | [`Game`](game::Game): the rules |
//! | [`server`] | the process of a game server |
//! | [`drive`] | the driver: it starts all processes, plays, kills a server, and counts |

pub mod bag;
pub mod drive;
pub mod game;
pub mod profile;
pub mod server;
