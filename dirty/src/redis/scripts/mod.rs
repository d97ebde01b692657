//! All scripts, and for each a function that makes its call.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::LazyLock;
use std::time::Duration;

use redis::Cmd;
use storage_model::{
    Cell, Change, Condition, Epoch, ID_WINDOW, Mutation, Owner, Partition, Timestamp, Version,
};

use crate::mark::SEPARATOR;
use crate::redis::connections::barrier::Barrier;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Adopt, HotPaired, HotPairing, Load, Marker, key};

mod feed;
mod lock;
mod marks;
mod probation;
#[cfg(any(test, feature = "sabotage"))]
mod sabotage;
mod session;

pub(crate) use feed::{read_notes, resync, trim_notes};
pub(crate) use lock::{announce, holder_of, lock, renew, unlock};
pub(crate) use marks::{
    Head, MarkRef, RowRef, collect_linked, end_collect, links, reject, settle, snapshot, tear,
};
pub(crate) use probation::{expire, probation, requeue};
pub(crate) use session::{
    LapseStep, ask_session, asked, beat, claim_session, close_session, end_grace, forget_lapsed,
    lapse, open_session, scan_sessions, sessions_of,
};

const PRELUDE: &str = include_str!("../../lua/shared/prelude.lua");
const OWNER: &str = include_str!("../../lua/shared/owner.lua");
const MARKS: &str = include_str!("../../lua/shared/marks.lua");
const INTEGERS: &str = include_str!("../../lua/shared/integers.lua");
const SESSION: &str = include_str!("../../lua/shared/session.lua");
const NOTES: &str = include_str!("../../lua/shared/notes.lua");
const MUTATION: &str = include_str!("../../lua/shared/mutation.lua");

/// A constant script. Its text never depends on data, so a server keeps each script once.
pub(crate) struct Script {
    pub(in crate::redis) name: &'static str,
    source: String,
    sha: String,
}

impl Script {
    /// The script of a file, with the shared functions that it uses between its first line and the
    /// rest.
    fn new(name: &'static str, file: &str, shared: &[&str]) -> Self {
        let (first, rest) = file.split_once('\n').unwrap_or((file, ""));
        let source = format!("{first}\n{}{rest}", shared.concat());
        #[cfg(any(test, feature = "sabotage"))]
        let source = sabotage::spoil(name, source);
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { name, source, sha }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    #[cfg(test)]
    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }

    fn call(&self, keys: &[String]) -> Cmd {
        self.call_with_room(keys, 16, 256)
    }

    /// A call with room for this many arguments after the keys, and this many bytes of arguments.
    fn call_with_room(&self, keys: &[String], arguments: usize, bytes: usize) -> Cmd {
        let key_bytes: usize = keys.iter().map(String::len).sum();
        let mut cmd = Cmd::with_capacity(
            3 + keys.len() + arguments,
            "EVALSHA".len() + self.sha.len() + 8 + key_bytes + bytes,
        );
        cmd.arg("EVALSHA").arg(&self.sha).arg(keys.len());
        for key in keys {
            cmd.arg(key);
        }
        cmd
    }

    fn read(&self, slot: u16, cmd: Cmd) -> Command {
        Command::read(self.name, slot, cmd)
    }

    fn write(&self, slot: u16, cmd: Cmd) -> Command {
        Command::write(self.name, slot, cmd)
    }
}

macro_rules! scripts {
    ($($folder:ident { $($name:ident $shared:expr;)* })*) => {
        /// The scripts by name.
        pub(crate) struct Scripts { $($($name: Script,)*)* }

        impl Scripts {
            fn new() -> Self {
                Self { $($($name: Script::new(
                    stringify!($name),
                    include_str!(concat!("../../lua/", stringify!($folder), "/", stringify!($name), ".lua")),
                    &$shared,
                ),)*)* }
            }

            /// The text of a script that a server names by its hash.
            pub(crate) fn source_of(&self, sha: &str) -> Option<&str> {
                self.all().into_iter().find(|script| script.sha == sha).map(Script::source)
            }

            /// Every script, for loading.
            pub(crate) fn all(&self) -> Vec<&Script> {
                vec![$($(&self.$name,)*)*]
            }
        }
    };
}

