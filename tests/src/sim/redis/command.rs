//! The commands that the engine and its scripts use.

use super::data::Data;
use super::keyspace::{Stored, WrongType};
use super::reply::Reply;

/// The reason why a command fails. It prints as the error's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl From<WrongType> for Refused {
    fn from(_: WrongType) -> Self {
        Self("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
    }
}

fn refused<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(text.into()))
}

/// The properties of a command in Redis' own table of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Whether it may change data.
    pub writes: bool,
    /// Whether it is rejected at the memory limit.
    pub grows: bool,
    /// The arguments that are keys.
    pub keys: Keys,
}

/// The arguments of a command that are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// The first.
    First,
    /// All.
    All,
    /// Every other one, from the first on.
    Odd,
}

/// The kind of a command. None if the model has no such command.
#[must_use]
pub fn kind(name: &str) -> Option<Kind> {
    let kind = |writes, grows, keys| {
        Some(Kind {
            writes,
            grows,
            keys,
        })
    };
    match name {
        "PING" | "TIME" | "INFO" | "CLIENT" => kind(false, false, Keys::None),
        "GET" | "HGET" | "HMGET" | "HGETALL" | "HLEN" | "HSCAN" | "TYPE" | "PTTL" | "ZRANGE"
        | "ZRANGEBYSCORE" | "XLEN" | "XRANGE" => kind(false, false, Keys::First),
        "EXISTS" => kind(false, false, Keys::All),
        "HDEL" | "PEXPIRE" | "PERSIST" | "ZREM" | "ZREMRANGEBYSCORE" | "XTRIM" => {
            kind(true, false, Keys::First)
        }
        "DEL" | "UNLINK" | "RENAME" => kind(true, false, Keys::All),
        "SET" | "HSET" | "HSETNX" | "ZADD" | "XADD" => kind(true, true, Keys::First),
        "MSET" => kind(true, true, Keys::Odd),
        "FLUSHALL" => kind(true, false, Keys::None),
        _ => None,
    }
}

