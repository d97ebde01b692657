//! Encoding and decoding the name of a mark: of 1 field, of 8, and of 8 with escaped names.

use std::hint::black_box;

use anyhow::ensure;
use criterion::{BenchmarkId, Criterion};
use storage_dirty::bench::{decode_mark, encode_mark};
use storage_model::Field;

use crate::shape;

pub(crate) fn measure(criterion: &mut Criterion) -> anyhow::Result<()> {
    let owner = shape::owner("123456")?;
    let escaped = (0..8)
        .map(|number| Field::new(&format!(":inventory{number}")))
        .collect::<Result<Vec<_>, _>>()?;

    let mut group = criterion.benchmark_group("mark");
    for (name, fields) in [
        ("1", shape::fields(1)?),
        ("8", shape::fields(8)?),
        ("8_escaped", escaped),
    ] {
        let (stored, named) = encode_mark(&owner, &fields);
        ensure!(
            decode_mark(stored.as_bytes(), named.as_bytes())
                .is_some_and(|mark| mark.fields == fields),
            "the mark does not come back"
        );
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| encode_mark(black_box(&owner), black_box(&fields)))
        });
        group.bench_function(BenchmarkId::new("decode", name), |b| {
            b.iter(|| decode_mark(black_box(&stored).as_bytes(), black_box(&named).as_bytes()));
        });
    }
    group.finish();
    Ok(())
}
