//! Micro-benchmarks: what the hot paths cost in CPU time where no server takes part.
//!
//! | module | what is measured |
//! | --- | --- |
//! | `keys` | the keys of an owner and of a write |
//! | `marks` | the name of a mark, there and back |
//! | `objects` | a stored object, there and back; its MessagePack and its header apart |
//! | `landing` | a batch from marks to rows, and the verdict on it |
//! | `upserts` | rows to ordered rows, arguments and bound arguments |
//! | `shape` | what they are measured with |
//!
//! A figure counts what is made and what it costs to drop it. It says nothing of a whole operation,
//! which waits for servers most of its time; those are measured by `storage-tests`' `bench`. An
//! argument picks benchmarks by a part of their names.

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
