//! The `document-gateway` program: documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | the options of the program |
//! | [`serve`] | [`Gateway`](serve::Gateway): the address, the tasks, the orderly end |
//! | [`routes`] | the resources, and who may use them |
//! | [`content`] | the methods of `/content/{path}` |
//! | [`feed`] | the live feed as server-sent events |
//! | [`problem`] | errors as `application/problem+json` |

pub mod args;
pub mod content;
pub mod feed;
pub mod problem;
pub mod routes;
pub mod serve;
