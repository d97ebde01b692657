//! A server: it lists the rows and claims one of them, or renews its claim.

use super::{Broken, Claims, PERIODS, READS, SHARDS, Token, World};
use crate::shards::decisions::{Holder, equal_reads, may_take};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Runs,
    Paused,
    Dead,
}

/// The observations of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Seen {
    /// How many reads in a row were equal.
    equal: u8,
    /// Whether the row was written since the last one.
    is_changed: bool,
}

/// The claim of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Claim {
    shard: usize,
    token: Token,
}

/// A row that a server claims next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pick {
    shard: usize,
    /// Whether the row was written since it was picked.
    is_changed: bool,
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) mode: Mode,
    claim: Option<Claim>,
    seen: [Seen; SHARDS],
    pick: Option<Pick>,
    /// How many ticks in a row the database was away.
    away: u8,
}

impl Server {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            claim: None,
            seen: Default::default(),
            pick: None,
            away: 0,
        }
    }

    /// The server with a claim or without one, after an answer of the database. It has observed
    /// nothing yet.
    fn anew(&self, claim: Option<Claim>) -> Self {
        Self {
            claim,
            ..Self::new(self.mode)
        }
    }

    pub(super) fn serves(&self, shard: usize, token: Token) -> bool {
        self.mode == Mode::Runs && self.claim == Some(Claim { shard, token })
    }

    pub(super) fn has_picked(&self) -> bool {
        self.pick.is_some()
    }

    /// The name of the next step.
    pub(super) fn next_step(&self) -> &'static str {
        match (self.claim, self.pick) {
            (Some(_), _) => "renews",
            (None, None) => "lists the rows",
            (None, Some(_)) => "claims a row",
        }
    }
}

/// The next step of a server. With `is_lost` the server does not learn that it has claimed a row.
pub(super) fn act(
    claims: &Claims,
    world: &World,
    at: usize,
    is_lost: bool,
) -> Result<World, String> {
    let mut next = *world;
    next.acted[at] = true;
    let server = world.servers[at];
    if !world.is_up {
        next.servers[at] = without_database(claims, server)?;
        return Ok(next);
    }
    match (server.claim, server.pick) {
        (Some(claim), _) => renew(claims, &mut next, at, claim)?,
        (None, None) => list(claims, &mut next, at),
        (None, Some(pick)) => take(claims, &mut next, at, pick, is_lost)?,
    }
    Ok(next)
}

/// The server after a statement that failed.
fn without_database(claims: &Claims, server: Server) -> Result<Server, String> {
    let away = (server.away + 1).min(PERIODS);
    let ends = claims.is(Broken::Unknown) || claims.is(Broken::Fence) && away == PERIODS;
    if server.claim.is_some() && ends {
        return Err("a server gave up its shard because the database was away".to_owned());
    }
    let seen = if claims.is(Broken::Blind) {
        server.seen
    } else {
        Default::default()
    };
    Ok(Server {
        seen,
        pick: None,
        away,
        ..server
    })
}

fn renew(claims: &Claims, world: &mut World, at: usize, claim: Claim) -> Result<(), String> {
    let server = world.servers[at];
    if world.rows[claim.shard] == Some(claim.token) {
        write(world, claim.shard, claim.token);
        world.servers[at] = Server { away: 0, ..server };
        return Ok(());
    }
    if claims.is(Broken::Token) {
        return Err("a renewal succeeded for a server that is not the holder".to_owned());
    }
    world.servers[at] = server.anew(None);
    Ok(())
}

/// Reads all rows. A server that may take one goes on in the same tick.
fn list(claims: &Claims, world: &mut World, at: usize) {
    let rows = world.rows;
    let server = &mut world.servers[at];
    server.away = 0;
    for seen in &mut server.seen {
        *seen = Seen {
            equal: equal_reads(seen.equal, seen.is_changed, READS),
            is_changed: false,
        };
    }
    let candidate = (0..SHARDS).find(|shard| {
        let holder = holder(rows[*shard], at);
        is_candidate(claims, holder, server.seen[*shard].equal)
    });
    server.pick = candidate.map(|shard| Pick {
        shard,
        is_changed: false,
    });
    world.acted[at] = candidate.is_none();
}

fn holder(row: Option<Token>, at: usize) -> Holder {
    match row {
        None => Holder::Nobody,
        Some(token) if token.server == at => Holder::Itself,
        Some(_) => Holder::Another,
    }
}

fn is_candidate(claims: &Claims, holder: Holder, equal: u8) -> bool {
    match (holder, claims.broken) {
        (Holder::Itself, Some(Broken::Foreign)) | (Holder::Another, Some(Broken::Never)) => false,
        (_, Some(Broken::Hasty)) => may_take(holder, equal, READS - 1),
        _ => may_take(holder, equal, READS),
    }
}

/// Claims the row, unless it has changed since it was read.
fn take(
    claims: &Claims,
    world: &mut World,
    at: usize,
    pick: Pick,
    is_lost: bool,
) -> Result<(), String> {
    let server = world.servers[at];
    if pick.is_changed && !claims.is(Broken::Compare) {
        world.servers[at] = Server {
            pick: None,
            away: 0,
            ..server
        };
        return Ok(());
    }
    let row = world.rows[pick.shard];
    if row.is_some_and(|token| renews(world, pick.shard, token, at)) {
        return Err("a claim was taken although its holder renewed whenever it could".to_owned());
    }
    let first = Token {
        server: at,
        is_second: false,
    };
    let token = Token {
        is_second: row == Some(first),
        ..first
    };
    write(world, pick.shard, token);
    let claim = Claim {
        shard: pick.shard,
        token,
    };
    world.servers[at] = server.anew(Some(claim).filter(|_| !is_lost));
    Ok(())
}

/// The oracle: whether another server has this token, runs, and has renewed whenever it could.
fn renews(world: &World, shard: usize, token: Token, at: usize) -> bool {
    let holder = world.servers[token.server];
    let is_held = holder.claim.is_some_and(|claim| claim.token == token);
    token.server != at && holder.mode == Mode::Runs && is_held && world.missed[shard] < PERIODS
}

/// Writes a row. All observers find it changed.
fn write(world: &mut World, shard: usize, token: Token) {
    world.rows[shard] = Some(token);
    world.missed[shard] = 0;
    for server in &mut world.servers {
        server.seen[shard].is_changed = true;
        if let Some(pick) = server.pick.as_mut().filter(|pick| pick.shard == shard) {
            pick.is_changed = true;
        }
    }
}
