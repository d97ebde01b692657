//! What a connection has begun: its transaction, and the keys that it watches.

use super::command::{self, Refused};
use super::data::Data;
use super::reply::Reply;

/// A connection's side of a server.
#[derive(Debug, Default)]
pub struct Session {
    /// The server's number for the connection.
    id: u64,
    watched: Vec<(Vec<u8>, u64)>,
    begun: Option<Transaction>,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
struct Transaction {
    commands: Vec<Vec<Vec<u8>>>,
    /// Whether one of them was refused.
    spoilt: bool,
}

/// What a request is to a session.
#[derive(Debug)]
pub enum Step {
    /// Nothing of its concern: it is run at once.
    Run,
    /// It is answered so.
    Answer(Reply),
    /// These commands are run now, together.
    Execute(Vec<Vec<Vec<u8>>>),
}

impl Session {
    /// Of a new connection, with the server's number for it.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self { id, ..Self::default() }
    }

    /// Takes a request in; its name is in upper case. `refused` says why the server would not run it now.
    pub fn take(&mut self, data: &mut Data, name: &str, request: &[Vec<u8>], refused: Option<&str>) -> Step {
        let ok = || Step::Answer(Reply::ok());
        match (name, &mut self.begun) {
            ("MULTI", None) => {
                self.begun = Some(Transaction::default());
                ok()
            }
            ("EXEC", Some(_)) => self.execute(data),
            ("MULTI" | "WATCH", Some(_)) | ("EXEC", None) => {
                Step::Answer(Reply::Error(format!("ERR {name} is not possible here")))
            }
            ("WATCH", None) => {
                self.watched.extend(request.iter().skip(1).map(|key| (key.clone(), data.keys.watch(key))));
                ok()
            }
            ("CLIENT", None) if request.get(1).is_some_and(|what| what.eq_ignore_ascii_case(b"ID")) => {
                Step::Answer(Reply::Int(i64::try_from(self.id).unwrap_or(i64::MAX)))
            }
            ("CLIENT", None) => ok(),
            (_, None) => Step::Run,
            (_, Some(begun)) => {
                begun.commands.push(request.to_vec());
                let unknown = command::kind(name).is_none().then_some("ERR unknown command");
                let refused = refused.or(unknown);
                begun.spoilt |= refused.is_some();
                let queued = || Reply::Status("QUEUED".to_owned());
                Step::Answer(refused.map_or_else(queued, |why| Reply::Error(why.to_owned())))
            }
        }
    }

    fn execute(&mut self, data: &Data) -> Step {
        let watched = std::mem::take(&mut self.watched);
        let Transaction { commands, spoilt } = self.begun.take().unwrap_or_default();
        if spoilt || data.replica {
            return Step::Answer(Reply::Error("EXECABORT Transaction discarded because of previous errors.".to_owned()));
        }
        let changed = |(key, changes): &(Vec<u8>, u64)| data.keys.changes(key) != Some(*changes);
        if watched.iter().any(changed) { Step::Answer(Reply::Nil) } else { Step::Execute(commands) }
    }
}

/// Runs the commands of a transaction.
pub fn run(data: &mut Data, commands: &[Vec<Vec<u8>>]) -> Reply {
    let mut one = |request: &Vec<Vec<u8>>| {
        let [name, args @ ..] = request.as_slice() else { return Reply::Nil };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        command::run(data, &name, args).unwrap_or_else(|Refused(text)| Reply::Error(text))
    };
    Reply::Array(commands.iter().map(&mut one).collect())
}
