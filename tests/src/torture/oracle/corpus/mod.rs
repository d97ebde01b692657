//! Handmade histories, bad and good. They test what the oracle rejects and accepts.

mod bad;
mod good;

use super::judge::Values;
use super::{Finals, Flaw, Rewind, judge};
use crate::StoredRow;
use crate::torture::history::{Call, Effect, End, Operation};
use crate::torture::moment::Micros;
use crate::torture::play::shared::Room;
use crate::torture::value::value_of;

/// An owner that task 0 of game server 0 writes.
const OWN: &str = "player/p0-0";

/// A history and the stored data after it.
#[derive(Default)]
struct Case {
    operations: Vec<Operation>,
    rewinds: Vec<Rewind>,
    finals: Finals,
    /// Whether the reads of the SDK were set to differ from the rows.
    reads_set: bool,
}

fn sets(fields: &[(&str, &str)]) -> Call {
    let changes = fields
        .iter()
        .map(|(field, token)| ((*field).to_owned(), Effect::Set((*token).to_owned())))
        .collect();
    Call::Write {
        changes,
        if_version: None,
    }
}

fn one(field: &str, effect: Effect) -> Call {
    Call::Write {
        changes: vec![(field.to_owned(), effect)],
        if_version: None,
    }
}

fn acked(version: u64) -> End {
    End::Acked {
        version,
        changed: 1,
        counted: Vec::new(),
    }
}

fn counted(field: &str, value: i64, version: u64) -> End {
    End::Acked {
        version,
        changed: 1,
        counted: vec![(field.to_owned(), value)],
    }
}

fn unknown() -> End {
    End::Unknown("no answer".to_owned())
}

fn row(name: &str, value: &[u8], version: u64, is_del: u8) -> StoredRow {
    StoredRow {
        name: name.to_owned(),
        value: value.to_vec(),
        version,
        is_del,
    }
}

impl Case {
    /// An operation of the owner's writer.
    fn own(self, begun: Micros, ended: Micros, call: Call, end: End) -> Self {
        self.by(0, OWN, begun, ended, call, end)
    }

    /// An operation of a task on any owner. If its outcome is unknown, it can't be applied more
    /// than 1,000 later.
    fn by(
        mut self,
        task: u32,
        owner: &str,
        begun: Micros,
        ended: Micros,
        call: Call,
        end: End,
    ) -> Self {
        let expires = ended.saturating_add(1_000);
        self.operations.push(Operation {
            process: (0, 0),
            task,
            owner: owner.to_owned(),
            call,
            begun,
            ended,
            end,
            expires,
        });
        self
    }

    fn set(self, begun: Micros, field: &str, token: &str, version: u64) -> Self {
        self.own(begun, begun + 5, sets(&[(field, token)]), acked(version))
    }

    /// A read of the writer's owner by another task.
    fn read(self, begun: Micros, field: &str, found: Option<&str>, version: u64) -> Self {
        self.read_by(1, OWN, begun, field, found, version)
    }

    fn read_by(
        self,
        task: u32,
        owner: &str,
        begun: Micros,
        field: &str,
        found: Option<&str>,
        version: u64,
    ) -> Self {
        let fields = found
            .map(|token| (field.to_owned(), token.to_owned()))
            .into_iter()
            .collect();
        self.by(
            task,
            owner,
            begun,
            begun + 5,
            Call::Read(Some(vec![field.to_owned()])),
            End::Found { version, fields },
        )
    }

    fn incr(self, task: u32, begun: Micros, by: i64, value: i64, version: u64) -> Self {
        self.by(
            task,
            "guild/g0",
            begun,
            begun + 5,
            one("gold", Effect::Incr(by)),
            counted("gold", value, version),
        )
    }

    fn link(self, task: u32, begun: Micros, token: &str, behind: &str, number: u64) -> Self {
        let end = End::Appended {
            behind: behind.to_owned(),
            number,
        };
        self.by(
            task,
            "room/0",
            begun,
            begun + 5,
            Call::Append(token.to_owned()),
            end,
        )
    }

    fn stored(mut self, name: &str, value: &[u8], version: u64, is_del: u8) -> Self {
        self.finals
            .rows
            .insert(name.to_owned(), row(name, value, version, is_del));
        self
    }

    fn holds(self, field: &str, token: &str, version: u64) -> Self {
        self.stored(&format!("{OWN}/{field}"), &value_of(token), version, 0)
    }

    fn holds_removed(self, field: &str, token: &str, version: u64) -> Self {
        self.stored(&format!("{OWN}/{field}"), &value_of(token), version, 1)
    }

    fn holds_gold(self, gold: i64) -> Self {
        self.stored("guild/g0/gold", gold.to_string().as_bytes(), 99, 0)
    }

    fn holds_room(self, number: u64, token: &str) -> Self {
        self.stored("room/0/data", &room(number, token), 99, 0)
    }

    fn rewound(mut self, down: Micros, up: Micros, rows: Vec<StoredRow>) -> Self {
        let rows = rows
            .into_iter()
            .map(|row| (row.name.clone(), row))
            .collect();
        self.rewinds.push(Rewind { down, up, rows });
        self
    }

    fn sdk_reads(mut self, hot: Values, cold: Values) -> Self {
        (self.finals.hot, self.finals.cold, self.reads_set) = (hot, cold, true);
        self
    }

    fn flaws(mut self) -> Vec<Flaw> {
        if !self.reads_set {
            let live = self.finals.rows.values().filter(|row| row.is_del == 0);
            self.finals.hot = live
                .map(|row| (row.name.clone(), row.value.clone()))
                .collect();
            self.finals.cold = self.finals.hot.clone();
        }
        judge(&self.operations, &self.rewinds, &self.finals).flaws
    }
}

fn room(number: u64, token: &str) -> Vec<u8> {
    let room = Room {
        id: 0,
        number,
        token: token.to_owned(),
    };
    storage_sdk::codec::encode(&room, 1).unwrap().to_vec()
}
