//! Sessions: one server at a time writes an owner.
//!
//! | file | concept |
//! | --- | --- |
//! | `object`, `bytes` | [`Session`] of an object, [`ByteSession`] of fields |
//! | `entities` | [`Entities`]: many sessions, opened on demand |
//! | `options`, `state` | how sessions begin and how they stand |
//! | `handle` | what both kinds of sessions share |
//! | `hold` | a session that this process holds; `content` is what it holds |
//! | `open`, `save`, `resume`, `end` | what happens to it |
//! | `holder`, `keep` | this process as a holder, and what it does by itself |
//! | `call` | calls of the hot tier that may be repeated |

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
