//! The cost of single commands for Redis without a script. No layout of the same keys can cost
//! less.

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, Value};
use serde::Serialize;

use super::cpu::Cpu;
use super::place::{Arena, Place, owner_id, value};
use super::stats::Spread;

/// The cost of a command.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// The command, and its subject.
    pub command: &'static str,
    /// Redis' CPU time for each key, field or mark, in microseconds: the median of three rounds.
    pub micros: f64,
}

struct Owner {
    id: String,
    key: String,
    marker: String,
    /// The name of its mark. The mark's value is [`MARK`].
    mark: String,
    value: Vec<u8>,
}

impl Owner {
    fn new(number: usize) -> Self {
        let id = owner_id("o", number);
        let [key, marker] = ["hash", "exist"]
            .map(|kind| format!("plain-{kind}:{{{}}}:game:eu:player:{id}", number % 16));
        Self {
            mark: format!("game:eu:player:{id}"),
            value: value(64, 0),
            id,
            key,
            marker,
        }
    }
}

/// The number of commands of one pipeline, of marks of a page, and of marks of a command that takes
/// many.
const PIPELINE: usize = 1_000;
const PAGE: usize = 1_000;
const MARKS: usize = 200;
const MAP: &str = "plain-marks";
const IDS: &str = "plain-ids";
const VERSION: &str = "1700000000000000";
/// The version in 14 hexadecimal digits, and the changed field.
const MARK: &str = "060a24181e4000field0";
const ROUNDS: usize = 3;

/// The rest of a command for these owners. The first word of the command's description is its name.
type Arguments = fn(&mut Cmd, &[Owner]);

/// Each command works on the results of those before it.
const COMMANDS: [(&str, usize, Arguments); 12] = [
    ("HSET of an owner's field of 64 B", 1, |command, owners| {
        for owner in owners {
            command.arg(&owner.key).arg("field0").arg(&owner.value);
        }
    }),
    ("HSET of an owner's version", 1, |command, owners| {
        for owner in owners {
            command.arg(&owner.key).arg(&[":v", VERSION]);
        }
    }),
    (
        "HMGET of 2 reserved fields of an owner",
        1,
        |command, owners| {
            for owner in owners {
                command.arg(&owner.key).arg(&[":v", ":t"]);
            }
        },
    ),
    ("SET of an exist marker", 1, |command, owners| {
        for owner in owners {
            command.arg(&owner.marker).arg(VERSION);
        }
    }),
    ("HSET of an operation's id", 1, |command, owners| {
        command.arg(IDS);
        for owner in owners {
            command.arg(&owner.id).arg(VERSION);
        }
    }),
    ("HSET of a mark", 1, |command, owners| {
        command.arg(MAP);
        for owner in owners {
            command.arg(&owner.mark).arg(MARK);
        }
    }),
    ("HSET of 200 marks, for each", MARKS, |command, owners| {
        command.arg(MAP);
        for owner in owners {
            command.arg(&owner.mark).arg(MARK);
        }
    }),
    (SCAN, 0, |_, _| {}),
    ("HMGET of 200 marks, for each", MARKS, |command, owners| {
        command.arg(MAP);
        for owner in owners {
            command.arg(&owner.mark);
        }
    }),
    ("HMGET of an owner's field of 64 B", 1, |command, owners| {
        for owner in owners {
            command.arg(&owner.key).arg("field0");
        }
    }),
    ("PEXPIRE of an owner", 1, |command, owners| {
        for owner in owners {
            command.arg(&owner.key).arg(600_000);
        }
    }),
    ("HDEL of 200 marks, for each", MARKS, |command, owners| {
        command.arg(MAP);
        for owner in owners {
            command.arg(&owner.mark);
        }
    }),
];
const SCAN: &str = "HSCAN of 1,000 marks, for each";

/// Measures the commands one after the other.
///
/// # Errors
/// Redis does not answer.
pub async fn measure(arena: &Arena) -> Result<Vec<Cost>> {
    let place = arena.place().await?;
    let mut connection = place.plain().await?;
    let owners: Vec<Owner> = (0..arena.scale.pick(1_000, 10_000, 50_000))
        .map(Owner::new)
        .collect();
    let mut rounds = [(); COMMANDS.len()].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        // Each operation has a new one.
        redis::cmd("UNLINK")
            .arg(IDS)
            .query_async::<u64>(&mut connection)
            .await?;
        for ((description, at_once, arguments), costs) in COMMANDS.into_iter().zip(&mut rounds) {
            let before = Cpu::now(&place.processes())?;
            if description == SCAN {
                scan(&mut connection).await?;
            } else {
                send(&mut connection, description, &owners, at_once, arguments).await?;
            }
            costs.push(cost(&place, &before, owners.len())?);
        }
    }
    let costs = COMMANDS.into_iter().zip(rounds);
    Ok(costs
        .map(|((command, ..), micros)| Cost {
            command,
            micros: Spread::of(micros).median,
        })
        .collect())
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn cost(place: &Place, before: &Cpu, owners: usize) -> Result<f64> {
    Ok(Cpu::now(&place.processes())?.since(before).redis / owners as f64)
}

async fn send(
    connection: &mut MultiplexedConnection,
    description: &str,
    owners: &[Owner],
    at_once: usize,
    arguments: Arguments,
) -> Result<()> {
    let name = description.split(' ').next().unwrap_or_default();
    for owners in owners.chunks(PIPELINE.max(at_once)) {
        let mut pipeline = Pipeline::with_capacity(PIPELINE);
        for owners in owners.chunks(at_once) {
            let mut command = redis::cmd(name);
            arguments(&mut command, owners);
            pipeline.add_command(command);
        }
        pipeline.query_async::<Value>(connection).await?;
    }
    Ok(())
}

async fn scan(connection: &mut MultiplexedConnection) -> Result<()> {
    let mut cursor = 0_u64;
    loop {
        let mut command = redis::cmd("HSCAN");
        command.arg(MAP).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, _): (u64, Value) = command.query_async(connection).await?;
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}
