//! The searches that fit a test: one module for each model.

mod calls;
mod copies;
mod feed;
mod form;
mod groups;
mod hooks;
mod lapse;
mod lists;
mod pairing;
mod protocol;
mod sessions;
mod shards;
mod sweep;
