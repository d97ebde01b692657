//! The Redis engine, on servers that the tests start.

mod cluster;
mod landing;
mod memory_limit;
mod outages;
mod refusals;
mod support;
mod writes;
