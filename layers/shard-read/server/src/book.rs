//! The example of the book's chapter, compiled and run as a doc test.

#[doc = include_str!("../../../../book/src/layer-shard-read.md")]
struct ShardRead;
