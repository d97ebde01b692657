//! The `document-gateway` program: documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | the options of the program |
//! | [`serve`] | [`Gateway`](serve::Gateway): the address, the tasks, the orderly end |
//! | [`routes`] | the resources, and who may use them |
//! | [`content`] | the methods of `/content/{path}` |
//! | `methods` | the methods of documents, collections and items |
//! | `list` | pages of collections |
//! | [`feed`], `follower` | the live feed as server-sent events, and one client of it |
//! | `window` | the events that wait for slow clients |
//! | [`lines`] | export and import |
//! | `sweep` | the task that ends documents and removes items of deleted collections |
//! | [`figures`] | the page of metrics |
//! | [`changes`] | the landed feed by pages, and the state of one change |
//! | [`landed`] | one look at the end of the landed feed, for all that wait |
//! | `openapi` | the description of the resources |
//! | `headers`, `parameters`, `prefer`, `accept` | what requests say beside their body |
//! | `body`, `encoding` | bodies, and how they are packed on their way |
//! | [`problem`] | errors as `application/problem+json` |

mod accept;
pub mod args;
mod body;
pub mod changes;
pub mod content;
mod encoding;
pub mod feed;
pub mod figures;
mod follower;
mod headers;
pub mod landed;
pub mod lines;
mod list;
mod methods;
mod openapi;
mod parameters;
mod prefer;
pub mod problem;
pub mod routes;
pub mod serve;
mod sweep;
mod window;