scripts! {
    owner {
        update [];
        end_call [PRELUDE];
        forget_calls [PRELUDE];
        mutate [PRELUDE, OWNER, SESSION, INTEGERS, MUTATION];
        transact [PRELUDE, OWNER, SESSION, INTEGERS, MUTATION];
        observe [PRELUDE, OWNER];
        fill [PRELUDE, OWNER];
        fill_part [PRELUDE, OWNER];
        check_fill [PRELUDE, OWNER];
        read_names [PRELUDE];
        evict [PRELUDE];
        marked [PRELUDE];
    }
    session {
        open_session [PRELUDE, OWNER, SESSION];
        claim_session [PRELUDE, SESSION];
        close_session [PRELUDE, SESSION];
        ask_session [PRELUDE, SESSION];
        beat [PRELUDE, SESSION];
        lapse [PRELUDE, SESSION];
        forget_lapsed [PRELUDE, SESSION];
        end_grace [PRELUDE];
    }
    partition {
        rights [];
        part_state [PRELUDE];
        adopt [PRELUDE];
        raise_landed [PRELUDE];
        pairing [PRELUDE];
        pair [PRELUDE];
        announce [PRELUDE];
        peek [PRELUDE];
        lock [PRELUDE];
        renew [PRELUDE];
        unlock [PRELUDE];
        write_for_wait [PRELUDE];
    }
    landing {
        end_collect [PRELUDE];
        snapshot [PRELUDE];
        settle [PRELUDE, MARKS];
        reject [PRELUDE, MARKS];
        probation [PRELUDE];
        expire [PRELUDE, MARKS];
        collect_linked [PRELUDE, MARKS];
        links [PRELUDE, MARKS];
        requeue [PRELUDE, MARKS];
        tear [PRELUDE, MARKS];
    }
    feed {
        read_notes [PRELUDE, NOTES];
        resync [PRELUDE, NOTES];
        trim_notes [PRELUDE];
    }
}

/// The registry.
pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);

/// The most fields of a write that `update.lua` takes. Their values go through one unpack.
const UPDATE_FIELDS_MAX: usize = 2_000;

/// Whether `update.lua` takes the write. It takes a plain write that only sets or only adds. It
/// takes a write of a session that only sets and does not end the session.
pub(crate) fn takes_update(mutation: &Mutation) -> bool {
    let all = |kind: fn(&Change) -> bool| mutation.changes.iter().all(|(_, change)| kind(change));
    let sets = all(|change| matches!(change, Change::Set(_)));
    let is_plain = mutation.fence.is_none();
    let fits = match mutation.condition {
        Condition::None if mutation.closes => false,
        Condition::None => sets || is_plain && all(|change| matches!(change, Change::Incr(_))),
        Condition::Version(_) => sets && is_plain,
        Condition::Absent => false,
    };
    let is_alone = mutation.also.is_empty() && mutation.expected.is_empty();
    fits && is_alone && (1..=UPDATE_FIELDS_MAX).contains(&mutation.changes.len())
}

/// `update.lua`: a call of a store, with this number, for writes of one partition that it takes.
/// None of them waits for replicas or the disk.
pub(crate) fn update<'a>(
    space: &Space,
    partition: Partition,
    (store, number): (&str, u64),
    marker_ttl: Option<Duration>,
    mutations: impl IntoIterator<Item = &'a Mutation>,
) -> Command {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let parts: Vec<String> = mutations
        .iter()
        .map(|mutation| key::owner_part(&mutation.owner))
        .collect();
    let apart = parts.len() == 1 || all_differ(&parts);
    let [dirty, others @ ..] = space.keys.maps(partition);
    let mut keys = vec![dirty, space.keys.part(partition)];
    keys.extend(others);
    keys.push(space.keys.sessions(partition));
    keys.push(space.keys.notes(partition));
    keys.extend(
        parts
            .iter()
            .flat_map(|part| space.keys.of_write(partition, part)),
    );
    let mut cmd = SCRIPTS.update.call(&keys);
    call_args(&mut cmd, &mutations)
        .arg(u8::from(apart))
        .arg(store)
        .arg(number)
        .arg(life(marker_ttl));
    for part in &parts {
        cmd.arg(part);
    }
    for mutation in mutations {
        update_args(&mut cmd, mutation);
    }
    Command {
        needs_policy: true,
        ..SCRIPTS.update.write(space.slot(partition), cmd)
    }
}

/// `end_call.lua`.
pub(crate) fn end_call(space: &Space, partition: Partition, store: &str, number: u64) -> Command {
    let mut cmd = SCRIPTS.end_call.call(&[space.keys.part(partition)]);
    cmd.arg(store).arg(number);
    SCRIPTS.end_call.write(space.slot(partition), cmd)
}