/// Runs a command. Its name is in upper case.
pub fn run(data: &mut Data, name: &str, args: &[Vec<u8>]) -> Result<Reply, Refused> {
    let arg = |at: usize| args.get(at).map(Vec::as_slice).ok_or_else(|| arity(name));
    let names = || args.get(1..).unwrap_or_default();
    let keys = &mut data.keys;
    Ok(match name {
        "PING" => Reply::Status("PONG".to_owned()),
        "TIME" => {
            let text = |number: i64| Reply::Bulk(number.to_string().into_bytes());
            Reply::Array(vec![text(data.now / 1_000_000), text(data.now % 1_000_000)])
        }
        "INFO" => Reply::Bulk(data.info().into_bytes()),
        "GET" => Reply::maybe(keys.text(arg(0)?)?.cloned()),
        "SET" => return set(data, args),
        "MSET" => {
            if args.is_empty() || !args.len().is_multiple_of(2) {
                return Err(arity(name));
            }
            for pair in args.chunks_exact(2) {
                set(data, pair)?;
            }
            Reply::ok()
        }
        "DEL" | "UNLINK" => Reply::count(args.iter().filter(|key| keys.remove(key)).count()),
        "EXISTS" => Reply::count(args.iter().filter(|key| keys.get(key).is_some()).count()),
        "RENAME" if keys.rename(arg(0)?, arg(1)?) => Reply::ok(),
        "RENAME" => return refused("ERR no such key"),
        "TYPE" => Reply::Status(
            match keys.get(arg(0)?) {
                None => "none",
                Some(Stored::Text(_)) => "string",
                Some(Stored::Hash(_)) => "hash",
                Some(Stored::Sorted(_)) => "zset",
                Some(Stored::Stream(_)) => "stream",
            }
            .to_owned(),
        ),
        "PTTL" => Reply::Int(keys.left(arg(0)?).map_or(-2, |left| left.unwrap_or(-1))),
        "PEXPIRE" => {
            let (key, ttl) = (arg(0)?, integer(arg(1)?)?);
            let option = args.get(2).map(|option| option.to_ascii_uppercase());
            let left = keys.left(key);
            let skipped = match option.as_deref() {
                None => false,
                Some(b"XX") => left == Some(None),
                Some(b"LT") => left.flatten().is_some_and(|left| left <= ttl),
                Some(_) => return refused("ERR Unsupported option"),
            };
            Reply::Int(i64::from(!skipped && keys.expire(key, Some(ttl))))
        }
        "PERSIST" => {
            let ends = matches!(keys.left(arg(0)?), Some(Some(_)));
            Reply::Int(i64::from(ends && keys.expire(arg(0)?, None)))
        }
        "HGET" => Reply::maybe(
            keys.hash(arg(0)?)?
                .and_then(|hash| hash.get(arg(1).ok()?))
                .cloned(),
        ),
        "HMGET" => {
            let hash = keys.hash(arg(0)?)?;
            arg(1)?;
            Reply::Array(
                names()
                    .iter()
                    .map(|name| Reply::maybe(hash.and_then(|hash| hash.get(name)).cloned()))
                    .collect(),
            )
        }
        "HGETALL" => {
            let pairs = keys.hash(arg(0)?)?.into_iter().flatten();
            Reply::Array(
                pairs
                    .flat_map(|(name, value)| [name, value].map(|bytes| Reply::Bulk(bytes.clone())))
                    .collect(),
            )
        }
        "HLEN" => Reply::count(keys.hash(arg(0)?)?.map_or(0, |hash| hash.len())),
        "HSCAN" => {
            let count = args
                .iter()
                .position(|arg| arg.eq_ignore_ascii_case(b"COUNT"))
                .and_then(|at| args.get(at + 1));
            let count = usize::try_from(count.map_or(Ok(10), |count| integer(count))?)
                .unwrap_or(usize::MAX);
            let (next, found) = keys.scan(
                arg(0)?,
                u64::try_from(integer(arg(1)?)?).unwrap_or_default(),
                count,
            )?;
            let found = found
                .into_iter()
                .flat_map(|(name, value)| [Reply::Bulk(name), Reply::Bulk(value)])
                .collect();
            Reply::Array(vec![
                Reply::Bulk(next.to_string().into_bytes()),
                Reply::Array(found),
            ])
        }
        "HSET" => {
            if args.len() < 3 || args.len().is_multiple_of(2) {
                return Err(arity(name));
            }
            let pairs = names().chunks_exact(2);
            let put = |hash: &mut super::keyspace::Hash| {
                pairs.filter(|pair| matches!(pair, [name, value] if hash.insert(name.clone(), value.clone()).is_none())).count()
            };
            Reply::count(keys.change_hash(arg(0)?, put)?)
        }
        "HSETNX" => {
            let (name, value) = (arg(1)?.to_vec(), arg(2)?.to_vec());
            let put = |hash: &mut super::keyspace::Hash| {
                let fresh = !hash.contains_key(&name);
                hash.entry(name).or_insert(value);
                i64::from(fresh)
            };
            Reply::Int(keys.change_hash(arg(0)?, put)?)
        }
        "HDEL" => {
            arg(1)?;
            let gone = |hash: &mut super::keyspace::Hash| {
                names()
                    .iter()
                    .filter(|name| hash.remove(*name).is_some())
                    .count()
            };
            Reply::count(keys.change_hash(arg(0)?, gone)?)
        }
        "ZADD" => {
            // XX changes members that are there, and adds none.
            let adds = arg(1)? != b"XX";
            let pairs = args.get(if adds { 1 } else { 2 }..).unwrap_or_default();
            if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
                return Err(arity(name));
            }
            let mut members = Vec::new();
            for pair in pairs.chunks_exact(2) {
                let [score, member] = pair else { continue };
                members.push((member.clone(), float(score)?));
            }
            let put = |set: &mut Sorted| {
                members.retain(|(member, _)| adds || set.contains_key(member));
                let fresh = |(member, score)| set.insert(member, score).is_none();
                members
                    .into_iter()
                    .map(fresh)
                    .filter(|fresh| *fresh)
                    .count()
            };
            Reply::count(keys.change_sorted(arg(0)?, put)?)
        }
        "ZREM" => {
            let gone = |set: &mut Sorted| {
                names()
                    .iter()
                    .filter(|name| set.remove(*name).is_some())
                    .count()
            };
            Reply::count(keys.change_sorted(arg(0)?, gone)?)
        }
        "ZREMRANGEBYSCORE" => {
            let (low, high) = (float(arg(1)?)?, float(arg(2)?)?);
            let gone = |set: &mut Sorted| {
                let before = set.len();
                set.retain(|_, score| *score < low || *score > high);
                before - set.len()
            };
            Reply::count(keys.change_sorted(arg(0)?, gone)?)
        }
        "ZRANGEBYSCORE" => {
            let above = arg(1)?.strip_prefix(b"(");
            let (low, high) = (float(above.unwrap_or(arg(1)?))?, float(arg(2)?)?);
            let is_in = |score: f64| {
                score <= high
                    && if above.is_some() {
                        score > low
                    } else {
                        score >= low
                    }
            };
            let found = |set: &mut Sorted| {
                let mut found: Vec<_> = set.iter().filter(|(_, score)| is_in(**score)).collect();
                found.sort_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
                found
                    .into_iter()
                    .map(|(member, _)| Reply::Bulk(member.clone()))
                    .collect()
            };
            Reply::Array(keys.change_sorted(arg(0)?, found)?)
        }
        "ZRANGE" => match keys.get(arg(0)?) {
            None => Reply::Array(Vec::new()),
            Some(Stored::Sorted(set)) => sorted_range(set, args)?,
            Some(_) => return Err(WrongType.into()),
        },
        "XLEN" => Reply::count(keys.stream(arg(0)?)?.map_or(0, |stream| stream.len())),
        "XADD" => {
            let (id, entry) = (
                entry_id(arg(1)?)?,
                args.get(2..).unwrap_or_default().to_vec(),
            );
            let stream = keys.stream(arg(0)?)?;
            if stream.is_some_and(|stream| stream.keys().next_back() >= Some(&id)) {
                return refused(
                    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
                );
            }
            keys.change_stream(arg(0)?, |stream| stream.insert(id, entry))?;
            Reply::Bulk(arg(1)?.to_vec())
        }
        "XRANGE" => return range(keys.stream(arg(0)?)?, args),
        "XTRIM" => {
            let least = entry_id(arg(2)?)?;
            let trim = |stream: &mut super::keyspace::Stream| {
                let before = stream.len();
                stream.retain(|id, _| *id >= least);
                before - stream.len()
            };
            match keys.stream(arg(0)?)? {
                None => Reply::count(0),
                Some(_) => Reply::count(keys.change_stream(arg(0)?, trim)?),
            }
        }
        "FLUSHALL" => {
            data.keys = super::keyspace::Keyspace::default();
            Reply::ok()
        }
        other => return refused(format!("ERR unknown command '{other}'")),
    })
}

