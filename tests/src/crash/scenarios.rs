//! The actions of processes that die at every point of them.

use anyhow::{Result, ensure};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use storage_dirty::{Lock, Snapshot};

use super::play::Play;
use super::sessions::{SESSIONS, SESSIONS_STOLEN, SESSIONS_WIPED};

/// One part of a scenario.
pub type Act = for<'a> fn(&'a Play<'a>) -> LocalBoxFuture<'a, Result<()>>;

/// A history with a try at each of its points.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The actions before points are counted.
    pub before: Act,
    /// The counted actions.
    pub act: Act,
    /// The actions of the next process, before it lands the rest.
    pub next: Act,
    /// The comparison with the answers of a layer, after everything has landed.
    pub compare: Act,
    /// Whether the opening of the storage also counts.
    pub opening: bool,
    /// The least number of requests, so that the loop over them can't be empty.
    pub points_min: usize,
}

/// A scenario without any action.
pub const PLAIN: Scenario = Scenario {
    name: "",
    before: nothing,
    act: nothing,
    next: nothing,
    compare: nothing,
    opening: false,
    points_min: 15,
};

/// The owner whose field "v" the database rejects until the poison is taken away.
pub const POISONED: &str = "bad";

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[
    FIRST_WRITES,
    HOT_LOAD,
    LEFTOVER_SNAPSHOT,
    REMOVAL,
    FLUSH,
    POISON,
    EVICT_WHILE_DIRTY,
    WIPED,
    REWOUND,
    FIRST_CONTACT,
    BULK,
    TWO_WORKERS,
    SESSIONS,
    SESSIONS_STOLEN,
    SESSIONS_WIPED,
];

/// The scenarios that also run on MariaDB, and with pairs of points.
pub const CHOSEN: &[Scenario] = &[FIRST_WRITES, HOT_LOAD];

/// Writes of owners that were never seen, and their landing.
pub const FIRST_WRITES: Scenario = Scenario {
    name: "first_writes",
    act: first_writes,
    ..PLAIN
};
/// Increments and reads of evicted owners, which build on loaded rows.
pub const HOT_LOAD: Scenario = Scenario {
    name: "hot_load",
    before: cold,
    act: count_on_cold,
    ..PLAIN
};
/// Landing of several owners beside a snapshot that a dead worker left.
pub const LEFTOVER_SNAPSHOT: Scenario = Scenario {
    name: "leftover_snapshot",
    before: leave_snapshot,
    act: land_leftover,
    ..PLAIN
};
/// Tombstones: removal, restoration, purge.
pub const REMOVAL: Scenario = Scenario {
    name: "removal",
    before: landed,
    act: remove_restore_purge,
    points_min: 25,
    ..PLAIN
};
/// Landing in the caller's process.
pub const FLUSH: Scenario = Scenario {
    name: "flush",
    before: landed,
    act: flush,
    ..PLAIN
};
/// A row that the database rejects: bisection, the error map, replay.
pub const POISON: Scenario = Scenario {
    name: "poison",
    before: poison,
    act: reject_and_replay,
    points_min: 30,
    ..PLAIN
};
/// Evictions that wait for the landing.
pub const EVICT_WHILE_DIRTY: Scenario = Scenario {
    name: "evict_while_dirty",
    act: evict_while_dirty,
    points_min: 20,
    ..PLAIN
};
/// A Redis that lost all its data: epochs raised and adopted.
pub const WIPED: Scenario = Scenario {
    name: "wiped",
    before: wiped,
    act: go_on,
    points_min: 20,
    ..PLAIN
};
/// A Redis that came back older: suspect owners.
pub const REWOUND: Scenario = Scenario {
    name: "rewound",
    before: rewound,
    act: go_on,
    points_min: 20,
    ..PLAIN
};
/// The opening of a storage on empty tiers.
pub const FIRST_CONTACT: Scenario = Scenario {
    name: "first_contact",
    act: first_contact,
    opening: true,
    points_min: 20,
    ..PLAIN
};
/// Many owners in one call.
pub const BULK: Scenario = Scenario {
    name: "bulk",
    before: landed,
    act: bulk,
    ..PLAIN
};
/// Two workers that share the partitions.
pub const TWO_WORKERS: Scenario = Scenario {
    name: "two_workers",
    act: two_workers,
    points_min: 20,
    ..PLAIN
};

fn nothing<'a>(_: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async { Ok(()) }.boxed_local()
}

fn first_writes<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "10"), ("name", "Ann")]).await?;
        play.set("bob", &[("gold", "1"), ("name", "Bob"), ("bag", "sword")])
            .await?;
        play.incr("ann", &[("gold", 5)]).await?;
        play.land().await
    }
    .boxed_local()
}

pub(super) fn landed<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "10"), ("bag", "sword")]).await?;
        play.set("bob", &[("gold", "1")]).await?;
        play.land().await
    }
    .boxed_local()
}

