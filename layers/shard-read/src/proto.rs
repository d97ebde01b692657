//! The messages of `proto/shard_read.proto`, as `cargo run -p storage-shard-read --example generate` makes them.

#![expect(unreachable_pub, clippy::all, reason = "generated code")]
#![cfg_attr(
    not(feature = "owners"),
    expect(dead_code, reason = "the messages of the service of owners")
)]

include!("generated/shard_read.v1.rs");

/// The compiled descriptors, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
