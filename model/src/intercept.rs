//! The hook between an engine and its server.

use std::fmt;

use async_trait::async_trait;

/// Stands between an engine and its connections. Tests count, hold, lose and replace calls with it.
///
/// A call is a pipeline of commands of the hot tier, or one statement of the cold tier. `names` has
/// the names of its parts. Each method can wait, which holds the call or its answer back.
#[async_trait]
pub trait Intercept: Send + Sync + fmt::Debug {
    /// Runs before a call is sent. An error keeps it from being sent, like a connection that can't
    /// be opened.
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken>;

    /// Runs after a call was answered. An error loses the answer, like a connection that breaks.
    async fn after(&self, names: &[&'static str]) -> Result<(), Broken>;

    /// Whether an answered pipeline is sent once more, as if the network had repeated it. The
    /// second answers count. Statements are never repeated.
    async fn again(&self, _names: &[&'static str]) -> bool {
        false
    }
}

/// The error of an [`Intercept`] that breaks the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;
