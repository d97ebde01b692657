//! The promise of the gateway to callers with the token: nobody takes their connection. A connection
//! can make room for another one only before the gateway has read a token on it.

/// The standing of a caller on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No request on it was answered. So the gateway may not have read its token yet.
    New,
    /// A request with the token was answered.
    Known,
    /// Such a request was answered, and there may have been none since then for the idle time.
    Rested,
}

/// The end of a try without the answer that the caller asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// There was no connection, or no answer for a long time.
    Silence,
    /// The connection ended before its answer began.
    Cut,
    /// The answer ended in its middle.
    Torn,
    /// The gateway answered that the connection makes room.
    Room,
}

/// A try without the answer that the caller asked for.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The standing of the caller.
    pub standing: Standing,
    /// How the try ended.
    pub met: Met,
    /// The failure in words.
    pub why: String,
}

impl Failed {
    /// Whether the gateway has kept its promise all the same.
    #[must_use]
    pub fn is_as_promised(&self) -> bool {
        match self.standing {
            // Whoever reads an answer has shown the token, so only a whole answer can follow its beginning.
            Standing::New => self.met != Met::Torn,
            Standing::Known => false,
            Standing::Rested => self.met == Met::Cut,
        }
    }
}

/// The words by which the gateway tells that a connection makes room.
const ROOM: &str = "the connection makes room for another one";

/// Whether a refusal says that the connection makes room.
#[must_use]
pub fn makes_room(status: u16, body: &str) -> bool {
    status == 503 && body.contains(ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promised(standing: Standing) -> Vec<Met> {
        let all = [Met::Silence, Met::Cut, Met::Torn, Met::Room];
        let failed = |met| Failed {
            standing,
            met,
            why: String::new(),
        };
        let is_as_promised = |met: &Met| failed(*met).is_as_promised();
        all.into_iter().filter(is_as_promised).collect()
    }

    #[test]
    fn a_known_caller_loses_no_connection_unless_it_rested() {
        assert_eq!(promised(Standing::New), [Met::Silence, Met::Cut, Met::Room]);
        assert_eq!(promised(Standing::Known), []);
        assert_eq!(promised(Standing::Rested), [Met::Cut]);
    }

    #[test]
    fn only_the_words_of_the_gateway_say_that_a_connection_makes_room() {
        let room =
            r#"{"detail":"the connection makes room for another one; send the request again"}"#;
        assert!(makes_room(503, room));
        assert!(!makes_room(500, room));
        assert!(!makes_room(
            503,
            r#"{"detail":"the storage can't answer now"}"#
        ));
    }
}
