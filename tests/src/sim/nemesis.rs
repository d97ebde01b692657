//! Faults of servers and processes from outside, and their repair.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::database::server::Ails;
use super::fault::Fault;
use super::oracle::history::Kept;
use super::plan::is_loss;
use super::play::Games;
use super::process::Process;
use super::redis::data::Data;
use super::redis::keyspace::Keyspace;
use super::world::{Worker, World};

/// The cause of all faults from outside.
#[derive(Debug)]
pub struct Nemesis {
    world: Arc<World>,
    games: Games,
    workers: Arc<Mutex<Vec<Worker>>>,
    /// The stopped processes, including those that have a successor.
    stopped: Mutex<Vec<Arc<Process>>>,
    /// A copy of Redis' data of some time ago.
    copy: Mutex<(Data, Kept)>,
    /// How far Redis' clock is ahead of the right time, and the farthest that it ever was, in
    /// milliseconds.
    skew: Mutex<(i64, i64)>,
}

impl Nemesis {
    /// For these processes.
    #[must_use]
    pub fn new(world: Arc<World>, games: Games, workers: Arc<Mutex<Vec<Worker>>>) -> Self {
        Self {
            world,
            games,
            workers,
            stopped: Mutex::default(),
            copy: Mutex::default(),
            skew: Mutex::default(),
        }
    }

    /// Causes one fault after the other until it is dropped.
    pub async fn rage(&self) {
        let chance = &self.world.chance;
        let mut healing = JoinSet::new();
        loop {
            sleep(chance.millis(1, self.world.plan.calm_max)).await;
            self.look();
            if chance.below(4) == 0 {
                *locked(&self.copy) = (self.world.redis.copy(), self.world.history.kept());
            }
            if !self.world.plan.global.is_empty() {
                let fault = *chance.one(&self.world.plan.global);
                // A fault that takes away all connections and the whole state leaves little for
                // other faults to hit. So it comes less often.
                let heavy = fault == Fault::RedisRestarts || is_loss(&fault);
                if !heavy || chance.below(3) == 0 {
                    self.strike(fault, &mut healing).await;
                }
            }
        }
    }

    /// Checks Redis' data at this moment.
    pub fn look(&self) {
        self.world.history.look(&self.world.redis.copy());
    }

    async fn strike(&self, fault: Fault, healing: &mut JoinSet<()>) {
        let Self { world, .. } = self;
        let (chance, redis) = (&world.chance, &world.redis);
        chance.hit_all(fault);
        match fault {
            Fault::RedisRestarts => self.restart(None).await,
            Fault::RedisRewinds => {
                let copy = locked(&self.copy).clone();
                self.restart(Some(copy)).await;
            }
            Fault::RedisDemoted => {
                let copy = locked(&self.copy).clone();
                redis.demote();
                // An election takes at least this long.
                sleep(chance.millis(500, 1_500)).await;
                self.promote(copy);
            }
            Fault::RedisWiped => self.restart(Some((Data::default(), Kept::default()))).await,
            Fault::RedisFlushed => {
                world.history.rewind(&Kept::default(), &world.database);
                redis.change(|data| data.keys = Keyspace::default());
            }
            Fault::ScriptsFlushed => redis.flush_scripts(),
            Fault::KeyEvicted => self.evict(),
            Fault::ClockForward => self.turn(self.step()),
            Fault::ClockBack => self.turn(-self.step()),
            Fault::WorkerKilled => self.replace_worker(|worker| worker.kill()),
            Fault::WorkerEnds => self.replace_worker(|worker| worker.shut_down()),
            Fault::WorkerStopped => {
                let lock_ttl = u64::try_from(world.plan.lock_ttl.as_millis()).unwrap_or_default();
                let process = locked(&self.workers)
                    .iter()
                    .map(|worker| worker.process.clone())
                    .collect::<Vec<_>>();
                self.stop_one(&process, chance.millis(lock_ttl / 2, lock_ttl * 3), healing);
            }
            Fault::GameKilled => {
                let mut games = locked(&self.games);
                let at = usize::try_from(chance.below(games.len() as u64)).unwrap_or_default();
                if let Some(game) = games.get_mut(at) {
                    game.kill();
                    *game = world.game();
                }
            }
            Fault::GameStopped => {
                let process = locked(&self.games)
                    .iter()
                    .map(|game| game.process.clone())
                    .collect::<Vec<_>>();
                self.stop_one(&process, chance.millis(10, 4_000), healing);
            }
            Fault::RedisHangs => {
                redis.process.stop();
                let (redis, time) = (redis.clone(), chance.millis(10, 3_000));
                healing.spawn(async move {
                    sleep(time).await;
                    redis.process.resume();
                });
            }
            Fault::RedisFull => {
                redis.change(|data| data.full = true);
                let (redis, time) = (redis.clone(), chance.millis(50, 3_000));
                healing.spawn(async move {
                    sleep(time).await;
                    redis.change(|data| data.full = false);
                });
            }
            Fault::ReadOnly => self.ail(healing, chance.millis(50, 3_000), |ails, ill| {
                ails.read_only = ill
            }),
            Fault::RowRefused => self.ail(healing, chance.millis(50, 4_000), |ails, ill| {
                ails.refuses = ill
            }),
            Fault::DatabaseForgets => {
                world.history.forget();
                world.database.forget(|commits| {
                    usize::try_from(chance.below(commits as u64 + 1)).unwrap_or_default()
                });
            }
            Fault::DatabaseAway => {
                world.database.break_connections();
                self.ail(healing, chance.millis(0, 3_000), |ails, ill| {
                    ails.away = ill
                });
            }
            _ => {}
        }
    }

