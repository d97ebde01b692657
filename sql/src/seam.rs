//! Where tests see, hold and replace statements.

use std::fmt;

use async_trait::async_trait;

use crate::{ColdError, Statement};

/// Stands between the store and its connections: every statement passes through it, with no way
/// around.
///
/// Either method may wait, which holds the statement or its reply up. An error breaks the
/// connection off, as a lost network does.
#[async_trait]
pub trait Seam: Send + Sync + fmt::Debug {
    /// Called before a statement is sent. An error takes the statement's place: it is not sent.
    async fn before(&self, statement: Statement) -> Result<(), ColdError>;

    /// Called after a statement was carried out, before its reply is used. An error takes the
    /// reply's place.
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
