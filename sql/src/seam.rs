//! The place where tests see, hold and replace statements.

use std::fmt;

use async_trait::async_trait;

use crate::{ColdError, Statement};

/// Stands between the store and its connections. Every statement passes through it.
///
/// Either method can wait, which holds the statement or its reply back. An error breaks the
/// connection, as a lost network does.
#[async_trait]
pub trait Seam: Send + Sync + fmt::Debug {
    /// Called before a statement is sent. An error replaces the statement: it is not sent.
    async fn before(&self, statement: Statement) -> Result<(), ColdError>;

    /// Called after a statement was executed, before its reply is used. An error replaces the
    /// reply.
    async fn after(&self, statement: Statement) -> Result<(), ColdError>;
}

/// Lets everything pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSeam;

#[async_trait]
impl Seam for NoSeam {
    async fn before(&self, _: Statement) -> Result<(), ColdError> {
        Ok(())
    }

    async fn after(&self, _: Statement) -> Result<(), ColdError> {
        Ok(())
    }
}
