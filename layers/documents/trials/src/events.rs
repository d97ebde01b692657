//! The live feed, as an `EventSource` of a browser reads it.
//!
//! An event counts once its blank line has come, and so does its id. So a connection that breaks in the
//! middle of an event has told nothing of it.

use anyhow::Result;

/// The most bytes of a line.
const LINE_MAX: usize = 1 << 20;

/// An event that was told whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: String,
}

/// The state of an `EventSource`.
#[derive(Debug, Default)]
pub struct Source {
    bytes: Vec<u8>,
    name: String,
    data: String,
    /// The id that counts from the next blank line on.
    next_id: Option<String>,
    last_id: Option<String>,
}

impl Source {
    /// The id of the last event that was told whole.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Forgets the id, so that the feed begins anew.
    pub fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// The connection has broken. An event that was not told whole is forgotten.
    pub fn breaks(&mut self) {
        let last_id = self.last_id.take();
        *self = Self {
            next_id: last_id.clone(),
            last_id,
            ..Self::default()
        };
    }

    /// Adds bytes that have come.
    ///
    /// # Errors
    /// A line does not end.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        let line = self.bytes.iter().rev().take_while(|byte| **byte != b'\n');
        anyhow::ensure!(line.count() <= LINE_MAX, "a line without an end");
        Ok(())
    }

    /// Reads a line, if a whole one has come. Within it is the event that it ends.
    ///
    /// # Errors
    /// The line is no text.
    pub fn line(&mut self) -> Result<Option<Option<Event>>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        let line = std::str::from_utf8(&line)?.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(Some(self.dispatch()));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" => self.next_id = Some(value.to_owned()),
            // Comments, and the time to come back.
            _ => {}
        }
        Ok(Some(None))
    }

    fn dispatch(&mut self) -> Option<Event> {
        self.last_id.clone_from(&self.next_id);
        let (name, data) = (
            std::mem::take(&mut self.name),
            std::mem::take(&mut self.data),
        );
        let data = data.strip_suffix('\n')?.to_owned();
        Some(Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(source: &mut Source, text: &str) -> Vec<Event> {
        source.push(text.as_bytes()).unwrap();
        let lines = std::iter::from_fn(|| source.line().unwrap());
        lines.flatten().collect()
    }

    #[test]
    fn an_event_and_its_id_count_once_its_blank_line_has_come() {
        let mut source = Source::default();
        assert_eq!(heard(&mut source, "event: a\ndata: 1\nid: x\n"), []);
        assert_eq!(source.last_id(), None);
        let first = Event {
            name: "a".to_owned(),
            data: "1".to_owned(),
        };
        assert_eq!(heard(&mut source, "\n: still here\n\nid: y\nda"), [first]);
        assert_eq!(source.last_id(), Some("x"));
        source.breaks();
        // What came of the event with the id y is forgotten.
        assert_eq!(heard(&mut source, "data: 2\n\n").len(), 1);
        assert_eq!(source.last_id(), Some("x"));
        source.begin_anew();
        assert_eq!(source.last_id(), None);
    }
}
