//! What the settings promise, seen from outside.

mod environment;
mod files;
mod messages;
mod safety;
mod secrets;
mod sinks;
mod urls;
