//! Torture, crash points and benchmarks of documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`bench`](mod@bench) | the layer beside bare handlers of the same work |
//! | [`torture`] | clients, faults, and an oracle |
//! | [`crash`] | a process that dies at each of its requests |
//! | [`edge`] | slow, silent and vanishing clients beside honest ones |
//! | [`restore`] | an older copy of the database that is put back |
//! | [`gateway`] | a gateway in a process of its own |
//! | [`events`] | the live feed as an `EventSource` reads it |

pub mod bench;
pub mod crash;
pub mod edge;
pub mod events;
pub mod gateway;
pub mod restore;
pub mod torture;
