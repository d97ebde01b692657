//! The `document-gateway` program: documents over HTTP.
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | the options of the program |
//! | [`serve`] | [`Gateway`](serve::Gateway): the address, the tasks, the orderly end |
//! | [`limits`] | the threads and files that the system gives |
//! | `connections`, `activity`, `outlet` | connections: how many there are, when one ends, and what waits for its client |
//! | `strangers` | connections without a known caller, which end first |
//! | `tls` | TLS by the gateway itself |
//! | [`browsers`], [`tickets`] | pages of other origins, and their way to the live feed |
//! | [`proxies`] | what proxies on the way need to know |
//! | `front` | what surrounds the resources |
//! | `requests` | the id of each request |
//! | [`routes`] | the resources, and who may use them |
//! | [`shared`] | what all requests share |
//! | [`content`] | the methods of `/content/{path}` |
//! | `batch` | several requests in one |
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
//! | `words` | failures of the storage in words for callers |

mod accept;
mod activity;
pub mod args;
mod batch;
mod body;
pub mod browsers;
pub mod changes;
mod connections;
pub mod content;
mod encoding;
pub mod feed;
pub mod figures;
mod follower;
mod front;
mod headers;
pub mod landed;
pub mod limits;
pub mod lines;
mod list;
mod methods;
mod openapi;
mod outlet;
mod parameters;
mod prefer;
pub mod problem;
pub mod proxies;
mod requests;
pub mod routes;
pub mod serve;
pub mod shared;
mod strangers;
mod sweep;
pub mod tickets;
mod tls;
mod window;
mod words;
