//! The whole system in one process: claims in SQLite, servers and clients in a network within the process.

mod calls;
mod claims;
mod limits;
mod owners;
mod wire;
mod words;
mod world;
