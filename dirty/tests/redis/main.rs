//! The Redis engine, on servers that the tests start.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

mod aof;
mod barriers;
mod calls;
mod clocks;
mod cluster;
mod conformance;
mod connections;
mod counts;
mod graces;
mod greetings;
mod landing;
mod lapses;
mod loads;
mod memory_limit;
mod notes;
mod observing;
mod outages;
mod prefixes;
mod queue;
mod refusals;
mod sentinel;
mod spoilt;
mod support;
mod transact;
mod versions;
mod worst;
mod writes;
