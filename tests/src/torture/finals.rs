//! The stored data after a run, seen by plain SQL, by plain commands of Redis, and through the SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_sdk::{ByteOwner, Storage};
use storage_servers::Reply;
use tokio::time::{Instant, sleep};

use super::arena::{Arena, NOTED};
use super::oracle::judge::Values;
use super::oracle::{Finals, Flaw};
use crate::{feed, rows};

/// The longest time that everything can take to land after all faults.
const DRAIN: Duration = Duration::from_secs(60);

/// V8: waits until no mark waits to land, no mark is rejected, and no session is held any more.
/// Returns the time that it took.
///
/// # Errors
/// The rest after a while, as a flaw.
pub async fn drained(arena: &Arena) -> Result<Duration, Flaw> {
    let begun = Instant::now();
    loop {
        let left = match arena.backlog().await {
            Ok(backlog)
                if backlog.marks() + backlog.notes() + backlog.errors() == 0
                    && !leads(arena).await
                    && !is_any_held(arena).await =>
            {
                return Ok(begun.elapsed());
            }
            Ok(backlog) => {
                let waiting = backlog
                    .partitions
                    .iter()
                    .filter(|(_, peek)| peek.live + peek.snapshot + peek.errors + peek.notes() > 0);
                format!("{:?}", waiting.take(5).collect::<Vec<_>>())
            }
            Err(error) => error.to_string(),
        };
        if begun.elapsed() > DRAIN {
            return Err(Flaw::new(
                "V8",
                "",
                format!(
                    "not everything has landed after {DRAIN:?}: {left}{}",
                    refused(arena).await
                ),
            ));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a row is ahead of its notes, as far as the database tells.
async fn leads(arena: &Arena) -> bool {
    let (cold, partitions) = (arena.tiers.cold(), arena.settings.redis.partitions);
    let leads = feed::has_leads(cold, partitions).await;
    leads.unwrap_or(true)
}

/// Whether a session holds an owner. That of a killed process does until its lease has ended. Its
/// owner has no time to live, and can't be evicted.
async fn is_any_held(arena: &Arena) -> bool {
    let sessions = keys(arena, "torture-sess:*}").await;
    sessions.map_or(true, |sessions| !sessions.is_empty())
}

/// Some entries of the error maps.
async fn refused(arena: &Arena) -> String {
    let mut all = Vec::new();
    for partition in 0..arena.settings.redis.partitions {
        if let Ok(page) = arena
            .tiers
            .hot()
            .marks
            .errors(storage_model::Partition(partition), 0, 10)
            .await
        {
            all.extend(
                page.entries
                    .into_iter()
                    .map(|entry| format!(" {:?} {} {}", entry.target, entry.code, entry.message)),
            );
        }
    }
    all.truncate(5);
    all.concat()
}

/// The stored data after everything has landed and no process writes any more.
///
/// # Errors
/// A tier can't be read.
pub async fn look(arena: &Arena, owners: &BTreeSet<String>) -> Result<(Finals, Vec<Flaw>)> {
    let rows: BTreeMap<_, _> = rows(&arena.database)
        .await?
        .into_iter()
        .map(|row| (row.name.clone(), row))
        .collect();
    let storage = Storage::open(arena.settings.clone()).await?;
    let hot = read_all(&storage, owners).await?;
    let mut finals = Finals {
        rows,
        hot,
        cold: Values::new(),
    };
    let mut flaws = in_redis(arena, &finals).await?;
    for name in owners {
        owner(&storage, name)?.evict().await?;
    }
    if let Some(left) = keys(arena, "torture-data:*").await?.first() {
        flaws.push(Flaw::new(
            "V8",
            &String::from_utf8_lossy(left),
            "still cached after its eviction, though nothing waits to be landed",
        ));
    }
    finals.cold = read_all(&storage, owners).await?;
    flaws.extend(untold(arena, &storage, owners).await?);
    storage.close(Duration::from_secs(10)).await;
    flaws.extend(watched(arena).await?);
    Ok((finals, flaws))
}

/// F1 to F5: an event that is missing, comes twice or in another order.
async fn untold(
    arena: &Arena,
    storage: &Storage,
    owners: &BTreeSet<String>,
) -> Result<Option<Flaw>> {
    let is_noted = |name: &&String| {
        let logic_type = name.split_once('/').map(|(logic_type, _)| logic_type);
        logic_type.is_some_and(|logic_type| NOTED.contains(&logic_type))
    };
    let noted = owners.iter().filter(is_noted);
    let noted = noted.map(|name| Ok(owner(storage, name)?.owner().clone()));
    let noted = noted.collect::<Result<Vec<_>>>()?;
    let (cold, partitions) = (storage.tiers().cold(), arena.settings.redis.partitions);
    let flaw = feed::flaw(cold, partitions, &noted).await?;
    Ok(flaw.map(|flaw| Flaw::new("F", "feed", flaw)))
}

fn owner(storage: &Storage, name: &str) -> Result<ByteOwner> {
    let (logic_type, id) = name.split_once('/').context("an owner's name")?;
    Ok(storage.world("game", "eu")?.bytes().owner(logic_type, id)?)
}

pub(super) async fn read_all(storage: &Storage, owners: &BTreeSet<String>) -> Result<Values> {
    let mut values = Values::new();
    for name in owners {
        for (field, value) in owner(storage, name)?.get_all().await?.iter() {
            values.insert(format!("{name}/{field}"), value.to_vec());
        }
    }
    Ok(values)
}

async fn keys(arena: &Arena, pattern: &str) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for node in arena.hot.nodes() {
        if let Reply::Array(keys) = node.call(&["KEYS", pattern]).await? {
            all.extend(keys.into_iter().filter_map(|key| {
                if let Reply::Bytes(key) = key {
                    Some(key)
                } else {
                    None
                }
            }));
        }
    }
    Ok(all)
}

/// V5 and V8 by plain commands: hashes equal rows, have no marks, and have a time to live. No map,
/// lock or eviction is left, and no lease without an end.
async fn in_redis(arena: &Arena, finals: &Finals) -> Result<Vec<Flaw>> {
    let mut flaws = Vec::new();
    for pattern in [
        "torture-marks:*",
        "torture-evict:*",
        "torture-lock:*",
        "torture-workers",
    ] {
        for key in keys(arena, pattern).await? {
            flaws.push(Flaw::new("V8", &String::from_utf8_lossy(&key), "left over"));
        }
    }
    // The lease of a dead process expires, later if the clock was set back since. A replica of a
    // cluster answers no PTTL.
    for key in keys(arena, "torture-lease:*").await? {
        for node in arena.hot.nodes() {
            if let Ok(Reply::Integer(-1)) = node.call(&[b"PTTL".as_slice(), &key]).await {
                flaws.push(Flaw::new(
                    "V8",
                    &String::from_utf8_lossy(&key),
                    "a lease without a time to live",
                ));
            }
        }
    }
    for node in arena.hot.nodes() {
        let Reply::Array(keys) = node.call(&["KEYS", "torture-data:*"]).await? else {
            continue;
        };
        let is_master = node
            .call(&["ROLE"])
            .await
            .is_ok_and(|role| format!("{role:?}").contains(&format!("{:?}", b"master")));
        for key in keys.iter().filter(|_| is_master) {
            let Reply::Bytes(key) = key else { continue };
            let name = String::from_utf8_lossy(key).into_owned();
            let Ok(Reply::Array(hash)) = node.call(&[b"HGETALL".as_slice(), key]).await else {
                continue;
            };
            let Ok(Reply::Integer(ttl)) = node.call(&[b"PTTL".as_slice(), key]).await else {
                continue;
            };
            if !hash.is_empty() && ttl == -1 {
                flaws.push(Flaw::new(
                    "V5",
                    &name,
                    "a hash without marks has no time to live",
                ));
            }
            flaws.extend(unequal(&name, &hash, finals));
        }
    }
    Ok(flaws)
}

fn unequal(key: &str, hash: &[Reply], finals: &Finals) -> Option<Flaw> {
    let owner = key
        .rsplitn(3, ':')
        .take(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect::<Vec<_>>()
        .join("/");
    for pair in hash.chunks(2) {
        let [Reply::Bytes(field), Reply::Bytes(value)] = pair else {
            continue;
        };
        let field = String::from_utf8_lossy(field);
        let row = finals.rows.get(&format!("{owner}/{field}"));
        let fits = match field.as_ref() {
            field if field.starts_with(':') => true,
            _ => row.is_some_and(|row| row.is_del == 0 && row.value == *value),
        };
        if !fits {
            let detail = format!(
                "Redis holds {:?}, the row is {row:?}",
                super::value::token_of(value)
            );
            return Some(Flaw::new("V5", &format!("{owner}/{field}"), detail));
        }
    }
    None
}

/// The faults that the database itself saw.
async fn watched(arena: &Arena) -> Result<Vec<Flaw>> {
    let database = arena.database.rsplit('/').next().unwrap_or_default();
    let seen = arena
        .cold
        .sql(&format!(
            "SELECT name, what, held, came FROM {database}.torture_flaw LIMIT 20"
        ))
        .await?;
    let flaw = |line: &str| {
        let mut words = line.split('\t');
        Flaw::new(
            "V4",
            words.next().unwrap_or_default(),
            format!("the database saw {:?}", words.collect::<Vec<_>>()),
        )
    };
    Ok(seen.lines().map(flaw).collect())
}

/// The number of keys that Redis let expire and evicted since its servers last started.
///
/// # Errors
/// A server does not answer.
pub async fn dropped(arena: &Arena) -> Result<u64> {
    let mut dropped = 0;
    for node in arena.hot.nodes() {
        let info = node.call(&["INFO", "stats"]).await?;
        for name in ["expired_keys:", "evicted_keys:"] {
            let number = info
                .text()?
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            dropped += number.unwrap_or(0);
        }
    }
    Ok(dropped)
}
