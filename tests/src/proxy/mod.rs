//! TCP proxies between a client and a server.
//!
//! | module | concept |
//! | --- | --- |
//! | [`count`] | [`Proxy`]: counts round trips and bytes, and loses replies |
//! | [`link`] | [`Link`]: a connection through bad weather |

pub mod count;
pub mod link;

pub use count::Proxy;
pub use link::{Link, Weather};
