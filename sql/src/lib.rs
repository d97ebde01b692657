//! The cold tier: versioned rows in MySQL, MariaDB or SQLite.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`ColdStore`]: what every engine promises |
//! | [`batch`] | [`Batch`], [`Fence`], [`Loaded`], [`PartitionRecord`]: what goes in and comes out |
//! | [`pairing`] | [`ColdPairing`], [`Pair`]: which hot tier the database belongs to |
//! | [`error`] | [`ColdError`], [`LandError`]: what a caller can do about a failure |
//! | [`options`] | [`ColdOptions`]: which database, and how to reach it |
//! | [`open`](mod@open) | [`open()`], [`migrate()`]: from options to a store |
//! | [`schema`] | [`SchemaState`]: whether tables and program fit |
//! | [`seam`] | [`Seam`]: where tests see, hold and replace statements |
//! | `settings` | from the settings to [`ColdOptions`] |
//! | `statement`, `exec`, `pool`, `session` | the statements' texts, and the way of one to the database |
//! | `cold`, `read`, `owners`, `land`, `partition`, `split` | the one implementation that both engines share |
//! | `fault`, `classify` | what the database's error numbers mean |
//! | `mysql`, `sqlite` | the two engines: connecting, and speaking with the driver |
//! | `conformance` (feature) | the suite that every engine passes |

mod advice;
pub mod batch;
pub mod error;
pub mod open;
pub mod options;
pub mod schema;
pub mod seam;
pub mod store;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "conformance")]
pub mod conformance;

mod canary;
mod classify;
mod cold;
mod exec;
mod fault;
mod land;
mod mysql;
mod owners;
pub mod pairing;
mod partition;
mod pool;
mod read;
#[cfg(any(test, feature = "sabotage"))]
mod sabotage;
mod session;
mod settings;
mod split;
mod sqlite;
mod statement;

pub use batch::{Batch, Fence, Loaded, PartitionRecord, Raise, Raised};
pub use error::{ColdError, ColdKind, LandError, RowFault};
pub use open::{migrate, open, open_through, pending_sql, schema_state};
pub use options::{ColdOptions, Tls};
pub use pairing::{ColdPairing, Pair};
pub use schema::SchemaState;
pub use seam::{NoSeam, Seam};
pub use statement::Statement;
pub use store::ColdStore;
