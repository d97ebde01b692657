//! The messages of `proto/shard_read.proto`, as `cargo run -p storage-shard-read --example generate` makes them.

#![expect(unreachable_pub, clippy::all, reason = "generated code")]

include!("generated/shard_read.v1.rs");

/// The compiled descriptors, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