/// `forget_calls.lua`, for a page of the record. `gone` are names of stores, and the numbers of their last calls.
pub(crate) fn forget_calls(
    space: &Space,
    partition: Partition,
    cursor: u64,
    gone: &[(String, String)],
) -> Command {
    let mut cmd = SCRIPTS.forget_calls.call(&[space.keys.part(partition)]);
    cmd.arg(cursor);
    for (store, number) in gone {
        cmd.arg(store).arg(number);
    }
    SCRIPTS.forget_calls.write(space.slot(partition), cmd)
}

fn all_differ<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    items.into_iter().all(|item| seen.insert(item))
}

fn update_args(cmd: &mut Cmd, mutation: &Mutation) {
    let fields = mutation.changes.len();
    let noted = if mutation.note.is_some() { "!" } else { "" };
    match (mutation.condition, mutation.changes.first()) {
        (Condition::Version(version), _) => cmd.arg(format!("{fields}={version}{noted}")),
        _ if mutation.fence.is_some() => cmd.arg(format!("{fields}@{}{noted}", fence_of(mutation))),
        (_, Some((_, Change::Incr(_)))) => cmd.arg(format!("{fields}+{noted}")),
        _ if mutation.note.is_some() => cmd.arg(format!("{fields}{noted}")),
        _ => cmd.arg(fields),
    };
    if fields > 1 {
        cmd.arg(names_in_mark(mutation));
    }
    for (field, change) in mutation.changes.iter() {
        match change {
            Change::Set(value) => cmd.arg(&*key::stored(field)).arg(&**value),
            Change::Incr(step) => cmd.arg(&*key::stored(field)).arg(*step),
            Change::Add { .. } | Change::Remove | Change::Restore | Change::Purge => continue,
        };
    }
    if let Some(body) = &mutation.note {
        cmd.arg(&**body);
    }
}

/// The fields of a mutation as a mark names them.
fn names_in_mark(mutation: &Mutation) -> String {
    let mut names = String::with_capacity(16 * mutation.changes.len());
    for (field, _) in mutation.changes.iter() {
        if !names.is_empty() {
            names.push(SEPARATOR);
        }
        names.push_str(&key::stored(field));
    }
    names
}

/// The keys that `mutate.lua` and `transact.lua` name before their own.
fn mutation_keys(space: &Space, partition: Partition) -> Vec<String> {
    let all = &space.keys;
    let mut keys = vec![all.part(partition)];
    keys.extend(all.maps(partition));
    keys.extend([
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.beats(partition),
        all.notes(partition),
    ]);
    let [links, _] = all.links(partition);
    keys.push(links);
    keys
}

/// `mutate.lua`.
pub(crate) fn mutate(
    space: &Space,
    mutation: &Mutation,
    loads: &[Load],
    marker_ttl: Option<Duration>,
) -> Command {
    let partition = space.partition(&mutation.owner);
    let mut keys = mutation_keys(space, partition);
    keys.extend([0, 1].map(|parity| space.keys.ops(partition, parity)));
    let names = names_of(mutation);
    for name in &names {
        keys.extend(space.keys.of_write(partition, name));
    }
    let mut cmd = SCRIPTS.mutate.call(&keys);
    epoch(
        cmd.arg(mutation.id.as_bytes()).arg(deadline(mutation)),
        Some(mutation),
    )
    .arg(micros(ID_WINDOW))
    .arg(life(marker_ttl));
    for (part, name) in mutation.parts().zip(names) {
        let load = loads.iter().find(|load| load.owner == part.owner);
        part_args(cmd.arg(name), part, load);
    }
    let barrier = Barrier::of(mutation.durability, || write_for_wait(space, partition));
    Command {
        needs_policy: true,
        barrier,
        ..SCRIPTS.mutate.write(space.slot(partition), cmd)
    }
}

