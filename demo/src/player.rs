//! One simulated player: its actions, and its log.

use std::collections::{BTreeMap, BTreeSet};
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use storage_model::{Cell, Field};
use storage_sdk::{
    ByteOwner, Bytes, Kind, ObjStorage, OpId, Retry, SaveObject, Storage, World, codec,
};
use tokio::time::{Instant, sleep};

use crate::difference::Difference;
use crate::log::Log;

/// A player's public profile. It is saved as one object beside the player's other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player", field = "profile")]
pub struct Profile {
    #[save_object(owner_id)]
    id: u32,
    name: String,
    level: u32,
    #[serde(default)]
    guild: Option<String>,
}

/// The counts of all players' actions so far.
#[derive(Debug, Default)]
pub struct Totals {
    /// Writes acknowledged.
    pub writes: AtomicU64,
    /// Fields that these writes changed.
    pub fields: AtomicU64,
    /// Writes sent again under their id, because their outcome was unknown.
    pub repeats: AtomicU64,
    /// Logins, including the first ones.
    pub logins: AtomicU64,
    /// Logouts.
    pub logouts: AtomicU64,
}

fn count(counter: &AtomicU64, n: u32) {
    counter.fetch_add(n.into(), Ordering::Relaxed);
}

/// A player, offline at first.
#[derive(Debug)]
pub struct Player {
    storage: Storage,
    owner: ByteOwner,
    profiles: ObjStorage<Profile>,
    profile: Profile,
    online: bool,
    rng: StdRng,
    log: Log,
    differences: Vec<Difference>,
    totals: Arc<Totals>,
}

/// The time for which a player repeats a write that neither succeeds nor fails for good.
const PATIENCE: Duration = Duration::from_secs(30);
/// The wait before a write with an unknown outcome is repeated under its id.
const REPEAT: Duration = Duration::from_millis(100);
/// The time for which a logout waits for the database.
const LOGOUT: Duration = Duration::from_secs(5);
/// The number of slots of a player's bag.
const SLOTS: u32 = 8;

fn field(name: &str) -> storage_sdk::Result<Field> {
    Ok(Field::new(name)?)
}

impl Player {
    /// A player. `seed` and the id determine its actions.
    ///
    /// # Errors
    /// None: a number is always a valid id.
    pub fn new(
        storage: &Storage,
        world: &World,
        id: u32,
        seed: u64,
        totals: &Arc<Totals>,
    ) -> storage_sdk::Result<Self> {
        Ok(Self {
            storage: storage.clone(),
            owner: world.bytes().owner(Profile::LOGIC_TYPE, id)?,
            profiles: world.objects(),
            profile: Profile {
                id,
                name: format!("Player {id}"),
                level: 0,
                guild: None,
            },
            online: false,
            rng: StdRng::seed_from_u64(
                seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .wrapping_add(id.into()),
            ),
            log: Log::default(),
            differences: Vec::new(),
            totals: Arc::clone(totals),
        })
    }

    /// The player's fields.
    #[must_use]
    pub fn owner(&self) -> &ByteOwner {
        &self.owner
    }

    /// The player's log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Differences from the log that the player saw while it played.
    #[must_use]
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Does one action. An offline player logs in. An online player plays, saves, or logs out.
    ///
    /// # Errors
    /// The storage rejects a call for good.
    pub async fn act(&mut self) -> anyhow::Result<()> {
        let acted = if self.online {
            self.play().await
        } else {
            self.login().await
        };
        acted.with_context(|| format!("player {}", self.profile.id))
    }

    async fn play(&mut self) -> anyhow::Result<()> {
        match self.rng.random_range(0..100) {
            0..50 => self.walk().await,
            50..80 => self.earn().await,
            80..88 => self.loot().await,
            88..93 => self.lose().await,
            93..98 => self.save().await,
            _ => self.logout().await,
        }
    }

    /// Reads all fields back, hot or cold, and compares them with the log. A new player is created.
    async fn login(&mut self) -> anyhow::Result<()> {
        let profile = self.profiles.load(self.profile.id).await?;
        let record = self.owner.get_all().await?;
        let mut seen: BTreeMap<Field, Bytes> = record
            .iter()
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        if let Some(profile) = &profile {
            seen.insert(
                field(Profile::FIELD)?,
                codec::encode(&**profile, Profile::SCHEMA_VERSION)?,
            );
        }
        let names: BTreeSet<Field> = self
            .log
            .iter()
            .map(|(field, _)| field)
            .chain(seen.keys())
            .cloned()
            .collect();
        for name in names
            .iter()
            .filter(|name| self.log.live(name) != seen.get(*name))
        {
            let found = seen.get(name).cloned().map(Cell::Live);
            self.differences.push(self.difference(name, "login", found));
        }
        if profile.is_none() {
            self.save().await?;
        }
        self.online = true;
        count(&self.totals.logins, 1);
        Ok(())
    }