fn cold<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        landed(play).await?;
        ensure!(
            play.evict("ann").await? && play.evict("bob").await?,
            "an eviction failed"
        );
        Ok(())
    }
    .boxed_local()
}

fn count_on_cold<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.incr("ann", &[("gold", 5), ("wins", 1)]).await?;
        play.set("bob", &[("name", "Bob")]).await?;
        play.incr("bob", &[("gold", 1)]).await?;
        play.read("ann").await?;
        play.land().await
    }
    .boxed_local()
}

fn leave_snapshot<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "10"), ("name", "Ann")]).await?;
        play.set("bob", &[("gold", "1")]).await?;
        let hot = play.storage.tiers().hot();
        let lock = Lock {
            holder: "dead".to_owned(),
            token: "dead".to_owned(),
        };
        for id in ["ann", "bob"] {
            let partition = play.partition(id)?;
            hot.partitions
                .lock(&[partition], &lock, play.place.landing().lock_ttl)
                .await;
            ensure!(
                hot.marks.snapshot(partition, &lock).await? != Snapshot::Empty,
                "there is no snapshot"
            );
        }
        play.place.time_passes().await
    }
    .boxed_local()
}

fn land_leftover<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "11"), ("name", "Ann")]).await?;
        play.incr("bob", &[("gold", 7)]).await?;
        play.set("eve", &[("gold", "3")]).await?;
        play.land().await
    }
    .boxed_local()
}

fn remove_restore_purge<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.remove("ann", &["bag"]).await?;
        play.restore("ann", &["bag"]).await?;
        play.remove("ann", &["bag", "gold"]).await?;
        play.land().await?;
        play.purge("ann", &["bag"]).await?;
        play.incr("ann", &[("gold", 2)]).await?;
        play.land().await
    }
    .boxed_local()
}

fn flush<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "20"), ("bag", "shield")])
            .await?;
        play.flush("ann").await?;
        play.incr("ann", &[("gold", 1)]).await?;
        play.unload("ann").await?;
        play.read("ann").await?;
        play.land().await
    }
    .boxed_local()
}

fn poison<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move { play.place.poison(POISONED, true).await }.boxed_local()
}

fn reject_and_replay<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set(POISONED, &[("v", "1"), ("w", "1")]).await?;
        play.set_all(&["ann", "bob", "eve"], &[("v", "1")]).await?;
        play.land().await?;
        play.set(POISONED, &[("w", "2")]).await?;
        play.place.poison(POISONED, false).await?;
        play.land_until(1, async || {
            let look = play.place.look().await?;
            Ok(look.waiting() + look.refused() == 0)
        })
        .await
    }
    .boxed_local()
}

fn evict_while_dirty<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set("ann", &[("gold", "1"), ("bag", "bow")]).await?;
        play.evict("ann").await?;
        play.incr("ann", &[("gold", 1)]).await?;
        play.land().await?;
        play.evict("ann").await?;
        play.read("ann").await?;
        play.incr("ann", &[("gold", 1)]).await?;
        play.unload("ann").await?;
        play.land().await
    }
    .boxed_local()
}

/// Redis loses all its data after everything has landed.
fn wiped<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        landed(play).await?;
        play.place.rewind(Vec::new()).await
    }
    .boxed_local()
}

/// Redis comes back with its data from before the last landing.
fn rewound<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        landed(play).await?;
        let saved = play.place.save().await?;
        play.set("ann", &[("gold", "20"), ("bag", "shield")])
            .await?;
        play.incr("bob", &[("gold", 6)]).await?;
        play.set("eve", &[("gold", "3")]).await?;
        play.land().await?;
        play.place.rewind(saved).await
    }
    .boxed_local()
}

fn go_on<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.incr("bob", &[("gold", 1)]).await?;
        play.read("ann").await?;
        play.set("ann", &[("bag", "lance")]).await?;
        play.set("new", &[("gold", "1")]).await?;
        play.land().await
    }
    .boxed_local()
}

fn first_contact<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.read("nobody").await?;
        play.set("ann", &[("gold", "1")]).await?;
        play.incr("bob", &[("gold", 1)]).await?;
        play.land().await
    }
    .boxed_local()
}

fn bulk<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set_all(
            &["ann", "bob", "eve", "joe", "kim"],
            &[("gold", "7"), ("bag", "axe")],
        )
        .await?;
        play.set_all(&["ann", "joe"], &[("gold", "8")]).await?;
        play.incr("kim", &[("gold", 1)]).await?;
        play.land().await
    }
    .boxed_local()
}

fn two_workers<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        play.set_all(&["ann", "bob", "eve", "joe"], &[("gold", "7")])
            .await?;
        play.land_with(2).await?;
        play.incr("ann", &[("gold", 1)]).await?;
        play.land_with(2).await
    }
    .boxed_local()
}
