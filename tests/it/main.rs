//! The integration tests: one binary, a module a concern. Each starts what it needs on free ports.

mod bad_input;
mod claims;
mod cluster;
mod cold;
mod crash;
mod defects;
mod fuzz;
mod landing;
mod lost_replies;
mod minute;
mod objects;
mod one_bad_partition;
mod programs;
mod properties;
mod redis_lost;
mod round_trips;
mod rules;
mod sdk;
mod tls;
