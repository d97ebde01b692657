//! What a store may do to its database.

/// What a store may do to its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything. The first call creates the schema in an empty database.
    Creates,
    /// Everything, but only [`DatabaseStore::pair`](crate::DatabaseStore::pair) creates the schema.
    Pairs,
    /// Everything in the tables that are there. Nothing creates the schema, nor the file of the database.
    Writes,
    /// Nothing is written. The database is told so, and calls that would write fail.
    Reads,
}