/// `transact.lua`: a call of a store, with this number, for writes of one partition. None of them
/// waits for replicas or the disk.
pub(crate) fn transact<'a>(
    space: &Space,
    partition: Partition,
    (store, number): (&str, u64),
    marker_ttl: Option<Duration>,
    mutations: impl IntoIterator<Item = &'a Mutation>,
) -> Command {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let names: Vec<_> = mutations
        .iter()
        .map(|mutation| names_of(mutation))
        .collect();
    let mut keys = mutation_keys(space, partition);
    for name in names.iter().flatten() {
        keys.extend(space.keys.of_write(partition, name));
    }
    let mut cmd = SCRIPTS.transact.call(&keys);
    call_args(&mut cmd, &mutations)
        .arg(store)
        .arg(number)
        .arg(life(marker_ttl));
    for (mutation, names) in mutations.into_iter().zip(names) {
        cmd.arg(names.len());
        for (part, name) in mutation.parts().zip(names) {
            part_args(cmd.arg(name), part, None);
        }
    }
    Command {
        needs_policy: true,
        ..SCRIPTS.transact.write(space.slot(partition), cmd)
    }
}

/// The names of a mutation's owners, as maps have them.
fn names_of(mutation: &Mutation) -> Vec<String> {
    let names = mutation.parts().map(|part| key::owner_part(&part.owner));
    names.collect()
}

/// The deadlines and the epoch of the writes of one call.
fn call_args<'a>(cmd: &'a mut Cmd, mutations: &[&Mutation]) -> &'a mut Cmd {
    let deadlines = || mutations.iter().map(|mutation| deadline(mutation));
    cmd.arg(micros(ID_WINDOW))
        .arg(deadlines().min())
        .arg(deadlines().max());
    epoch(cmd, mutations.first().copied())
}

/// The time until which a copy of a mutation may be applied.
fn deadline(mutation: &Mutation) -> u64 {
    deadline_of(mutation.deadline)
}

/// Lua's numbers hold no more than 53 bits. A deadline so far away fails anyway.
fn deadline_of(deadline: Timestamp) -> u64 {
    deadline.0.min(Version::MAX.get())
}

/// The epoch in which a mutation may be applied.
fn epoch<'a>(cmd: &'a mut Cmd, mutation: Option<&Mutation>) -> &'a mut Cmd {
    match mutation.and_then(|mutation| mutation.epoch) {
        Some(epoch) => cmd.arg(epoch.0),
        None => cmd.arg(""),
    }
}

/// The fence of the session that writes. Empty for a plain write.
fn fence_of(mutation: &Mutation) -> String {
    mutation
        .fence
        .map(|fence| fence.to_string())
        .unwrap_or_default()
}

/// One owner's part of a mutation.
fn part_args(cmd: &mut Cmd, part: &Mutation, load: Option<&Load>) {
    match part.condition {
        Condition::None => cmd.arg("none"),
        Condition::Absent => cmd.arg("absent"),
        Condition::Version(version) => cmd.arg(version.get()),
    };
    cmd.arg(fence_of(part))
        .arg(u8::from(part.closes))
        .arg(match &part.note {
            Some(body) => [b"=", &**body].concat(),
            None => Vec::new(),
        })
        .arg(part.changes.len())
        .arg(part.expected.len())
        .arg(load.map_or(0, |load| 5 + 4 * load.rows.len()));
    for (field, change) in part.changes.iter() {
        cmd.arg(&*key::stored(field));
        match change {
            Change::Set(value) => cmd.arg("set").arg(&**value),
            Change::Incr(step) => cmd.arg("incr").arg(*step),
            Change::Add { by, floor, ceiling } => {
                cmd.arg("add").arg(format!("{by} {floor} {ceiling}"))
            }
            Change::Remove => cmd.arg("remove").arg(""),
            Change::Restore => cmd.arg("restore").arg(""),
            Change::Purge => cmd.arg("purge").arg(""),
        };
    }
    for (field, value) in &part.expected {
        cmd.arg(&*key::stored(field));
        match value {
            Some(value) => cmd.arg([b"=", &**value].concat()),
            None => cmd.arg("-"),
        };
    }
    if let Some(load) = load {
        load_args(cmd, load);
    }
}

fn load_args(cmd: &mut Cmd, load: &Load) {
    cmd.arg(marker_name(load.observed.marker));
    cmd.arg(u8::from(load.observed.present))
        .arg(load.observed.epoch.0)
        .arg(u8::from(load.complete))
        .arg(load.rows.len());
    for (field, cell, version) in &load.rows {
        cmd.arg(&*key::stored(field));
        match cell {
            Cell::Live(value) => cmd.arg(&*key::stored(field)).arg(&**value),
            Cell::Removed(value) => cmd
                .arg(key::tombstone(field))
                .arg([b"r", &**value].concat()),
            Cell::Purged => cmd.arg(key::tombstone(field)).arg("p"),
        };
        cmd.arg(version.get());
    }
}

