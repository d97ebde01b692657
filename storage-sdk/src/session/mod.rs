//! Sessions: one server at a time writes an owner.
//!
//! | file | concept |
//! | --- | --- |
//! | `object`, `bytes` | [`Session`] of an object, [`ByteSession`] of fields |
//! | `entities` | [`Entities`]: many sessions, started on demand |
//! | `options`, `state` | how a session begins, and its state |
//! | `handle` | the shared part of both kinds of sessions |
//! | `hold` | a session that this process holds; `content` is its data |
//! | `open`, `save`, `resume`, `end` | the steps of a session's life |
//! | `holder`, `keep` | this process as a holder, and its background tasks |
//! | `call` | calls of the hot tier that are safe to repeat |

mod bytes;
mod call;
mod content;
mod end;
mod entities;
mod handle;
mod hold;
mod holder;
mod keep;
mod object;
mod open;
mod options;
mod resume;
mod save;
mod state;

pub use bytes::ByteSession;
pub use end::Closed;
pub use entities::{Entities, EntityOptions};
pub use handle::SaveSession;
pub(crate) use holder::Holder;
pub use object::{ObjectRef, Session, Sessions};
pub use options::{Autosave, OnConflict, Otherwise, SessionOptions};
pub use state::{LossReason, SessionState};
