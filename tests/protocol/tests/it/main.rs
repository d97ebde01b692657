//! The searches that fit a test: one binary, a module a model.

mod calls;
mod pairing;
mod protocol;
mod sessions;
