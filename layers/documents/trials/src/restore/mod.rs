//! An older copy of the database is put back, again and again, and a model knows what is stored then.
//!
//! | module | concept |
//! | --- | --- |
//! | [`run`](mod@run) | rounds of changes, copies, losses and restores |
//! | [`model`] | the documents, and the calls with a key |
//! | [`caller`] | one request, and its answer |

pub mod caller;
pub mod model;
pub mod run;

pub use run::run;
