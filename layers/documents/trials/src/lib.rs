//! Torture, crash points and benchmarks of documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`bench`](mod@bench) | the layer beside bare handlers of the same work |
//! | [`torture`] | clients, faults, and an oracle |
//! | [`crash`] | a process that dies at each of its requests |
//! | [`gateway`] | a gateway in a process of its own |

pub mod bench;
pub mod crash;
pub mod gateway;
pub mod torture;
