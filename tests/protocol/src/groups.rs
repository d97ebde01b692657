//! Linked landing: transactions over several owners of one partition, landed together on every
//! path. Every interleaving of transactions, plain writes, a worker, a flush, rejected rows and
//! faults of both tiers.
//!
//! A state must not tear a transaction: the database holds all of its owners at its version or
//! later, or none. Redis can die in every state, and then the database is all that is left.
//!
//! The rules were found by an earlier search, and by its review: a group is closed over the links
//! of all maps, its owners are read in one step, and a rejected row rejects its whole group. An
//! owner is read first, and then its links are looked at in the same epoch. Without any, the read
//! values land.

#![expect(
    clippy::indexing_slicing,
    reason = "all owners and workers are numbered below the arrays' lengths"
)]

use crate::search::{Model, Step};

/// How many owners there are.
const OWNERS: usize = 3;

const READS: [&str; OWNERS] = ["reads owner 0", "reads owner 1", "reads owner 2"];
const COLLECTS: [&str; OWNERS] = [
    "collects the group of owner 0",
    "collects the group of owner 1",
    "collects the group of owner 2",
];
const RETRIES: [&str; OWNERS] = [
    "retries the group of owner 0",
    "retries the group of owner 1",
    "retries the group of owner 2",
];

/// A rule of linked landing that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The worker lands each owner by itself.
    Alone,
    /// The worker follows only the links of the snapshot.
    SnapshotOnly,
    /// The worker reads the owners of a group one after the other.
    Apart,
    /// An owner is read after the look at its links.
    LinksFirst,
    /// The links are looked at in another epoch than that of the values.
    LinksOfAnyEpoch,
    /// A flush lands its owner by itself.
    FlushAlone,
    /// A flush follows only the links of the dirty map.
    FlushDirtyOnly,
    /// A plain write of an owner drops the links of the owner's mark.
    WriteUnlinks,
    /// The worker lands the accepted rows of a group and rejects the others.
    RejectedAlone,
    /// A rejected mark loses its links.
    RejectedUnlinked,
    /// No group is followed through the error map.
    ErrorsUnfollowed,
    /// An error mark is cleared although another rejection was merged into it.
    ErrorsByName,
    /// A mark on probation loses its links.
    LandedUnlinked,
    /// A flush does not follow the marks on probation.
    LandedUnfollowed,
    /// The commit of rows ignores the epoch.
    Unfenced,
}

/// Linked landing within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Groups {
    /// How many writes are made, transactions and plain ones.
    pub writes: u8,
    /// How many of them may be plain writes of one owner.
    pub plain: u8,
    /// How many flushes may begin.
    pub flushes: u8,
    /// How many workers land the partition, because some lost the lock and do not know it.
    pub workers: usize,
    /// Whether the database rejects the rows of the first owner, until somebody mends it.
    pub rejects: bool,
    /// Whether a group that was rejected for long enough lands apart.
    pub torn: bool,
    /// How often Redis may lose all data.
    pub wipes: u8,
    /// How often Redis may be replaced by an earlier copy.
    pub failovers: u8,
    /// How often the database may be replaced by an earlier copy. Landed marks are on probation
    /// then.
    pub forgets: u8,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// A set of owners, a bit each.
type Set = u8;

fn of(owner: usize) -> Set {
    1 << owner
}

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..OWNERS).filter(move |owner| set & of(*owner) != 0)
}

/// A mark of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Mark {
    version: u8,
    /// The owners that a transaction linked with this one.
    links: Set,
    /// The mark was rejected so long ago that its group may land apart.
    old: bool,
}

/// A map of a partition: the mark of each owner.
type Map = [Option<Mark>; OWNERS];

/// Adds a mark to a map. Links are united.
fn merge(map: &mut Map, owner: usize, mark: Mark) {
    let slot = &mut map[owner];
    *slot = Some(slot.map_or(mark, |former| Mark {
        version: former.version.max(mark.version),
        links: former.links | mark.links,
        old: former.old || mark.old,
    }));
}

/// The hot tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Hot {
    versions: [u8; OWNERS],
    dirty: Map,
    snapshot: Map,
    /// The number of the snapshot.
    number: u8,
    errors: Map,
    landed: Map,
    epoch: u8,
}

/// The cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Cold {
    versions: [u8; OWNERS],
    /// The epoch of the fence.
    epoch: u8,
}

/// The source of a group's first mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Snapshot,
    Errors,
    Flush,
}

