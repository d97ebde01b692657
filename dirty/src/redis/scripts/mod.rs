//! All scripts, and for each a function that makes its call.

mod arguments;
mod calls;
mod feed;
mod load;
mod lock;
mod marks;
mod mutation;
mod owner;
mod pairing;
mod partition;
mod probation;
mod registry;
#[cfg(any(test, feature = "sabotage"))]
mod sabotage;
mod script;
mod session;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use arguments::millis;
pub(crate) use calls::{CallNumber, end_call, forget_calls};
pub(crate) use feed::{read_notes, resync, trim_notes};
pub(crate) use load::{check_fill, fill, fill_part, observe};
pub(crate) use lock::{announce, holder_of, lock, renew, unlock};
pub(crate) use marks::{
    Head, MarkRef, RowRef, collect_linked, end_collect, links, reject, settle, snapshot, tear,
};
pub(crate) use mutation::{mutate, transact};
pub(crate) use owner::{evict, marked, read_names};
pub(crate) use pairing::{pair, pairing};
pub(crate) use partition::{adopt, part_state, peek, raise_landed, rights};
pub(crate) use probation::{expire, probation, requeue};
pub(crate) use registry::SCRIPTS;
pub(crate) use session::{
    LapseStep, ask_session, asked, beat, claim_session, close_session, end_grace, forget_lapsed,
    lapse, open_session, scan_sessions, sessions_of,
};
pub(crate) use update::{takes_update, update};
