//! The hot tier that the database belongs to.

use std::time::Duration;

use storage_model::{HotId, Paired, Partition, Stamp, Token};

use crate::engine::{Exec, Fault, Record, Session, Statement, statement};
use crate::hot::LAST_RAISE;
use crate::{hot, partition};

static ADD_META: Statement = statement!("add_meta");
static SWAP_META: Statement = statement!("swap_meta").through("PRIMARY");
static READ_META: Statement = statement!("read_meta");
static RAISE_ALL: Statement = statement!("raise_all");

pub(crate) const STATEMENTS: &[&Statement] = &[&ADD_META, &SWAP_META, &READ_META, &RAISE_ALL];

/// The stored names of the facts about the whole database.
const IDENTITY: &str = "identity";
const PARTITIONS: &str = "partitions";
const LAYOUT: &str = "layout";
const HOT: &str = "hot";

/// The database's side of its pairing with a hot tier. Without tables all is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ColdPairing {
    /// The database's address: host, port and name, or a file. Never a login.
    pub address: String,
    /// The database's own identity, drawn once.
    pub identity: Option<Token>,
    /// The partition count of its hot tier.
    pub partitions: Option<u32>,
    /// The layout of the hot tier's keys.
    pub layout: Option<u32>,
    /// The database's current hot tier.
    pub hot: Option<Paired>,
    /// The stamp of the last raise of any partition. While it stays the same, no partition has
    /// moved to another hot tier.
    pub last_raise: Stamp,
}

/// A hot tier that takes over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The identity for a database that has none.
    pub identity: Token,
    /// The partition count of the hot tier.
    pub partitions: u32,
    /// The layout of its keys.
    pub layout: u32,
    /// The hot tier.
    pub hot: Paired,
    /// The number of its incarnation.
    pub by: HotId,
    /// The stamp of this raise of all partitions.
    pub stamp: Stamp,
    /// The hot tier takes nothing over unless nobody has used any other one for this long, by the
    /// database's clock. `None`: that does not matter.
    pub if_silent: Option<Duration>,
}

/// Reads the pairing.
pub(crate) async fn read<S: Session>(
    exec: &mut Exec<S>,
    address: &str,
) -> Result<ColdPairing, Fault> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fact = |record: &dyn Record| Ok((text(record.bytes(0)?), text(record.bytes(1)?)));
    let mut pairing = ColdPairing {
        address: address.to_owned(),
        ..ColdPairing::default()
    };
    for (name, value) in exec.fetch(&READ_META, 1, &[], fact).await? {
        match name.as_str() {
            IDENTITY => pairing.identity = Some(known(&name, &value, Token::parse)?),
            PARTITIONS => pairing.partitions = Some(known(&name, &value, number)?),
            LAYOUT => pairing.layout = Some(known(&name, &value, number)?),
            HOT => pairing.hot = Some(known(&name, &value, Paired::parse)?),
            LAST_RAISE => {
                pairing.last_raise = Stamp(known(&name, &value, |text| text.parse().ok())?)
            }
            _ => {}
        }
    }
    Ok(pairing)
}

/// Whether any fact was stored. The meta table exists.
pub(crate) async fn has_facts<S: Session>(exec: &mut Exec<S>) -> Result<bool, Fault> {
    let facts = exec.fetch(&READ_META, 1, &[], |_| Ok(())).await?;
    Ok(!facts.is_empty())
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn known<T>(name: &str, value: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Fault> {
    let foreign = || {
        Fault::operator(format!(
            "the meta table holds {name} = {value:?}, which no version of this program writes"
        ))
    };
    parse(value).ok_or_else(foreign)
}

/// Makes a hot tier the current one, if the seen one is still current. Returns whether it did. From
/// then on no landing of the earlier hot tier commits.
pub(crate) async fn pair<S: Session>(
    exec: &mut Exec<S>,
    seen: &ColdPairing,
    pair: &Pair,
) -> Result<bool, Fault> {
    let paired = exec.transaction(async |exec| pair_open(exec, seen, pair).await);
    match paired.await {
        Ok(()) => Ok(true),
        Err(PairFailure::Moved) => Ok(false),
        Err(PairFailure::Fault(fault)) => Err(fault),
    }
}

/// Why a hot tier did not take over.
enum PairFailure {
    /// Another hot tier did so meanwhile, or is used again.
    Moved,
    Fault(Fault),
}

impl From<Fault> for PairFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

async fn pair_open<S: Session>(
    exec: &mut Exec<S>,
    seen: &ColdPairing,
    pair: &Pair,
) -> Result<(), PairFailure> {
    let (identity, hot) = (pair.identity.to_string(), pair.hot.to_text());
    for (name, value) in [
        (IDENTITY, identity),
        (PARTITIONS, pair.partitions.to_string()),
        (LAYOUT, pair.layout.to_string()),
    ] {
        exec.execute(&ADD_META, 1, &[name.into(), value.as_str().into()])
            .await?;
    }
    match seen.hot.as_ref().map(Paired::to_text) {
        None => {
            exec.execute(&ADD_META, 1, &[HOT.into(), hot.as_str().into()])
                .await?
        }
        Some(old) => {
            exec.execute(
                &SWAP_META,
                1,
                &[hot.as_str().into(), HOT.into(), old.as_str().into()],
            )
            .await?
        }
    };
    let now = read(exec, &seen.address).await?;
    // Compared as text, because the text cuts a long address.
    let wanted = (
        Some(pair.identity),
        Some(pair.partitions),
        Some(pair.layout),
        Some(hot),
    );
    if (
        now.identity,
        now.partitions,
        now.layout,
        now.hot.as_ref().map(Paired::to_text),
    ) != wanted
    {
        return Err(PairFailure::Moved);
    }
    // ORDER: in the same transaction. So no landing of the earlier hot tier commits once the new
    // one is known.
    if seen.hot.is_some() {
        let all: Vec<Partition> = (0..pair.partitions).map(Partition).collect();
        partition::lock(exec, &all).await?;
    }
    if let Some(within) = pair.if_silent {
        let known = hot::read(exec).await?;
        if known
            .iter()
            .any(|hot| hot.id != pair.by && hot.is_heard(within))
        {
            return Err(PairFailure::Moved);
        }
    }
    exec.execute(&RAISE_ALL, 1, &[]).await?;
    hot::introduce(exec, pair.by, &pair.hot.address).await?;
    hot::stamp_all(exec, pair.by, pair.stamp).await?;
    hot::touch(exec, pair.by).await?;
    hot::told(exec, pair.stamp).await?;
    Ok(())
}
