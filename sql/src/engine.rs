//! The interface for a module with statements of its own, such as a layer above the rows.
//!
//! | need | item |
//! | --- | --- |
//! | declare a statement | [`statement!`], in a list `STATEMENTS` that `registry` names |
//! | a connection, a deadline, errors for callers | [`Database::read`], [`Database::write`] |
//! | run a statement | [`Exec::execute`], [`Exec::fetch`], [`Exec::visit`] |
//! | several statements in one transaction | [`Exec::transaction`] |
//! | the reaction to a failed statement | [`Fault`] and its class |
//! | prove that no epoch was raised | [`fence::hold`](crate::fence::hold) |
//! | rows in the transaction of a landing | [`Writer`](crate::writer::Writer), in `registry::hooks` as a [`Derive`](crate::hooks::Derive) |
//! | a change of the definitions of such rows | [`hooks::define`](crate::hooks::define) |
//! | lists of arguments | [`padded`], [`MANY_MAX`] |

pub(crate) use crate::database::Database;
pub(crate) use crate::exec::Exec;
pub(crate) use crate::fault::Fault;
pub(crate) use crate::session::{Arg, Engine, Record, Session};
pub(crate) use crate::split::{MANY_MAX, padded};
pub(crate) use crate::statement::{Statement, statement};
