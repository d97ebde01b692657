//! Redis comes back older, or empty, while the database is ahead.

use std::fs;
use std::path::Path;

use anyhow::Result;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::phase::{Phase, reach};
use super::{Fault, pause};
use crate::rows;
use crate::torture::arena::Arena;
use crate::torture::moment::now;
use crate::torture::oracle::Rewind;

/// The folder of Redis' append-only files.
const FILES: &str = "appendonlydir";

pub(super) async fn inject(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let redis = arena.hot.single()?;
    let copy = arena.folder.path().join("copy");
    if fault == Fault::RedisRewind {
        copy_folder(&redis.folder().join(FILES), &copy)?;
        // Play goes on, and some of its writes land.
        sleep(pause(rng, 300..2_500)).await;
    }
    // The landed data is read from the database.
    let _calm = arena.calm.lock().await;
    let phase = reach(arena, wanted).await;
    if fault == Fault::RedisWipe && rng.random_range(0..2) == 0 {
        let (down, rows) = (now(), landed(arena).await?);
        redis.call(&["FLUSHALL"]).await?;
        arena.rewound(Rewind {
            down,
            up: now(),
            rows,
        });
        return Ok(phase);
    }
    let down = now();
    redis.kill()?;
    let rows = landed(arena).await?;
    let files = redis.folder().join(FILES);
    fs::remove_dir_all(&files)?;
    if fault == Fault::RedisRewind {
        fs::rename(&copy, &files)?;
    }
    redis.restart().await?;
    arena.rewound(Rewind {
        down,
        up: now(),
        rows,
    });
    Ok(phase)
}

/// The landed data.
pub(super) async fn landed(
    arena: &Arena,
) -> Result<std::collections::BTreeMap<String, crate::StoredRow>> {
    Ok(rows(&arena.database)
        .await?
        .into_iter()
        .map(|row| (row.name.clone(), row))
        .collect())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