    /// Several fields in one write.
    async fn walk(&mut self) -> anyhow::Result<()> {
        let [x, y, health] = [10_000, 10_000, 100].map(|limit| self.rng.random_range(0..limit));
        let mut fields = vec![
            ("position", format!("{x},{y}")),
            ("health", health.to_string()),
        ];
        if self.rng.random_bool(0.2) {
            fields.push(("zone", format!("zone-{}", self.rng.random_range(0..20))));
        }
        self.update(fields).await
    }

    /// Adds to all counters or none.
    async fn earn(&mut self) -> anyhow::Result<()> {
        let by = [
            ("gold", self.rng.random_range(-50..=60)),
            ("experience", self.rng.random_range(1..=500)),
        ];
        let owner = self.owner.clone();
        let counters = self.sure(|id| owner.incr_many(by).id(id)).await?;
        self.changed(counters.ack().changed());
        for (name, by) in by {
            let sum = self.log.add(field(name)?, by);
            let told = counters.get(name);
            if told != Some(sum) {
                let told = told.map(|told| Cell::Live(told.to_string().into()));
                self.differences
                    .push(self.difference(&field(name)?, "acknowledgement", told));
            }
        }
        Ok(())
    }

    /// Puts a new item of random bytes into a slot of the bag.
    async fn loot(&mut self) -> anyhow::Result<()> {
        let mut item = vec![0; self.rng.random_range(8..=200)];
        self.rng.fill_bytes(&mut item);
        let slot = self.slot();
        self.update(vec![(slot.as_str(), item)]).await
    }

    /// Removes a slot of the bag, and sometimes the purse. Its counter then starts again at 0.
    async fn lose(&mut self) -> anyhow::Result<()> {
        let mut names = vec![self.slot()];
        if self.rng.random_bool(0.1) {
            names.push("gold".to_owned());
        }
        let owner = self.owner.clone();
        let ack = self
            .sure(|id| owner.remove(names.iter().map(String::as_str)).id(id))
            .await?;
        self.changed(ack.changed());
        for name in &names {
            self.log.remove(&field(name)?);
        }
        Ok(())
    }

    /// Saves the profile, one level up.
    async fn save(&mut self) -> anyhow::Result<()> {
        self.profile.level += 1;
        self.profile.guild = self
            .rng
            .random_bool(0.5)
            .then(|| format!("Guild {}", self.rng.random_range(0..50)));
        let (profiles, profile) = (self.profiles.clone(), self.profile.clone());
        let ack = self.sure(|id| profiles.save(&profile).id(id)).await?;
        self.changed(ack.changed());
        self.log.set(
            field(Profile::FIELD)?,
            codec::encode(&profile, Profile::SCHEMA_VERSION)?,
        );
        Ok(())
    }

    /// Saves, waits for the database, and leaves the hot tier. If the database takes too long, the
    /// player stays online.
    async fn logout(&mut self) -> anyhow::Result<()> {
        self.save().await?;
        match self.owner.unload(LOGOUT).await {
            Ok(_) => {
                self.online = false;
                count(&self.totals.logouts, 1);
                Ok(())
            }
            Err(error) if matches!(error.retry(), Retry::After(_) | Retry::SameId) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn slot(&mut self) -> String {
        format!("bag:{}", self.rng.random_range(0..SLOTS))
    }

    async fn update<V: Into<Bytes>>(&mut self, fields: Vec<(&str, V)>) -> anyhow::Result<()> {
        let fields: Vec<(&str, Bytes)> = fields
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect();
        let owner = self.owner.clone();
        let ack = self
            .sure(|id| owner.update(fields.iter().cloned()).id(id))
            .await?;
        self.changed(ack.changed());
        for (name, value) in fields {
            self.log.set(field(name)?, value);
        }
        Ok(())
    }

    fn changed(&self, fields: u32) {
        count(&self.totals.writes, 1);
        count(&self.totals.fields, fields);
    }

    fn difference(&self, field: &Field, place: &'static str, found: Option<Cell>) -> Difference {
        let log = self
            .log
            .iter()
            .find(|(known, _)| *known == field)
            .map(|(_, cell)| cell.clone());
        Difference {
            key: (self.owner.owner().clone(), field.clone()),
            log,
            found: vec![(place, found)],
        }
    }

    /// Sends a write until it is acknowledged or rejected for good. All copies have the same id, so
    /// the write is applied once.
    async fn sure<W, T>(&self, write: impl Fn(OpId) -> W) -> anyhow::Result<T>
    where
        W: IntoFuture<Output = storage_sdk::Result<T>>,
    {
        let id = self.storage.next_id();
        let give_up = Instant::now() + PATIENCE;
        loop {
            let error = match write(id).await {
                Ok(acknowledged) => return Ok(acknowledged),
                Err(error) => error,
            };
            let wait = match error.retry() {
                Retry::SameId => REPEAT,
                Retry::After(wait) => wait,
                _ => return Err(error.into()),
            };
            if Instant::now() >= give_up || error.kind() == Kind::Closed {
                return Err(error.into());
            }
            count(&self.totals.repeats, 1);
            sleep(wait).await;
        }
    }
}
