//! A batch of 1,000 rows through landing's own decisions: 1,000 owners of 1 field, or 125 of 8. The
//! values have 64 bytes. No value is copied here, so their size does not matter.
//!
//! `cut` makes one group of one partition's marks, and `wanted` lists the fields to read. `rows`
//! pairs that list with the collected values, and `judge` settles all marks.

use std::hint::black_box;

use anyhow::ensure;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use storage_dirty::bench::{decode_mark, encode_mark};
use storage_dirty::{Collected, Entry, Header, HotRead, SnapshotId};
use storage_landing::marks::{self, Faults, LandingPart};
use storage_model::{Bytes, Cell, Epoch, Field, Owner, Partition, Stamp, Version};

use crate::shape::{self, ROWS};

pub(crate) fn measure(criterion: &mut Criterion) -> anyhow::Result<()> {
    for count in [1, 8] {
        let part = part(count)?;
        let wanted = part.wanted();
        let collected = collected(&wanted)?;
        let rows = marks::rows(&wanted, &collected);
        let faults = Faults::new();
        ensure!(
            rows.rows.len() == ROWS,
            "the batch has {} rows",
            rows.rows.len()
        );
        ensure!(
            marks::judge(&part, &rows, &faults, false).settle.len() == part.entries.len(),
            "not all is settled"
        );

        let mut group = criterion.benchmark_group("landing");
        group.throughput(Throughput::Elements(u64::try_from(ROWS)?));
        let id = |function: &str| BenchmarkId::new(function, format!("{}x{count}", ROWS / count));
        group.bench_function(id("cut"), |b| {
            b.iter_batched(
                || vec![part.clone()],
                |parts| marks::cut(parts, ROWS),
                BatchSize::LargeInput,
            );
        });
        group.bench_function(id("wanted"), |b| b.iter(|| black_box(&part).wanted()));
        group.bench_function(id("rows"), |b| {
            b.iter(|| marks::rows(black_box(&wanted), black_box(&collected)))
        });
        let judged = || marks::judge(black_box(&part), black_box(&rows), &faults, false);
        group.bench_function(id("judge"), |b| b.iter(judged));
        group.finish();
    }
    Ok(())
}

/// The marks of a batch as a scan returns them: one for each owner.
fn part(count: usize) -> anyhow::Result<LandingPart> {
    let (fields, version) = (shape::fields(count)?, shape::version()?);
    let entry = |owner: Owner| {
        let (name, named) = encode_mark(&owner, &fields);
        Entry {
            mark: decode_mark(name.as_bytes(), named.as_bytes()),
            raw: Bytes::from(name),
            version,
        }
    };
    let entries = shape::owners(count)?.into_iter().map(entry).collect();
    Ok(LandingPart {
        partition: Partition(7),
        snapshot: SnapshotId(1),
        entries,
        replay: false,
        notes: None,
    })
}

/// The answer of a hot tier that holds all wanted fields.
fn collected(wanted: &[(Owner, Vec<Field>)]) -> anyhow::Result<Collected> {
    let (epoch, version) = (Epoch(1), shape::version()?);
    let header = Header {
        version,
        complete: true,
        generation: epoch,
        suspect: false,
        born: Version::ZERO,
        noted: storage_model::Position::ZERO,
    };
    let cell = Cell::Live(Bytes::from(vec![b'v'; 64]));
    let read = |fields: &[Field]| HotRead {
        header: Some(header),
        cells: fields
            .iter()
            .map(|field| (field.clone(), cell.clone()))
            .collect(),
    };
    let reads = wanted.iter().map(|(_, fields)| read(fields)).collect();
    Ok(Collected {
        epoch,
        stamp: Stamp::default(),
        landed: version,
        reaches: version,
        database: None,
        has_errors: false,
        is_linked: false,
        partial: Vec::new(),
        reads,
    })
}
