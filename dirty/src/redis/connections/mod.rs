//! Connections: the addresses of the servers, the way of a command to one of them, and their state.
//!
//! | module | concept |
//! | --- | --- |
//! | `address` | the addresses of the settings, as the driver takes them |
//! | `transport` | one command and its answer, and [`Dial`](super::Dial), which opens connections |
//! | `router`, `topology`, `slot`, `space` | which node gets which command |
//! | `cluster`, `sentinel` | how the nodes are found |
//! | `connect`, `opening`, `lane`, `common` | one server: its connections, and the settings that all share |
//! | `server`, `rights` | a server's INFO, the rights that its user lacks |
//! | `unreached`, `diagnose` | the reasons why a server can't be reached, or closes connections |
//! | `barrier` | writes that wait for replicas or the disk, committed in groups |
//! | `guard` | partitions whose server was replaced (R14) |

pub(crate) mod address;
pub(in crate::redis) mod barrier;
pub(in crate::redis) mod cluster;
pub(in crate::redis) mod common;
pub(in crate::redis) mod connect;
pub(in crate::redis) mod diagnose;
pub(in crate::redis) mod guard;
pub(in crate::redis) mod lane;
pub(in crate::redis) mod opening;
pub(in crate::redis) mod rights;
pub(in crate::redis) mod router;
pub(in crate::redis) mod sentinel;
pub(in crate::redis) mod server;
pub(in crate::redis) mod slot;
pub(in crate::redis) mod space;
pub(in crate::redis) mod topology;
pub(in crate::redis) mod transport;
pub(in crate::redis) mod unreached;
