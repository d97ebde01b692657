//! The kinds of clients that do harm.

use rand::RngExt as _;
use rand::rngs::StdRng;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It sends nothing.
    Silent,
    /// It sends half a request line, and waits.
    HalfLine,
    /// It sends half of a long head, and waits.
    HalfHead,
    /// It sends half a head, says that it sends nothing more, and waits.
    HalfOpen,
    /// It sends a short request without a token again and again.
    Stranger,
    /// It has no token, and sends its body byte by byte.
    StrangeBody,
    /// It sends its body byte by byte.
    SlowBody,
    /// It reads a long list byte by byte.
    SlowList,
    /// It reads an export byte by byte.
    SlowExport,
    /// It opens the live feed, and never reads.
    DeafFeed,
    /// It opens many requests on a connection of HTTP/2, resets most of them, and never reads.
    Streams,
    /// It goes in the middle of its request.
    GoneInRequest,
    /// It goes in the middle of an answer.
    GoneInAnswer,
    /// It goes in the middle of the live feed.
    GoneInFeed,
    /// It opens more connections at once than there may be.
    Crowd,
}

/// How a client goes on once it has sent its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It waits for the end, and reads all.
    Waits,
    /// It reads nothing.
    Deaf,
    /// It reads a byte now and then.
    Reads,
    /// It writes a byte now and then.
    Writes,
    /// It sends its first bytes again now and then, and reads all.
    Repeats,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Silent,
        Self::HalfLine,
        Self::HalfHead,
        Self::HalfOpen,
        Self::Stranger,
        Self::StrangeBody,
        Self::SlowBody,
        Self::SlowList,
        Self::SlowExport,
        Self::DeafFeed,
        Self::Streams,
        Self::GoneInRequest,
        Self::GoneInAnswer,
        Self::GoneInFeed,
        Self::Crowd,
    ];

    /// A kind by chance. Crowds are seldom, since each of them is many clients.
    pub fn any(rng: &mut StdRng) -> Self {
        let at = rng.random_range(0..Self::ALL.len() * 20 - 19);
        Self::ALL.get(at / 20).copied().unwrap_or(Self::Crowd)
    }

    /// Whether it has a token, so that a request of it may hold its connection.
    #[must_use]
    pub fn is_caller(self) -> bool {
        !matches!(
            self,
            Self::Silent
                | Self::HalfLine
                | Self::HalfHead
                | Self::HalfOpen
                | Self::Stranger
                | Self::StrangeBody
                | Self::Crowd
        )
    }

    /// How it goes on.
    #[must_use]
    pub fn habit(self) -> Habit {
        match self {
            Self::Stranger => Habit::Repeats,
            Self::StrangeBody | Self::SlowBody => Habit::Writes,
            Self::SlowList | Self::SlowExport | Self::GoneInAnswer | Self::GoneInFeed => {
                Habit::Reads
            }
            Self::DeafFeed | Self::Streams => Habit::Deaf,
            _ => Habit::Waits,
        }
    }

    /// Whether it goes early, with a reset of its connection.
    #[must_use]
    pub fn vanishes(self) -> bool {
        matches!(
            self,
            Self::GoneInRequest | Self::GoneInAnswer | Self::GoneInFeed
        )
    }

    /// Whether the gateway has to end its connection once the idle time is over. It has sent something,
    /// and no whole request. When too many connections come at once, the system can lose one on which
    /// nothing was sent, and tells nobody.
    #[must_use]
    pub fn has_to_end(self) -> bool {
        matches!(self, Self::HalfLine | Self::HalfHead | Self::HalfOpen)
    }

    /// Whether it stays, and has no request for which the gateway waits at its end. The gateway ends a
    /// connection at once that is half-open.
    #[must_use]
    pub fn holds_no_request(self) -> bool {
        !self.is_caller() && self != Self::HalfOpen
    }

    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Silent => "sends nothing",
            Self::HalfLine => "half a request line",
            Self::HalfHead => "half of a long head",
            Self::HalfOpen => "half a head, half-open",
            Self::Stranger => "short requests without a token",
            Self::StrangeBody => "body byte by byte, no token",
            Self::SlowBody => "body byte by byte",
            Self::SlowList => "reads a list byte by byte",
            Self::SlowExport => "reads an export byte by byte",
            Self::DeafFeed => "never reads the live feed",
            Self::Streams => "resets requests of HTTP/2",
            Self::GoneInRequest => "vanishes in its request",
            Self::GoneInAnswer => "vanishes in an answer",
            Self::GoneInFeed => "vanishes in the live feed",
            Self::Crowd => "of a crowd above the bound",
        }
    }
}
