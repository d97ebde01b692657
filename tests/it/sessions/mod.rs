//! Sessions: one server at a time writes an owner (S1 to S8, S16, S17, S19).

mod conflicts;
mod edits;
mod entities;
mod forgetting;
mod links;
mod processes;
mod rig;
