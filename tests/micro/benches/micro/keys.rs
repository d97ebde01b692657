//! The keys of one owner: its partition, the key of its hash without and with escaped characters,
//! and all six keys of a write.

use std::hint::black_box;

use criterion::Criterion;
use storage_dirty::bench::Keys;
use storage_model::Owner;

use crate::shape;

pub(crate) fn measure(criterion: &mut Criterion) -> anyhow::Result<()> {
    const PARTITIONS: u32 = 16;
    let plain = shape::owner("123456")?;
    let escaped = Owner::new("mygame", "eu-1", "player", "guild:50%")?;
    let (keys, partition) = (Keys::new("storage"), plain.partition(PARTITIONS));

    let mut group = criterion.benchmark_group("key");
    group.bench_function("partition", |b| {
        b.iter(|| black_box(&plain).partition(black_box(PARTITIONS)))
    });
    group.bench_function("data", |b| {
        b.iter(|| keys.data(partition, black_box(&plain)))
    });
    group.bench_function("data_escaped", |b| {
        b.iter(|| keys.data(partition, black_box(&escaped)))
    });
    group.bench_function("of_write", |b| {
        b.iter(|| keys.of_write(partition, black_box(&plain)))
    });
    group.finish();
    Ok(())
}