/// A marker with its kind, as the scripts name it.
fn marker_name(marker: Marker) -> String {
    match marker {
        Marker::Unknown(number) => format!("?{number}"),
        Marker::Absent(number) => format!("-{number}"),
        Marker::At(number) => number.to_string(),
        Marker::Missing(number) => format!("={number}"),
    }
}

fn fill_keys(space: &Space, owner: &Owner) -> (u16, [String; 3]) {
    let partition = space.partition(owner);
    let keys = [
        space.keys.data(partition, owner),
        space.keys.exist(partition, owner),
        space.keys.part(partition),
    ];
    (space.slot(partition), keys)
}

/// `observe.lua`.
pub(crate) fn observe(space: &Space, owner: &Owner) -> Command {
    let (slot, keys) = fill_keys(space, owner);
    SCRIPTS.observe.write(slot, SCRIPTS.observe.call(&keys))
}

/// `fill.lua`.
pub(crate) fn fill(
    space: &Space,
    load: &Load,
    clean_ttl: Duration,
    absent_ttl: Duration,
    marker_ttl: Option<Duration>,
) -> Command {
    let (slot, keys) = fill_keys(space, &load.owner);
    let maps = space.keys.maps(space.partition(&load.owner));
    let sessions = [space.keys.sessions(space.partition(&load.owner))];
    let mut cmd = SCRIPTS.fill.call(&[&keys[..], &maps, &sessions].concat());
    cmd.arg(millis(clean_ttl))
        .arg(millis(absent_ttl))
        .arg(life(marker_ttl))
        .arg(key::owner_part(&load.owner));
    load_args(&mut cmd, load);
    SCRIPTS.fill.write(slot, cmd)
}

/// `fill_part.lua`.
pub(crate) fn fill_part(
    space: &Space,
    part: &Load,
    clean_ttl: Duration,
    marker_ttl: Option<Duration>,
) -> Command {
    let (slot, keys) = fill_keys(space, &part.owner);
    let maps = space.keys.maps(space.partition(&part.owner));
    let sessions = [space.keys.sessions(space.partition(&part.owner))];
    let mut cmd = SCRIPTS
        .fill_part
        .call(&[&keys[..], &maps, &sessions].concat());
    cmd.arg(millis(clean_ttl))
        .arg(life(marker_ttl))
        .arg(key::owner_part(&part.owner));
    load_args(&mut cmd, part);
    SCRIPTS.fill_part.write(slot, cmd)
}

/// `check_fill.lua`.
pub(crate) fn check_fill(space: &Space, load: &Load) -> Command {
    let (slot, keys) = fill_keys(space, &load.owner);
    let maps = space.keys.maps(space.partition(&load.owner));
    let mut cmd = SCRIPTS.check_fill.call(&[&keys[..], &maps].concat());
    cmd.arg(key::owner_part(&load.owner));
    load_args(&mut cmd, load);
    SCRIPTS.check_fill.read(slot, cmd)
}

/// `read_names.lua`.
pub(crate) fn read_names(space: &Space, owner: &Owner) -> Command {
    let partition = space.partition(owner);
    SCRIPTS.read_names.read(
        space.slot(partition),
        SCRIPTS
            .read_names
            .call(&[space.keys.data(partition, owner)]),
    )
}

/// `evict.lua`.
pub(crate) fn evict(space: &Space, owner: &Owner) -> Command {
    let partition = space.partition(owner);
    let own = [
        space.keys.data(partition, owner),
        space.keys.evict(partition),
    ];
    let keys = [
        &own[..],
        &space.keys.maps(partition),
        &[space.keys.sessions(partition)],
    ]
    .concat();
    let mut cmd = SCRIPTS.evict.call(&keys);
    cmd.arg(key::owner_part(owner));
    SCRIPTS.evict.write(space.slot(partition), cmd)
}

/// `marked.lua`.
pub(crate) fn marked(space: &Space, owner: &Owner, epoch: Option<Epoch>) -> Command {
    let partition = space.partition(owner);
    let keys = [
        &space.keys.maps(partition)[..],
        &[space.keys.part(partition)],
    ]
    .concat();
    let mut cmd = SCRIPTS.marked.call(&keys);
    cmd.arg(key::owner_part(owner))
        .arg(epoch.map(|epoch| epoch.to_string()).unwrap_or_default());
    SCRIPTS.marked.read(space.slot(partition), cmd)
}

