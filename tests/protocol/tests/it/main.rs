//! The searches that fit a test: one module for each model.

mod calls;
mod feed;
mod form;
mod groups;
mod hooks;
mod pairing;
mod protocol;
mod sessions;
mod sweep;