/// A landing under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Landing {
    source: Source,
    at: At,
    group: Set,
    /// The owner of the mark that the landing began with.
    first: usize,
    /// The owners that are still to be read. None, unless they are read apart.
    unread: Set,
    versions: [u8; OWNERS],
    epoch: u8,
    number: u8,
    /// The error marks as they were read.
    errors: Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// The first owner is read, and its links are not looked at yet.
    Read,
    Collected,
    Committed,
    /// The database rejected the owners.
    Rejected(Set),
}

/// A transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Transaction {
    version: u8,
    owners: Set,
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    hot: Hot,
    /// False from the replacement of a tier until its partition is adopted.
    adopted: bool,
    /// Marks on probation must become live again before the worker lands.
    requeue: bool,
    hot_copy: Option<Hot>,
    cold: Cold,
    cold_copy: Option<Cold>,
    workers: [Option<Landing>; 2],
    flush: Option<Landing>,
    /// The transactions that are acknowledged and were not lost with Redis.
    transactions: Vec<Transaction>,
    /// The transactions that were lost with Redis. None may land later.
    lost: Vec<Transaction>,
    /// The database accepts all rows.
    mended: bool,
    version: u8,
    writes: u8,
    plain: u8,
    flushes: u8,
    wipes: u8,
    failovers: u8,
    forgets: u8,
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Groups {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn has_probation(&self) -> bool {
        self.forgets > 0
    }

    /// The group of an owner: all owners that links of the maps lead to.
    fn group(&self, hot: &Hot, owner: usize, source: Source) -> Set {
        let is_flush = source == Source::Flush;
        if self.is(Broken::Alone) && !is_flush || self.is(Broken::FlushAlone) && is_flush {
            return of(owner);
        }
        let mut maps = vec![&hot.dirty];
        if !(self.is(Broken::FlushDirtyOnly) && is_flush) {
            maps.push(&hot.snapshot);
            if !self.is(Broken::ErrorsUnfollowed) {
                maps.push(&hot.errors);
            }
            if !(self.is(Broken::LandedUnfollowed) && is_flush) {
                maps.push(&hot.landed);
            }
        }
        if self.is(Broken::SnapshotOnly) && !is_flush {
            maps = vec![&hot.snapshot];
        }
        let mut group = of(owner);
        loop {
            let links = members(group)
                .flat_map(|owner| maps.iter().filter_map(move |map| map[owner]))
                .fold(group, |group, mark| group | mark.links);
            if links == group {
                return group;
            }
            group = links;
        }
    }

    /// Begins to land an owner's group: reads the owner alone.
    fn read(&self, hot: &Hot, owner: usize, source: Source) -> Landing {
        let mut versions = [0; OWNERS];
        versions[owner] = hot.versions[owner];
        let mut errors = [None; OWNERS];
        errors[owner] = hot.errors[owner];
        let group = if self.is(Broken::LinksFirst) {
            self.group(hot, owner, source)
        } else {
            of(owner)
        };
        Landing {
            source,
            at: At::Read,
            group,
            first: owner,
            unread: 0,
            versions,
            epoch: hot.epoch,
            number: hot.number,
            errors,
        }
    }

    /// Looks at the links of an owner that was read. Without any, the read values land. Otherwise
    /// the whole group is read, in one step. `None` in another epoch.
    fn look(&self, world: &World, landing: Landing) -> Option<Landing> {
        let hot = &world.hot;
        let same = world.adopted && landing.epoch == hot.epoch;
        if !same && !self.is(Broken::LinksOfAnyEpoch) {
            return None;
        }
        let owner = landing.first;
        let first = self.is(Broken::LinksFirst);
        let group = if first {
            landing.group
        } else {
            self.group(hot, owner, landing.source)
        };
        if group != of(owner) {
            let number = landing.number;
            return Some(Landing {
                number,
                ..self.collect(hot, owner, landing.source)
            });
        }
        let mut versions = landing.versions;
        if first {
            versions[owner] = hot.versions[owner];
        }
        Some(Landing {
            at: At::Collected,
            versions,
            ..landing
        })
    }

    /// Reads an owner's group.
    fn collect(&self, hot: &Hot, owner: usize, source: Source) -> Landing {
        let group = self.group(hot, owner, source);
        let apart = self.is(Broken::Apart) && source != Source::Flush;
        let read = if apart { of(owner) } else { group };
        let (mut versions, mut errors) = (hot.versions, hot.errors);
        for owner in 0..OWNERS {
            if read & of(owner) == 0 {
                versions[owner] = 0;
            }
            if group & of(owner) == 0 {
                errors[owner] = None;
            }
        }
        Landing {
            source,
            at: At::Collected,
            group,
            first: owner,
            unread: group & !read,
            versions,
            epoch: hot.epoch,
            number: hot.number,
            errors,
        }
    }

    /// The owners of a group whose rows the database rejects.
    fn rejected(&self, world: &World, group: Set) -> Set {
        if self.rejects && !world.mended {
            group & of(0)
        } else {
            0
        }
    }

    fn writes(&self, world: &World, take: Take<'_>) {
        if world.writes == 0 || !world.adopted {
            return;
        }
        for owners in 1..(1 << OWNERS) {
            let plain = Set::count_ones(owners) == 1;
            if Set::count_ones(owners) > 2 || plain && world.plain == 0 {
                continue;
            }
            let mut next = world.clone();
            next.writes -= 1;
            next.plain -= u8::from(plain);
            next.version += 1;
            let version = next.version;
            for owner in members(owners) {
                next.hot.versions[owner] = version;
                if plain && self.is(Broken::WriteUnlinks) {
                    next.hot.dirty[owner] = None;
                }
                let links = owners & !of(owner);
                let old = false;
                merge(
                    &mut next.hot.dirty,
                    owner,
                    Mark {
                        version,
                        links,
                        old,
                    },
                );
            }
            if !plain {
                next.transactions.push(Transaction { version, owners });
            }
            let what = if plain { "writes" } else { "moves between" };
            take(step("game server", usize::from(owners), what), Ok(next));
        }
    }

    fn worker(&self, world: &World, number: usize, take: Take<'_>) {
        let Some(landing) = world.workers[number] else {
            if world.adopted && world.requeue {
                take(
                    step("worker", number, "requeues probation"),
                    Ok(self.requeue(world)),
                );
            } else if world.adopted {
                self.begin(world, number, take);
            }
            return;
        };
        let mut next = world.clone();
        match landing.at {
            At::Read => {
                next.workers[number] = self.look(world, landing);
                take(step("worker", number, COLLECTS[landing.first]), Ok(next));
            }
            At::Collected if landing.unread != 0 => {
                let Some(owner) = members(landing.unread).next() else {
                    return;
                };
                if let Some(landing) = &mut next.workers[number] {
                    landing.unread &= !of(owner);
                    landing.versions[owner] = world.hot.versions[owner];
                }
                take(step("worker", number, READS[owner]), Ok(next));
            }
            At::Collected => {
                next.workers[number] = self.commit(&mut next, landing);
                take(step("worker", number, "commits"), Ok(next));
            }
            At::Committed => {
                self.settle(&mut next, &landing, landing.group);
                next.workers[number] = None;
                take(step("worker", number, "settles"), Ok(next));
            }
            At::Rejected(rejected) => {
                self.reject(&mut next, &landing, rejected);
                next.workers[number] = None;
                take(step("worker", number, "rejects"), Ok(next));
            }
        }
        let mut dead = world.clone();
        dead.workers[number] = None;
        take(step("worker", number, "dies"), Ok(dead));
    }

    fn begin(&self, world: &World, number: usize, take: Take<'_>) {
        let hot = &world.hot;
        if hot.snapshot.iter().all(Option::is_none) && hot.dirty.iter().any(Option::is_some) {
            let mut next = world.clone();
            next.hot.snapshot = std::mem::take(&mut next.hot.dirty);
            next.hot.number += 1;
            take(step("worker", number, "takes a snapshot"), Ok(next));
        }
        for (map, source, what) in [
            (&hot.snapshot, Source::Snapshot, READS),
            (&hot.errors, Source::Errors, RETRIES),
        ] {
            for owner in (0..OWNERS).filter(|owner| map[*owner].is_some()) {
                let mut next = world.clone();
                next.workers[number] = Some(self.read(hot, owner, source));
                take(step("worker", number, what[owner]), Ok(next));
            }
        }
    }

    /// Commits a group as one transaction. A group with an old rejection lands apart.
    fn commit(&self, world: &mut World, landing: Landing) -> Option<Landing> {
        if landing.epoch != world.cold.epoch && !self.is(Broken::Unfenced) {
            return None;
        }
        let rejected = self.rejected(world, landing.group);
        let is_old = |owner: usize| landing.errors[owner].is_some_and(|mark| mark.old);
        let is_torn = rejected != 0 && members(landing.group).any(is_old);
        let apart = is_torn || self.is(Broken::RejectedAlone);
        if rejected == 0 || apart {
            for owner in members(landing.group & !rejected) {
                let row = &mut world.cold.versions[owner];
                *row = landing.versions[owner].max(*row);
            }
        }
        if is_torn {
            // The operator was told. Nothing is promised of these transactions any more.
            world
                .transactions
                .retain(|one| one.owners & landing.group == 0);
        }
        let at = if rejected == 0 {
            At::Committed
        } else {
            At::Rejected(if apart { rejected } else { landing.group })
        };
        Some(Landing { at, ..landing })
    }

    /// Clears the marks of landed owners.
    fn settle(&self, world: &mut World, landing: &Landing, landed: Set) {
        let hot = &mut world.hot;
        if !world.adopted || landing.epoch != hot.epoch {
            return;
        }
        for owner in members(landed) {
            if landing.number == hot.number
                && let Some(mark) = hot.snapshot[owner].take()
                && self.has_probation()
            {
                let links = if self.is(Broken::LandedUnlinked) {
                    0
                } else {
                    mark.links
                };
                merge(&mut hot.landed, owner, Mark { links, ..mark });
            }
            if let Some(read) = landing.errors[owner]
                && (hot.errors[owner] == Some(read) || self.is(Broken::ErrorsByName))
            {
                hot.errors[owner] = None;
                if self.has_probation() {
                    merge(&mut hot.landed, owner, Mark { old: false, ..read });
                }
            }
        }
    }

    /// Moves the marks of rejected owners to the error map, and clears those of the others.
    fn reject(&self, world: &mut World, landing: &Landing, rejected: Set) {
        let is_torn = rejected != landing.group;
        self.settle(world, landing, landing.group & !rejected);
        let hot = &mut world.hot;
        if !world.adopted || landing.epoch != hot.epoch {
            return;
        }
        for owner in members(rejected) {
            if landing.number == hot.number
                && let Some(mark) = hot.snapshot[owner].take()
            {
                let links = if self.is(Broken::RejectedUnlinked) {
                    0
                } else {
                    mark.links
                };
                merge(&mut hot.errors, owner, Mark { links, ..mark });
            }
            // A torn group is none any more.
            if is_torn
                && landing.errors[owner] == hot.errors[owner]
                && let Some(mark) = &mut hot.errors[owner]
            {
                mark.links = 0;
            }
        }
    }

    fn flush(&self, world: &World, take: Take<'_>) {
        let mut next = world.clone();
        let Some(landing) = world.flush else {
            for owner in (0..OWNERS).filter(|_| world.flushes > 0 && world.adopted) {
                let mut next = world.clone();
                next.flushes -= 1;
                next.flush = Some(self.read(&world.hot, owner, Source::Flush));
                take(step("flush", owner, "reads"), Ok(next));
            }
            return;
        };
        if landing.at == At::Read {
            next.flush = self.look(world, landing);
            take(
                step("flush", landing.first, "collects the group of"),
                Ok(next),
            );
            return;
        }
        next.flush = None;
        let rejected = self.rejected(world, landing.group);
        if rejected == 0 {
            self.commit(&mut next, landing);
        }
        take(step("flush", 0, "commits"), Ok(next));
    }

    fn faults(&self, world: &World, take: Take<'_>) {
        let mut next = world.clone();
        if self.rejects && !world.mended {
            next.mended = true;
            take(step("operator", 0, "mends the database"), Ok(next));
        }
        let mut next = world.clone();
        let fresh = |mark: &&mut Mark| !mark.old;
        if self.torn
            && next
                .hot
                .errors
                .iter_mut()
                .flatten()
                .any(|mark| fresh(&mark))
        {
            next.hot
                .errors
                .iter_mut()
                .flatten()
                .for_each(|mark| mark.old = true);
            take(step("time", 0, "passes until groups may tear"), Ok(next));
        }
        self.hot_faults(world, take);
        self.cold_faults(world, take);
        if !world.adopted {
            take(
                step("worker", 0, "adopts the partition"),
                Ok(self.adopt(world)),
            );
        }
    }

    fn hot_faults(&self, world: &World, take: Take<'_>) {
        if world.wipes > 0 {
            let mut next = world.clone();
            next.wipes -= 1;
            next.replace(Hot::default());
            take(step("Redis", 0, "is wiped"), Ok(next));
        }
        if world.failovers > 0 && world.hot_copy.is_none() && world.adopted {
            let mut next = world.clone();
            next.hot_copy = Some(world.hot);
            take(step("replica", 0, "has a copy"), Ok(next));
        }
        if let Some(copy) = world.hot_copy {
            let mut next = world.clone();
            next.failovers -= 1;
            next.hot_copy = None;
            next.replace(copy);
            take(step("replica", 0, "takes over"), Ok(next));
        }
    }

    fn cold_faults(&self, world: &World, take: Take<'_>) {
        if world.forgets > 0 && world.cold_copy.is_none() {
            let mut next = world.clone();
            // Landed marks leave probation only if no copy of the database lacks their rows.
            next.cold_copy = Some(world.cold);
            take(step("database", 0, "is copied"), Ok(next));
        }
        if let Some(copy) = world.cold_copy
            && world.adopted
        {
            let mut next = world.clone();
            next.forgets -= 1;
            next.cold_copy = None;
            next.cold = copy;
            // Every landing that began meets a fence of the past.
            next.cold.epoch = u8::MAX;
            next.adopted = false;
            next.requeue = true;
            take(step("database", 0, "is replaced by its copy"), Ok(next));
        }
    }

    /// A new epoch. Owners that are older than their rows take the rows.
    fn adopt(&self, world: &World) -> World {
        let mut next = world.clone();
        let (hot, cold) = (&mut next.hot, &mut next.cold);
        let is_in = |versions: &[u8; OWNERS], one: &Transaction| {
            members(one.owners).all(|owner| versions[owner] >= one.version)
        };
        let (kept, lost) = std::mem::take(&mut next.transactions)
            .into_iter()
            .partition(|one| is_in(&hot.versions, one) || is_in(&cold.versions, one));
        next.transactions = kept;
        next.lost.extend::<Vec<_>>(lost);
        for owner in 0..OWNERS {
            hot.versions[owner] = hot.versions[owner].max(cold.versions[owner]);
        }
        next.version += 1;
        hot.epoch = next.version;
        cold.epoch = hot.epoch;
        next.adopted = true;
        next
    }

    /// Marks on probation become live again.
    fn requeue(&self, world: &World) -> World {
        let mut next = world.clone();
        let landed = std::mem::take(&mut next.hot.landed);
        for (owner, mark) in landed.into_iter().enumerate() {
            if let Some(mark) = mark {
                merge(&mut next.hot.dirty, owner, mark);
            }
        }
        next.requeue = false;
        next
    }
}

