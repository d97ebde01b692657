//! The words that all crates of the storage share. No input or output happens here.
//!
//! | module | words |
//! | --- | --- |
//! | [`name`] | [`Owner`], [`Scope`], [`Field`], [`Partition`]: who data belongs to |
//! | [`version`] | [`Version`], [`Epoch`], [`Timestamp`]: numbers that order things |
//! | [`database`] | [`DatabaseId`]: which database server a commit was made on |
//! | [`mutation`] | [`Mutation`], [`Change`], [`Condition`], [`Applied`]: what a write asks for and what it did |
//! | [`cell`] | [`Cell`], [`Row`]: what a field holds, hot and cold |
//! | [`outcome`] | [`Outcome`], [`Retry`]: what a caller can do about an error |
//! | [`durability`] | [`Durability`]: how safe a write is to be before it is acknowledged |
//! | [`limits`] | [`Limits`]: the largest names, values and calls |
//! | [`clock`] | [`Clock`]: where time comes from |
//! | [`pairing`] | [`Token`], [`Paired`]: which hot tier and which database belong together |
//! | [`session`] | [`Fence`]: what tells one session of an owner from all others |
//! | [`ids`] | [`OpId`], [`Ids`]: what makes a mutation recognisable |
//! | [`unreachable`](mod@unreachable) | why a server can't be reached |
//! | [`sabotage`] | rules broken on purpose, in tests |

pub mod cell;
pub mod clock;
pub mod database;
pub mod durability;
pub mod ids;
pub mod limits;
pub mod mutation;
pub mod name;
pub mod outcome;
pub mod pairing;
pub mod sabotage;
pub mod session;
pub mod unreachable;
pub mod version;

pub use bytes::Bytes;
pub use cell::{Cell, Row};
pub use clock::{Clock, ManualClock, SystemClock};
pub use database::DatabaseId;
pub use durability::Durability;
pub use ids::{Ids, OpId, RandomIds, SeededIds};
pub use limits::{LimitError, Limits};
pub use mutation::{Applied, Attempt, Change, Condition, Mutation};
pub use name::{Field, NameError, Owner, Partition, Scope};
pub use outcome::{Outcome, Retry};
pub use pairing::{LAYOUT, Paired, Token};
pub use session::Fence;
pub use unreachable::{is_failed_handshake, is_unknown_host};
pub use version::{Epoch, Timestamp, Version};