/// A sorted set: the score of each member.
type Sorted = std::collections::BTreeMap<Vec<u8>, f64>;

/// ZRANGE: all members, or those from one text up to another by BYLEX with a limit.
fn sorted_range(set: &Sorted, args: &[Vec<u8>]) -> Result<Reply, Refused> {
    let texts: Vec<&[u8]> = args.iter().skip(1).map(Vec::as_slice).collect();
    let mut all: Vec<_> = set.iter().collect();
    all.sort_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
    let members = all.into_iter().map(|(member, _)| member);
    let found: Vec<&Vec<u8>> = match texts.as_slice() {
        [b"0", b"-1"] => members.collect(),
        [from, to, b"BYLEX", b"LIMIT", b"0", most] => {
            let (Some(from), Some(to)) = (from.strip_prefix(b"["), to.strip_prefix(b"(")) else {
                return refused("ERR the model knows only ranges from [ to (");
            };
            let most = usize::try_from(integer(most)?).unwrap_or(usize::MAX);
            let is_in = |member: &&Vec<u8>| member.as_slice() >= from && member.as_slice() < to;
            members.filter(is_in).take(most).collect()
        }
        _ => return refused("ERR the model knows no such range"),
    };
    let found = found.into_iter().map(|member| Reply::Bulk(member.clone()));
    Ok(Reply::Array(found.collect()))
}

/// XRANGE key from to [COUNT n]: entries of a stream in their order.
fn range(stream: Option<&super::keyspace::Stream>, args: &[Vec<u8>]) -> Result<Reply, Refused> {
    let [_, from, to, options @ ..] = args else {
        return Err(arity("XRANGE"));
    };
    let (after, from) = match from.strip_prefix(b"(") {
        Some(after) => (Some(entry_id(after)?), (0, 0)),
        None => (None, entry_id(from)?),
    };
    let to = match to.as_slice() {
        b"+" => (u64::MAX, u64::MAX),
        to => entry_id(to)?,
    };
    let count = match options {
        [_, count] => usize::try_from(integer(count)?).unwrap_or_default(),
        _ => usize::MAX,
    };
    let is_in = |id: (u64, u64)| id >= from && id <= to && after.is_none_or(|after| id > after);
    let found = stream.into_iter().flatten();
    let found = found.filter(|(id, _)| is_in(**id)).take(count);
    let bulk = |text: &Vec<u8>| Reply::Bulk(text.clone());
    Ok(Reply::Array(
        found
            .map(|((high, low), entry)| {
                let id = Reply::Bulk(format!("{high}-{low}").into_bytes());
                Reply::Array(vec![id, Reply::Array(entry.iter().map(bulk).collect())])
            })
            .collect(),
    ))
}

/// The id of an entry of a stream.
fn entry_id(text: &[u8]) -> Result<(u64, u64), Refused> {
    let text = std::str::from_utf8(text).ok();
    let parts = text.and_then(|text| text.split_once('-'));
    let id = parts.and_then(|(high, low)| Some((high.parse().ok()?, low.parse().ok()?)));
    id.ok_or_else(|| {
        Refused("ERR Invalid stream ID specified as stream command argument".to_owned())
    })
}

fn set(data: &mut Data, args: &[Vec<u8>]) -> Result<Reply, Refused> {
    let [key, text, options @ ..] = args else {
        return Err(arity("SET"));
    };
    let mut options = options.iter();
    let (mut only_new, mut ttl) = (false, None);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"PX" => ttl = Some(integer(options.next().ok_or_else(|| arity("SET"))?)?),
            _ => return refused("ERR syntax error"),
        }
    }
    if ttl.is_some_and(|ttl| ttl <= 0) {
        return refused("ERR invalid expire time in 'set' command");
    }
    if only_new && data.keys.get(key).is_some() {
        return Ok(Reply::Nil);
    }
    data.keys.set(key, text.clone(), ttl);
    Ok(Reply::ok())
}

fn arity(name: &str) -> Refused {
    Refused(format!(
        "ERR wrong number of arguments for '{}' command",
        name.to_ascii_lowercase()
    ))
}

fn integer(text: &[u8]) -> Result<i64, Refused> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| Refused("ERR value is not an integer or out of range".to_owned()))
}

fn float(text: &[u8]) -> Result<f64, Refused> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| Refused("ERR value is not a valid float".to_owned()))
}
