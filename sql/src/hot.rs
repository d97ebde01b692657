//! The hot tiers that land here, and which of them has each partition.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::{HotId, Stamp, times};

use crate::engine::{Arg, Database, Engine, Exec, Fault, Record, Session, Statement, statement};
use crate::{ColdError, HotTier, HotTierStore};

static INTRODUCE: Statement = statement!("hot/introduce");
static TOUCH: Statement = statement!("hot/touch").through("PRIMARY");
static READ: Statement = statement!("hot/read");
static FORGET: Statement = statement!("hot/forget").through("PRIMARY");
static ADD_STAMPS: Statement = statement!("hot/add_stamps");
static STAMP: Statement = statement!("hot/stamp").through("PRIMARY");
static STAMP_ALL: Statement = statement!("hot/stamp_all");
static SET_META: Statement = statement!("set_meta");

pub(crate) const STATEMENTS: &[&Statement] = &[
    &INTRODUCE,
    &TOUCH,
    &READ,
    &FORGET,
    &ADD_STAMPS,
    &STAMP,
    &STAMP_ALL,
    &SET_META,
];

/// The stored name of the stamp of the last raise.
pub(crate) const LAST_RAISE: &str = "last_raise";

/// The most bytes of an address. The column has as many.
const ADDRESS_BYTES_MAX: usize = 255;

#[async_trait]
impl<E: Engine> HotTierStore for Database<E> {
    async fn introduce(&self, hot: HotId, address: &str) -> Result<(), ColdError> {
        self.write("introduce", async |exec| {
            // ORDER: read without a lock, and deleted by number. A raise locks partitions before hot
            // tiers, so this must not hold a hot tier and wait for a partition.
            let known = read(exec).await?;
            let is_old = |known: &&HotTier| {
                known.partitions == 0 && known.seen_ago >= times::UNUSED_HOT_TIER
            };
            for old in known.iter().filter(is_old) {
                exec.execute(&FORGET, 1, &[Arg::Number(old.id.0)]).await?;
            }
            introduce(exec, hot, address).await
        })
        .await
    }

    async fn hot_tiers(&self) -> Result<Vec<HotTier>, ColdError> {
        self.read("hot_tiers", async |exec| read(exec).await).await
    }

    async fn touch(&self, hot: &[HotId]) -> Result<(), ColdError> {
        if hot.is_empty() {
            return Ok(());
        }
        self.write("touch", async |exec| {
            for hot in hot {
                touch(exec, *hot).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Stores a hot tier, or its present address.
pub(crate) async fn introduce<S: Session>(
    exec: &mut Exec<S>,
    hot: HotId,
    address: &str,
) -> Result<(), Fault> {
    let cut = address.floor_char_boundary(ADDRESS_BYTES_MAX);
    let address = address.get(..cut).unwrap_or_default();
    exec.execute(&INTRODUCE, 1, &[Arg::Number(hot.0), address.into()])
        .await?;
    Ok(())
}

/// Stores that a hot tier is used now.
pub(crate) async fn touch<S: Session>(exec: &mut Exec<S>, hot: HotId) -> Result<(), Fault> {
    exec.execute(&TOUCH, 1, &[Arg::Number(hot.0)]).await?;
    Ok(())
}

/// The hot tiers, the latest first.
pub(crate) async fn read<S: Session>(exec: &mut Exec<S>) -> Result<Vec<HotTier>, Fault> {
    let tier = |record: &dyn Record| {
        Ok(HotTier {
            id: HotId(record.number(0)?),
            address: String::from_utf8_lossy(record.bytes(1)?).into_owned(),
            known_for: Duration::from_millis(record.number(2)?),
            seen_ago: Duration::from_millis(record.number(3)?),
            partitions: record.number(4)?,
        })
    };
    exec.fetch(&READ, 1, &[], tier).await
}

/// Creates missing stamps of partitions, and locks them.
pub(crate) async fn add_stamps<S: Session>(
    exec: &mut Exec<S>,
    count: usize,
    partitions: &[Arg<'_>],
) -> Result<(), Fault> {
    exec.execute(&ADD_STAMPS, count, partitions).await?;
    Ok(())
}

/// Gives partitions to a hot tier. The arguments are those of the statement.
pub(crate) async fn stamp<S: Session>(
    exec: &mut Exec<S>,
    count: usize,
    args: &[Arg<'_>],
) -> Result<(), Fault> {
    exec.execute(&STAMP, count, args).await?;
    Ok(())
}

/// Gives all partitions to a hot tier that takes over.
pub(crate) async fn stamp_all<S: Session>(
    exec: &mut Exec<S>,
    hot: HotId,
    stamp: Stamp,
) -> Result<(), Fault> {
    exec.execute(&STAMP_ALL, 1, &[Arg::Number(stamp.0), Arg::Number(hot.0)])
        .await?;
    Ok(())
}

/// Stores the stamp of a raise, so that a comparison finds that some partition has moved.
// ORDER: last in the transaction, after partitions, stamps and hot tiers. All raises share this row.
pub(crate) async fn told<S: Session>(exec: &mut Exec<S>, stamp: Stamp) -> Result<(), Fault> {
    let stamp = stamp.0.to_string();
    exec.execute(&SET_META, 1, &[LAST_RAISE.into(), stamp.as_str().into()])
        .await?;
    Ok(())
}
