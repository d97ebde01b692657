//! The hot tier: owner hashes, dirty maps, snapshots, locks and error maps, on Redis or in memory.