impl World {
    /// Another Redis takes the place of this one.
    fn replace(&mut self, hot: Hot) {
        self.hot = hot;
        self.adopted = false;
    }

    /// A transaction of which the database holds a part.
    fn torn(&self) -> Option<String> {
        let torn = self.transactions.iter().find(|one| {
            let landed = members(one.owners)
                .filter(|owner| self.cold.versions[*owner] >= one.version)
                .count();
            landed != 0 && landed != members(one.owners).count()
        })?;
        let owners: Vec<_> = members(torn.owners).collect();
        Some(format!(
            "the database holds a part of transaction {} of the owners {owners:?}",
            torn.version
        ))
    }

    /// A transaction that landed although it was lost.
    fn revived(&self) -> Option<String> {
        let is_revived = |one: &&Transaction| {
            members(one.owners).any(|owner| self.cold.versions[owner] == one.version)
        };
        let revived = self.lost.iter().find(is_revived)?;
        Some(format!(
            "transaction {} was lost and landed later",
            revived.version
        ))
    }

    /// An owner that nothing will land.
    fn forgotten(&self) -> Option<String> {
        let hot = &self.hot;
        let maps = [&hot.dirty, &hot.snapshot, &hot.errors, &hot.landed];
        let owner = (0..OWNERS).find(|owner| {
            self.adopted
                && hot.versions[*owner] > self.cold.versions[*owner]
                && maps.iter().all(|map| map[*owner].is_none())
        })?;
        Some(format!(
            "owner {owner} is newer than its row, and no map names it"
        ))
    }
}

impl Model for Groups {
    type State = World;

    fn start(&self) -> World {
        World {
            hot: Hot::default(),
            adopted: true,
            requeue: false,
            hot_copy: None,
            cold: Cold::default(),
            cold_copy: None,
            workers: [None; 2],
            flush: None,
            transactions: Vec::new(),
            lost: Vec::new(),
            mended: false,
            version: 0,
            writes: self.writes,
            plain: self.plain,
            flushes: self.flushes,
            wipes: self.wipes,
            failovers: self.failovers,
            forgets: self.forgets,
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.writes(world, take);
        for number in 0..self.workers {
            self.worker(world, number, take);
        }
        self.flush(world, take);
        self.faults(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        world
            .torn()
            .or_else(|| world.revived())
            .or_else(|| world.forgotten())
    }
}
