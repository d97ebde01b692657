//! A service whose values cost nothing: bytes of one size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use shard_read_server::{Call, KeyOutcome, LoadError, Shard};
use storage_shard_read::{Malformed, Schema, ShardRange, StandardWire};

/// The schema of blobs. A key is a number, and its bits in reverse are its sharding key.
#[derive(Debug, Clone, Copy)]
pub struct Blobs;

impl Schema for Blobs {
    type Key = u64;
    type Id = u64;
    type Value = Bytes;
    type Wire = StandardWire;
    const NAME: &'static str = "blobs-1";

    fn sharding_key(key: &u64) -> u64 {
        key.reverse_bits()
    }

    fn id(key: &u64) -> u64 {
        *key
    }

    fn encode_key(key: &u64) -> Bytes {
        Bytes::copy_from_slice(&key.to_be_bytes())
    }

    fn decode_key(bytes: &[u8]) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(bytes.try_into()?))
    }

    fn encode_value(value: &Bytes) -> Bytes {
        value.clone()
    }

    fn decode_value(bytes: &[u8]) -> Result<Bytes, Malformed> {
        Ok(Bytes::copy_from_slice(bytes))
    }
}

/// Blobs of one size. Some calls stall.
#[derive(Debug)]
pub struct BlobShard {
    blob: Bytes,
    /// Each such call stalls. 0: none.
    stall_every: u64,
    calls: AtomicU64,
}

/// The length of a stall.
const STALL: Duration = Duration::from_millis(100);

impl BlobShard {
    /// With values of this size.
    #[must_use]
    pub fn new(bytes: usize, stall_every: u64) -> Self {
        Self {
            blob: vec![7; bytes].into(),
            stall_every,
            calls: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl Shard<Blobs> for BlobShard {
    async fn load(&self, _range: ShardRange) -> Result<(), LoadError> {
        Ok(())
    }

    async fn get(&self, _call: &Call, keys: &[u64]) -> Vec<KeyOutcome<Bytes>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.stall_every > 0 && call.is_multiple_of(self.stall_every) {
            tokio::time::sleep(STALL).await;
        }
        keys.iter().map(|_| Ok(self.blob.clone())).collect()
    }

    async fn unload(&self, _range: ShardRange) {}
}
