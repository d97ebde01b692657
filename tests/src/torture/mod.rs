//! Faults on purpose, and an oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`history`] | what game servers did, line by line |
//! | [`play`] | a game server's process |
//! | [`oracle`] | what must be true of a history and of what is stored after it |
//! | [`value`], [`moment`] | values that say who wrote them; time that processes share |

pub mod history;
pub mod moment;
pub mod oracle;
pub mod play;
pub mod value;
