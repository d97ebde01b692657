//! The types that all crates of the storage share. This crate does no input or output.
//!
//! | module | words |
//! | --- | --- |
//! | [`name`] | [`Owner`], [`Scope`], [`Field`], [`Partition`]: the names of data |
//! | [`version`] | [`Version`], [`Epoch`], [`Timestamp`]: numbers that order things |
//! | [`database`] | [`DatabaseId`]: the database server that made a commit |
//! | [`mutation`] | [`Mutation`], [`Change`], [`Condition`], [`Applied`]: a write and its result |
//! | [`cell`] | [`Cell`], [`Row`]: the state of a field, in both tiers |
//! | [`feed`] | [`Position`], [`Event`], [`Note`], [`Cursor`]: changes in their order |
//! | [`flush`] | [`Flushed`], [`Evicted`]: owners that land at once or leave the hot tier |
//! | [`outcome`] | [`Outcome`], [`Retry`]: how a caller can react to an error |
//! | [`durability`] | [`Durability`]: how safe a write must be before it is acknowledged |
//! | [`duration`] | durations as text |
//! | [`limits`] | [`Limits`]: the largest names, values and calls |
//! | [`times`] | [`DEADLINE_MAX`] and all other times that depend on each other |
//! | [`clock`] | [`Clock`]: the source of time |
//! | [`pairing`] | [`Token`], [`Paired`], [`HotId`], [`Stamp`]: the pairing of a hot tier with a database |
//! | [`sink`] | [`SinkName`]: the names of sinks, which get the events of the feed |
//! | [`session`] | [`Fence`]: the identity of one session of an owner |
//! | [`tries`] | how often each layer tries again |
//! | [`ids`] | [`OpId`], [`Ids`]: the ids by which mutations are recognised |
//! | [`unreachable`](mod@unreachable) | the reasons why a server can't be reached |
//! | [`intercept`] | [`Intercept`]: the hook of tests between an engine and its server |
//! | [`sabotage`] | rules broken on purpose, in tests |

pub mod cell;
pub mod clock;
pub mod database;
pub mod durability;
pub mod duration;
pub mod feed;
pub mod flush;
pub mod ids;
pub mod intercept;
pub mod limits;
pub mod mutation;
pub mod name;
pub mod outcome;
pub mod pairing;
pub mod sabotage;
pub mod session;
pub mod sink;
pub mod times;
pub mod tries;
pub mod unreachable;
pub mod version;

pub use bytes::Bytes;
pub use cell::{Cell, Row};
pub use clock::{Clock, ManualClock, SystemClock};
pub use database::DatabaseId;
pub use durability::{Durability, NoDurability};
pub use duration::parse_duration;
pub use feed::{Content, Cursor, CursorTooOld, Event, Lead, NoPosition, Note, Position};
pub use flush::{Evicted, Flushed};
pub use ids::{Ids, OpId, RandomIds, SeededIds};
pub use intercept::{Broken, Intercept};
pub use limits::{LimitError, Limits};
pub use mutation::{Applied, Attempt, Change, Condition, Mutation, OWNERS_MAX};
pub use name::{Field, NameError, Owner, Partition, Scope};
pub use outcome::{Outcome, Retry};
pub use pairing::{HotId, LAYOUT, Paired, Stamp, Token};
pub use session::Fence;
pub use sink::{NoSinkName, SinkName};
pub use times::{DEADLINE_MAX, ID_WINDOW};
pub use unreachable::{is_failed_handshake, is_unknown_host, limit_of};
pub use version::{Epoch, Timestamp, Version};