    /// Redis restarts with all its data, or with a copy.
    async fn restart(&self, copy: Option<(Data, Kept)>) {
        let Self { world, .. } = self;
        world.redis.stop();
        sleep(world.chance.millis(0, 1_200)).await;
        match copy {
            None => world.redis.start(world.redis.copy()),
            Some((data, kept)) => {
                world.history.rewind(&kept, &world.database);
                world.redis.start(data);
            }
        }
    }

    /// Makes a replica the primary, with the data that it was sent.
    fn promote(&self, (data, kept): (Data, Kept)) {
        self.world.history.rewind(&kept, &self.world.database);
        self.world.redis.promote(data);
    }

    /// Evicts a key with a time to live, as a policy of `volatile-*` does.
    fn evict(&self) {
        let chance = &self.world.chance;
        self.world.redis.change(|data| {
            let keys: Vec<Vec<u8>> = data.keys.volatile().cloned().collect();
            if !keys.is_empty() {
                let key: &Vec<u8> = chance.one(&keys);
                data.keys.remove(key);
            }
        });
    }

    /// The distance by which the clock is turned, in milliseconds. It is short if rejected rows
    /// wait for their next attempt by that clock.
    fn step(&self) -> i64 {
        let far = !self.world.plan.has(Fault::RowRefused) && self.world.chance.below(2) == 0;
        i64::try_from(self.world.chance.below(if far { 7_200_000 } else { 5_000 }))
            .unwrap_or_default()
    }

    fn turn(&self, by: i64) {
        let amount = Duration::from_millis(by.unsigned_abs());
        if by < 0 {
            self.world.clock.back(amount)
        } else {
            self.world.clock.forward(amount)
        }
        let mut skew = locked(&self.skew);
        skew.0 += by;
        skew.1 = skew.1.max(skew.0);
    }

    fn replace_worker(&self, end: impl FnOnce(&mut Worker)) {
        let mut workers = locked(&self.workers);
        let at = usize::try_from(self.world.chance.below(workers.len() as u64)).unwrap_or_default();
        if let Some(worker) = workers.get_mut(at) {
            end(worker);
            *worker = self.world.worker();
        }
    }

    fn stop_one(&self, processes: &[Arc<Process>], time: Duration, healing: &mut JoinSet<()>) {
        if processes.is_empty() {
            return;
        }
        let process = self.world.chance.one(processes).clone();
        process.stop();
        locked(&self.stopped).push(process.clone());
        healing.spawn(async move {
            sleep(time).await;
            process.resume();
        });
    }

    fn ail(&self, healing: &mut JoinSet<()>, time: Duration, change: fn(&mut Ails, bool)) {
        let database = self.world.database.clone();
        database.ail(|ails| change(ails, true));
        healing.spawn(async move {
            sleep(time).await;
            database.ail(|ails| change(ails, false));
        });
    }

    /// Repairs everything.
    pub fn heal(&self) {
        let Self { world, .. } = self;
        if *world.redis.lives().borrow() % 2 == 1 {
            world.redis.start(world.redis.copy());
        }
        if world.redis.copy().replica {
            self.promote(locked(&self.copy).clone());
        }
        world.redis.process.resume();
        world.redis.change(|data| data.full = false);
        world.database.ail(|ails| *ails = Ails::default());
        let workers = locked(&self.workers)
            .iter()
            .map(|worker| worker.process.clone())
            .collect::<Vec<_>>();
        let games = locked(&self.games)
            .iter()
            .map(|game| game.process.clone())
            .collect::<Vec<_>>();
        for process in workers
            .iter()
            .chain(&games)
            .chain(locked(&self.stopped).iter())
        {
            process.resume();
            process.hurry();
        }
        // A key that ends by a clock that was ahead ends when the right time gets there.
        let (now, most) = *locked(&self.skew);
        self.turn(most - now);
    }
}
