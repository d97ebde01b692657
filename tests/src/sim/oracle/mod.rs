//! What must hold whatever happens, checked as it happens.
//!
//! The models tell the oracle which mutation was applied when, in which order, and which rows were
//! committed. So an outcome that the caller was told is unknown is known here, and every answer,
//! read and row is compared with exactly one state; with one of several only for what a Redis that
//! came back older had lost.
//!
//! | module | concept |
//! | --- | --- |
//! | `slot` | `Slot`, `Change`: one field, and what a mutation does to it |
//! | `applied` | `Applied`: a mutation as the script that applied it saw it |
//! | `line` | `Line`: the states that one field went through |
//! | `book` | all owners, checked as mutations are applied and rows committed |
//! | `history` | `History`: all that happens, as the models tell it |
//! | `answers` | what callers were told, against that |
//! | `sessions` | who held an owner, and what its sessions began, saved and ended with |
//! | `marks` | R1 and R2 in the keys of the model of Redis |
//!
//! | check | where |
//! | --- | --- |
//! | V1 versions follow time | `book`: a later mutation has a greater version, also than what had landed; `answers`: an ack's is above all that was seen before |
//! | V2 final state | `history`: hot, cold and row are the last state |
//! | V3 counters | `book`: each answer of an increment is exact, each id is applied once, and not again on top of what had landed |
//! | V4 no regress | `answers`: a read shows nothing older than what was acknowledged, read or landed before it began |
//! | V5 marks and times to live; a hash without marks is as its rows | `marks` |
//! | V6 linearizable | `answers`: a read is the state of its version |
//! | V7 deletes | the same: a removed or purged field is a state |
//! | V8 liveness | the run: everything lands after the last fault |
//! | S1 to S8, of sessions | `sessions` |
//! | V9 honest answers | `answers`: what was not applied never is |

pub mod answers;
pub mod applied;
pub mod book;
pub mod history;
pub mod line;
pub mod marks;
pub mod sessions;
pub mod slot;

pub use answers::Begun;
pub use history::History;
