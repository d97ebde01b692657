//! The conditions that always hold, checked at each event.
//!
//! The models tell the oracle the applied mutations in their order, and the committed rows. So the
//! oracle knows an outcome even if it is unknown to the caller. It compares every answer, read and
//! row with exactly one state. Only for data that a Redis lost by coming back older, it compares
//! with several.
//!
//! | module | concept |
//! | --- | --- |
//! | `slot` | `Slot`, `Change`: one field, and the effect of a mutation on it |
//! | `applied` | `Applied`: a mutation as the script that applied it saw it |
//! | `line` | `Line`: the states of one field through time |
//! | `book` | all owners, checked when mutations are applied and rows committed |
//! | `history` | `History`: all events, as the models report them |
//! | `answers` | the answers to callers, compared with the events |
//! | `sessions` | the holders of an owner, and the values with which its sessions began, saved and ended |
//! | `feed` | the notes of writes and their events |
//! | `marks` | R1 and R2 in the keys of the model of Redis |
//!
//! | check | where |
//! | --- | --- |
//! | V1 versions follow time | `book`: a later mutation has a greater version, also than the landed ones; `answers`: an ack's version is above all versions seen before |
//! | V2 final state | `history`: hot, cold and row are the last state |
//! | V3 counters | `book`: each answer of an increment is exact, each id is applied once, and never again after it has landed |
//! | V4 no regress | `answers`: a read shows nothing older than the data that was acknowledged, read or landed before it began |
//! | V5 marks and times to live; a hash without marks is as its rows | `marks` |
//! | V6 linearizable | `answers`: a read is the state of its version |
//! | V7 deletes | the same: a removed or purged field is a state |
//! | V8 liveness | the run: everything lands after the last fault |
//! | R16 whole owners | `book`, after each commit: the rows of an owner are a state that it had |
//! | S1 to S8, of sessions | `sessions` |
//! | F1 to F5, of the feed | `feed`: each event is of a noted write, and each change that has landed is told |
//! | V9 honest answers | `answers`: a write that was reported as not applied never is applied |

pub mod answers;
pub mod applied;
pub mod book;
mod feed;
pub mod history;
pub mod line;
pub mod marks;
pub mod sessions;
pub mod slot;

pub use answers::Begun;
pub use history::History;
