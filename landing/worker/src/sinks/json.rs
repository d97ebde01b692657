//! An event as JSON, the same for files and web services.

use serde::Serialize;
use storage_model::{Content, Event, Note, Owner};

use crate::entity::Value;

/// An event: where it stands in the feed, what kind it is, and what belongs to this kind.
///
/// ```json
/// {"partition":3,"epoch":1,"number":17,"kind":"note","app":"mygame","region":"eu-1",
///  "logic_type":"player","owner_id":"42","version":1700000000000000,"previous":1690000000000000,
///  "counters":[5],"body":"won a duel"}
/// {"partition":3,"epoch":2,"number":18,"kind":"resync","app":"mygame","region":"eu-1",
///  "logic_type":"player","owner_id":"42"}
/// {"partition":3,"epoch":2,"number":25,"kind":"gap"}
/// ```
///
/// `previous` is `null` if the writer did not know it. A body is text if its bytes are UTF-8, else
/// `{"base64": …}`. Counters have up to 64 bits, and all other numbers up to 53.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    partition: u32,
    epoch: u64,
    number: u64,
    #[serde(flatten)]
    content: EventJson<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum EventJson<'a> {
    Note {
        #[serde(flatten)]
        owner: Name<'a>,
        version: u64,
        previous: Option<u64>,
        counters: &'a [i64],
        body: Value,
    },
    Resync {
        #[serde(flatten)]
        owner: Name<'a>,
    },
    Gap,
}

#[derive(Debug, Serialize)]
struct Name<'a> {
    app: &'a str,
    region: &'a str,
    logic_type: &'a str,
    owner_id: &'a str,
}

impl<'a> From<&'a Owner> for Name<'a> {
    fn from(owner: &'a Owner) -> Self {
        Self {
            app: owner.app(),
            region: owner.region(),
            logic_type: owner.logic_type(),
            owner_id: owner.id(),
        }
    }
}

impl<'a> From<&'a Event> for Json<'a> {
    fn from(event: &'a Event) -> Self {
        let content = match &event.content {
            Content::Note(note) => told(note),
            Content::Resync { owner } => EventJson::Resync {
                owner: owner.into(),
            },
            _ => EventJson::Gap,
        };
        Self {
            partition: event.partition.0,
            epoch: event.position.epoch.0,
            number: event.position.number,
            content,
        }
    }
}

fn told(note: &Note) -> EventJson<'_> {
    EventJson::Note {
        owner: (&note.owner).into(),
        version: note.version.get(),
        previous: note.previous.map(storage_model::Version::get),
        counters: &note.counters,
        body: Value::new(&note.body, false),
    }
}

#[cfg(test)]
mod tests {
    use storage_model::{Bytes, Partition, Position, Version};

    use super::*;

    fn json(content: Content) -> String {
        let event = Event {
            partition: Partition(3),
            position: Position::new(1, 17),
            content,
        };
        serde_json::to_string(&Json::from(&event)).unwrap()
    }

    fn note(previous: Option<u64>, body: &'static [u8]) -> Content {
        Content::Note(Note {
            owner: Owner::new("g", "eu", "player", "4\"2").unwrap(),
            version: Version::new(1_700_000_000_000_000).unwrap(),
            previous: previous.and_then(Version::new),
            counters: vec![5, i64::MIN],
            body: Bytes::from_static(body),
        })
    }

    #[test]
    fn each_kind_of_event_has_its_form() {
        let place = r#"{"partition":3,"epoch":1,"number":17,"kind":"#;
        let owner = r#""app":"g","region":"eu","logic_type":"player","owner_id":"4\"2""#;
        let version = 1_700_000_000_000_000_u64;
        assert_eq!(
            json(note(Some(9), b"won")),
            format!(
                r#"{place}"note",{owner},"version":{version},"previous":9,"counters":[5,-9223372036854775808],"body":"won"}}"#
            )
        );
        assert!(json(note(None, b"\xff\0")).ends_with(
            r#""previous":null,"counters":[5,-9223372036854775808],"body":{"base64":"/wA="}}"#
        ));
        let owner_of = Owner::new("g", "eu", "player", "4\"2").unwrap();
        assert_eq!(
            json(Content::Resync { owner: owner_of }),
            format!(r#"{place}"resync",{owner}}}"#)
        );
        assert_eq!(json(Content::Gap), format!(r#"{place}"gap"}}"#));
    }
}
