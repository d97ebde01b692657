//! Encoding and decoding a stored object: structs of 1 and 8 texts of 64 bytes or 1 KiB, and one of
//! 1 KiB in a byte vector.
//!
//! `encode` and `decode` are those of the codec, and a save calls `encode_checked`.
//! `message_pack_…` is the same payload alone. `header` is the rejection of an object of a newer
//! schema, after header and checksum and before the payload. The rest of `decode` is the walk that
//! measures the payload's nesting.

use std::hint::black_box;

use anyhow::ensure;
use criterion::{BenchmarkId, Criterion, Throughput};
use rmp_serde::config::BytesMode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage_sdk::codec;

use crate::shape::SHAPES;

#[derive(Serialize, Deserialize, PartialEq)]
struct One {
    inventory: String,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct Eight {
    name: String,
    guild: String,
    title: String,
    quests: String,
    friends: String,
    position: String,
    equipment: String,
    inventory: String,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct Raw {
    inventory: Vec<u8>,
}

pub(crate) fn measure(criterion: &mut Criterion) -> anyhow::Result<()> {
    for shape in SHAPES {
        let text = || "v".repeat(shape.bytes);
        if shape.fields == 1 {
            one(criterion, &shape.to_string(), &One { inventory: text() })?;
        } else {
            let (name, guild, title, quests) = (text(), text(), text(), text());
            let (friends, position, equipment, inventory) = (text(), text(), text(), text());
            let eight = Eight {
                name,
                guild,
                title,
                quests,
                friends,
                position,
                equipment,
                inventory,
            };
            one(criterion, &shape.to_string(), &eight)?;
        }
    }
    // All 256 byte values occur, and the serializer sees them one by one.
    one(
        criterion,
        "1x1024B_bytes",
        &Raw {
            inventory: (0..=u8::MAX).cycle().take(1 << 10).collect(),
        },
    )
}

fn one<T: Serialize + DeserializeOwned + PartialEq>(
    criterion: &mut Criterion,
    shape: &str,
    value: &T,
) -> anyhow::Result<()> {
    const SCHEMA: u32 = 1;
    let object = codec::encode_checked(value, SCHEMA)?;
    let payload = message_pack(value)?;
    ensure!(
        object.ends_with(&payload),
        "the payload is not that of the object"
    );
    ensure!(
        codec::decode::<T>(&object, SCHEMA)? == *value,
        "the object does not come back"
    );
    ensure!(
        matches!(
            codec::decode::<T>(&object, 0),
            Err(codec::CodecError::SchemaTooNew { .. })
        ),
        "a newer schema is taken"
    );

    let mut group = criterion.benchmark_group("object");
    group.throughput(Throughput::Bytes(u64::try_from(object.len())?));
    let id = |function: &str| BenchmarkId::new(function, shape);
    group.bench_function(id("encode"), |b| {
        b.iter(|| codec::encode(black_box(value), SCHEMA))
    });
    group.bench_function(id("encode_checked"), |b| {
        b.iter(|| codec::encode_checked(black_box(value), SCHEMA))
    });
    group.bench_function(id("decode"), |b| {
        b.iter(|| codec::decode::<T>(black_box(&object), SCHEMA))
    });
    group.bench_function(id("header"), |b| {
        b.iter(|| codec::decode::<T>(black_box(&object), black_box(0)))
    });
    group.bench_function(id("message_pack_encode"), |b| {
        b.iter(|| message_pack(black_box(value)))
    });
    group.bench_function(id("message_pack_decode"), |b| {
        b.iter(|| rmp_serde::from_slice::<T>(black_box(&payload)))
    });
    group.finish();
    Ok(())
}

/// The payload as the codec writes it, into a buffer of the same initial size.
fn message_pack<T: Serialize>(value: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let mut payload = Vec::with_capacity(512);
    let mut serializer = rmp_serde::Serializer::new(&mut payload)
        .with_struct_map()
        .with_bytes(BytesMode::ForceIterables);
    value.serialize(&mut serializer)?;
    Ok(payload)
}
