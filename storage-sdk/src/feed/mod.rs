//! The feed: changes in their order, for followers.
//!
//! A write can carry a *note* ([`Write::note`](crate::Write::note),
//! [`Part::note`](crate::Part::note)). The note joins the stream of the owner's partition in the
//! same step as the change. Of the logic types in `feed.every_change`, each change leaves a note by
//! itself, which lists the changes ([`changes_of`]). A worker carries it into the event table, in
//! the same transaction as the row. A flush lands the row alone, and the worker brings the note
//! later.
//!
//! | reader | what it reads |
//! | --- | --- |
//! | [`Changes`] | landed events, each once and in the order of its partition. They are never taken back |
//! | [`Unlanded`] | a page of the notes that have not landed |
//! | [`Live`] | notes at once, before they land. They can be lost with the hot tier, which the reader is told |
//!
//! A [`Sink`] gets the landed events from the worker, which also keeps how far it has got.
//!
//! Events of one partition are in order. Owners of one group share a partition. Events of different
//! partitions have no order among each other.
//!
//! ```
//! # storage_doc::with_storage(async |storage| {
//! use storage_sdk::feed::{Content, Cursor};
//!
//! let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
//! let ack = ann.incr("gold", 5).note("won a duel").await?;
//!
//! let mut changes = storage.changes(Cursor::default());
//! let events = changes.next().await?; // once the change has landed
//! let Content::Note(note) = &events[0].content else { panic!() };
//! assert_eq!((note.version, &note.counters[..], &note.body[..]), (ack.version(), &[5][..], &b"won a duel"[..]));
//!
//! let stored = changes.cursor().to_string(); // where a later reader goes on
//! # assert!(storage.changes(stored.parse()?).try_next().await?.is_empty());
//! # Ok(()) });
//! ```

mod changes;
mod every_change;
mod live;
pub(crate) mod reader;
mod unlanded;

/// The attribute that an implementation of [`Sink`] carries.
pub use async_trait::async_trait;
pub use changes::Changes;
pub(crate) use every_change::body_of;
pub use every_change::changes_of;
pub use live::{Live, LiveEvent};
pub use storage_landing::{Sink, SinkError};
pub use storage_model::{
    Change, Content, Cursor, CursorTooOld, Epoch, Event, NoPosition, Note, Partition, Position,
    Token,
};
pub use unlanded::Unlanded;
