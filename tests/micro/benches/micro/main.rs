//! Micro-benchmarks: the CPU time of the hot paths without a server.
//!
//! | module | measures |
//! | --- | --- |
//! | `keys` | the keys of an owner and of a write |
//! | `marks` | encoding and decoding the name of a mark |
//! | `objects` | encoding and decoding a stored object, and its MessagePack and its header alone |
//! | `landing` | a batch from marks to rows, and the verdict on it |
//! | `upserts` | rows to ordered rows, arguments and bound arguments |
//! | `shape` | the data of the measurements |
//!
//! A figure counts the making of a result and the cost to drop it. It does not describe a whole
//! operation, which waits for servers most of its time. `bench` of `storage-tests` measures those.
//! An argument picks benchmarks by a part of their names.

mod keys;
mod landing;
mod marks;
mod objects;
mod shape;
mod upserts;

use criterion::Criterion;

fn main() -> anyhow::Result<()> {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    keys::measure(&mut criterion)?;
    marks::measure(&mut criterion)?;
    objects::measure(&mut criterion)?;
    landing::measure(&mut criterion)?;
    upserts::measure(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
