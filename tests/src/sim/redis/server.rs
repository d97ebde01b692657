//! One process of the model: commands, scripts, and the faults of a server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use storage_coalesce::locked;
use storage_model::Clock;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use super::command;
use super::data::Data;
use super::reply::Reply;
use super::script::{self, Script};
use crate::sim::point::script as script_name;
use crate::sim::process::Process;

/// Learns of every script that ran.
pub trait Watch: Send + Sync + fmt::Debug {
    /// A script ran.
    fn executed(&self, executed: &Executed<'_>);
}

/// A script that ran.
#[derive(Debug)]
pub struct Executed<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'a [Vec<u8>],
    /// Its other arguments.
    pub argv: &'a [Vec<u8>],
    /// Its answer.
    pub reply: &'a Reply,
    /// The server's data after it.
    pub data: &'a Data,
}

/// A model of one redis-server. Share it behind an `Arc`.
#[derive(Debug)]
pub struct Server {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    watch: Option<Arc<dyn Watch>>,
    /// Counts the events that break all connections. The number is even while the server is up.
    lives: watch::Sender<u64>,
    /// It may hang.
    pub process: Process,
}

#[derive(Debug, Default)]
struct State {
    data: Data,
    scripts: BTreeMap<String, Loaded>,
    /// The names of scripts by the hash of their text. SHA-1 is slow, and each connection loads all
    /// scripts.
    names: HashMap<u64, String>,
}

#[derive(Debug, Clone)]
struct Loaded {
    name: &'static str,
    script: Arc<Script>,
}

impl Server {
    /// An empty server.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, watch: Option<Arc<dyn Watch>>) -> Arc<Self> {
        let state = State {
            data: Data {
                run: 1,
                replication: 1,
                ..Data::default()
            },
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            clock,
            watch,
            lives: watch::Sender::new(0),
            process: Process::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        state
            .data
            .set_now(i64::try_from(self.clock.now().0).unwrap_or(i64::MAX));
        state
    }

    /// Runs one request of a connection.
    pub fn execute(&self, request: &[Vec<u8>]) -> Reply {
        let [name, args @ ..] = request else {
            return Reply::Error("ERR empty command".to_owned());
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let mut state = self.state();
        if let Some(refused) = state.refusal(&name) {
            return Reply::Error(refused.to_owned());
        }
        match name.as_str() {
            "CLIENT" => Reply::ok(),
            "SCRIPT" => state.script_command(args),
            "EVALSHA" => self.evalsha(&mut state, args),
            _ => command::run(&mut state.data, &name, args)
                .unwrap_or_else(|refused| Reply::Error(refused.0)),
        }
    }

    fn tell(&self, executed: &Executed<'_>) {
        if let Some(watch) = &self.watch {
            watch.executed(executed);
        }
    }

    fn evalsha(&self, state: &mut State, args: &[Vec<u8>]) -> Reply {
        let [sha, count, rest @ ..] = args else {
            return Reply::Error("ERR wrong number of arguments".to_owned());
        };
        let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
        let Some(Loaded { name, script }) = state.scripts.get(&sha).cloned() else {
            return Reply::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        };
        let count = String::from_utf8_lossy(count).parse().ok();
        let Some((keys, argv)) = count.and_then(|count| rest.split_at_checked(count)) else {
            return Reply::Error(
                "ERR Number of keys can't be greater than number of args".to_owned(),
            );
        };
        if state.data.full && !script.allows_oom {
            let text = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";
            return Reply::Error(text.to_owned());
        }
        let reply = script::run(&mut state.data, &sha, &script, keys, argv);
        self.tell(&Executed {
            name,
            keys,
            argv,
            reply: &reply,
            data: &state.data,
        });
        reply
    }

    /// Changes keys from outside, as an operator or an eviction does.
    pub fn change<T>(&self, change: impl FnOnce(&mut Data) -> T) -> T {
        change(&mut self.state().data)
    }

    /// A copy of all data of the server.
    #[must_use]
    pub fn copy(&self) -> Data {
        self.state().data.clone()
    }

    /// The name of a script that was loaded.
    #[must_use]
    pub fn script_name(&self, sha: &[u8]) -> Option<&'static str> {
        let sha = std::str::from_utf8(sha).ok()?;
        self.state().scripts.get(sha).map(|loaded| loaded.name)
    }

    /// Forgets the scripts, as SCRIPT FLUSH does.
    pub fn flush_scripts(&self) {
        self.state().scripts.clear();
    }

    /// Stops the process: connections break, and none can be opened.
    pub fn stop(&self) {
        self.lives.send_modify(|lives| *lives |= 1);
    }

    /// Starts another process with these keys.
    pub fn start(&self, kept: Data) {
        {
            let mut state = self.state();
            let run = state.data.run + 1;
            state.data = Data {
                run,
                replication: state.data.replication + 1,
                replica: false,
                full: state.data.full,
                ..kept
            };
            state.scripts.clear();
        }
        self.lives.send_modify(|lives| *lives = (*lives | 1) + 1);
    }

    /// Makes it a replica. Its connections stay open.
    pub fn demote(&self) {
        self.change(|data| data.replica = true);
    }

    /// Makes it a primary again, with these keys. Its connections stay open.
    pub fn promote(&self, kept: Data) {
        self.change(|data| {
            data.replication += 1;
            data.replica = false;
            data.keys = kept.keys;
        });
    }

    /// The server's present life. It changes when the server's connections break, and is odd while
    /// the server is down.
    #[must_use]
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.lives.subscribe()
    }
}

impl State {
    /// The reason why the server would reject a command now.
    fn refusal(&self, name: &str) -> Option<&'static str> {
        if self.data.replica && !matches!(name, "INFO" | "SCRIPT" | "PING" | "CLIENT") {
            return Some("READONLY You can't write against a read only replica.");
        }
        let grows = command::kind(name).is_some_and(|kind| kind.grows);
        (grows && self.data.full)
            .then_some("OOM command not allowed when used memory > 'maxmemory'.")
    }

    fn script_command(&mut self, args: &[Vec<u8>]) -> Reply {
        match args {
            [what, source] if what.eq_ignore_ascii_case(b"LOAD") => {
                let digest = || sha1_smol::Sha1::from(source).hexdigest();
                let sha = self
                    .names
                    .entry(xxh3_64(source))
                    .or_insert_with(digest)
                    .clone();
                self.scripts.entry(sha.clone()).or_insert_with(|| {
                    let source = String::from_utf8_lossy(source);
                    Loaded {
                        name: script_name(&source),
                        script: Arc::new(Script::new(&source)),
                    }
                });
                Reply::Bulk(sha.into_bytes())
            }
            [what, ..] if what.eq_ignore_ascii_case(b"FLUSH") => {
                self.scripts.clear();
                Reply::ok()
            }
            _ => Reply::Error("ERR unknown subcommand".to_owned()),
        }
    }
}