/// `rights.lua`, on any node. It needs no slot, since it reads no data.
pub(crate) fn rights(some_key: &str) -> Command {
    let mut cmd = SCRIPTS.rights.call(&[]);
    cmd.arg(some_key);
    SCRIPTS.rights.read(0, cmd)
}

/// `part_state.lua`.
pub(crate) fn part_state(space: &Space, partition: Partition) -> Command {
    SCRIPTS.part_state.read(
        space.slot(partition),
        SCRIPTS.part_state.call(&[space.keys.part(partition)]),
    )
}

/// `adopt.lua`.
pub(crate) fn adopt(space: &Space, adopt: &Adopt) -> Command {
    let (keys, partition) = (&space.keys, adopt.partition);
    let mut all = vec![keys.part(partition)];
    all.extend(keys.maps(partition));
    let mut cmd = SCRIPTS.adopt.call(&all);
    let recorded = adopt
        .seen
        .record
        .as_ref()
        .map_or("", |record| &record.incarnation);
    cmd.arg(recorded)
        .arg(&adopt.seen.incarnation)
        .arg(adopt.epoch.0)
        .arg(adopt.last_version.get());
    cmd.arg(
        adopt
            .database
            .map(|database| database.to_string())
            .unwrap_or_default(),
    )
    .arg(u8::from(adopt.landed_here));
    cmd.arg(u8::from(adopt.compare_all));
    cmd.arg(Version::rewind_leap(adopt.epoch))
        .arg(adopt.feed.to_string())
        .arg(adopt.stamp.0)
        .arg(adopt.until.0.min(Version::MAX.get()));
    SCRIPTS.adopt.write(space.slot(adopt.partition), cmd)
}

/// `raise_landed.lua`.
pub(crate) fn raise_landed(
    space: &Space,
    partition: Partition,
    epoch: Epoch,
    landed: Version,
) -> Command {
    let mut cmd = SCRIPTS.raise_landed.call(&[space.keys.part(partition)]);
    cmd.arg(epoch.0).arg(landed.get());
    SCRIPTS.raise_landed.write(space.slot(partition), cmd)
}

/// `pairing.lua`.
pub(crate) fn pairing(space: &Space) -> Command {
    let key = space.keys.meta();
    SCRIPTS.pairing.read(
        crate::redis::connections::slot::slot_of(key.as_bytes()),
        SCRIPTS.pairing.call(&[key]),
    )
}

/// `pair.lua`.
pub(crate) fn pair(space: &Space, seen: &HotPairing, paired: &HotPaired) -> Command {
    let key = space.keys.meta();
    let slot = crate::redis::connections::slot::slot_of(key.as_bytes());
    let mut cmd = SCRIPTS.pair.call(&[key]);
    cmd.arg(&seen.incarnation).arg(
        seen.paired
            .map(|paired| paired.token.to_string())
            .unwrap_or_default(),
    );
    cmd.arg(paired.token.to_string())
        .arg(paired.database.to_string());
    cmd.arg(paired.partitions)
        .arg(paired.layout)
        .arg(paired.since.0);
    SCRIPTS.pair.write(slot, cmd)
}

/// `peek.lua`.
pub(crate) fn peek(space: &Space, partition: Partition) -> Command {
    let keys = &space.keys;
    let keys = [
        keys.maps(partition).as_slice(),
        &[
            keys.part(partition),
            keys.lock(partition),
            keys.notes(partition),
        ],
    ]
    .concat();
    SCRIPTS
        .peek
        .read(space.slot(partition), SCRIPTS.peek.call(&keys))
}

/// `write_for_wait.lua`.
pub(crate) fn write_for_wait(space: &Space, partition: Partition) -> Command {
    SCRIPTS.write_for_wait.write(
        space.slot(partition),
        SCRIPTS.write_for_wait.call(&[space.keys.sync(partition)]),
    )
}

/// Whole milliseconds, at least 1, since Redis rejects a time to live of 0.
pub(crate) fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 3_155_760_000_000; // keeps sums with the present time far below 2^53 microseconds
    u64::try_from(duration.as_millis())
        .unwrap_or(CENTURY)
        .clamp(1, CENTURY)
}

/// The time to live of a key that may stay for ever, as the scripts have it.
fn life(ttl: Option<Duration>) -> u64 {
    ttl.map_or(0, millis)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .min(Version::MAX.get() / 4)
}

#[cfg(test)]
mod tests;
