//! A constant script, and its calls.

use redis::Cmd;

#[cfg(any(test, feature = "sabotage"))]
use super::sabotage;
use crate::redis::connections::transport::Command;

/// A constant script. Its text never depends on data, so a server keeps each script once.
pub(crate) struct Script {
    pub(in crate::redis) name: &'static str,
    source: String,
    pub(super) sha: String,
}

impl Script {
    /// The script of a file, with the shared functions that it uses between its first line and the
    /// rest.
    pub(super) fn new(name: &'static str, file: &str, shared: &[&str]) -> Self {
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

    pub(super) fn call(&self, keys: &[String]) -> Cmd {
        self.call_with_room(keys, 16, 256)
    }

    /// A call with room for this many arguments after the keys, and this many bytes of arguments.
    pub(super) fn call_with_room(&self, keys: &[String], arguments: usize, bytes: usize) -> Cmd {
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

    pub(super) fn read(&self, slot: u16, cmd: Cmd) -> Command {
        Command::read(self.name, slot, cmd)
    }

    pub(super) fn write(&self, slot: u16, cmd: Cmd) -> Command {
        Command::write(self.name, slot, cmd)
    }
}
