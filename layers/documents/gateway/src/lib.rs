//! The `document-gateway` program: documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | the options of the program |
//! | [`serve`] | [`Gateway`](serve::Gateway): the address, the tasks, the orderly end |
//! | [`routes`] | the resources, and who may use them |
//! | [`content`] | the methods of `/content/{path}` |
//! | [`list`] | pages of collections |
//! | [`feed`], [`follower`] | the live feed as server-sent events, and one client of it |
//! | [`changes`] | the landed feed by pages, and the state of one change |
//! | [`headers`], [`parameters`] | what requests say beside their body |
//! | [`problem`] | errors as `application/problem+json` |

pub mod args;
pub mod changes;
pub mod content;
pub mod feed;
mod follower;
mod headers;
mod list;
mod parameters;
pub mod problem;
pub mod routes;
pub mod serve;
