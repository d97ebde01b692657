//! Sessions: one server at a time writes an owner (S1 to S8, S16, S17, S19).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

mod conflicts;
mod edits;
mod entities;
mod forgetting;
mod links;
mod processes;
mod rig;
