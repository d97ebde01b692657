//! A batch of 1,000 rows on its way into statements for MySQL: 1,000 owners of 1 field or 125 of 8,
//! values of 64 bytes or 1 KiB.
//!
//! `ordered` brings the rows into key order. `arguments` cuts ordered rows into upserts and lists
//! the arguments of each. `bound` does the same and encodes the arguments as the driver sends them,
//! which copies each value once.

use std::hint::black_box;

use anyhow::ensure;
use criterion::{BenchmarkId, Criterion, Throughput};
use storage_sql::bench::{MySqlTexts, ordered, upserts};

use crate::shape::{self, ROWS, SHAPES};

pub(crate) fn measure(criterion: &mut Criterion) -> anyhow::Result<()> {
    const ARGUMENTS: usize = 8 * ROWS;
    let texts = MySqlTexts::default();
    for shape in SHAPES {
        let rows = shape::rows(shape)?;
        let sorted = ordered(&rows);
        ensure!(sorted.len() == ROWS, "the batch has {} rows", sorted.len());
        ensure!(
            upserts(&sorted) == ARGUMENTS && texts.bound(&sorted) == ARGUMENTS,
            "arguments are missing"
        );

        let mut group = criterion.benchmark_group("upsert");
        group.throughput(Throughput::Elements(u64::try_from(ROWS)?));
        let id = |function: &str| BenchmarkId::new(function, shape);
        group.bench_function(id("ordered"), |b| b.iter(|| ordered(black_box(&rows))));
        group.bench_function(id("arguments"), |b| b.iter(|| upserts(black_box(&sorted))));
        group.bench_function(id("bound"), |b| b.iter(|| texts.bound(black_box(&sorted))));
        group.finish();
    }
    Ok(())
}
