//! Tickets for the live feed. An `EventSource` can't send a token, so it sends a ticket in its URL.
//!
//! A ticket is signed with the token. So nothing is stored for it until it opens a feed, and each
//! gateway with the same token takes it. It opens a feed for a minute. An `EventSource` comes back
//! with the same URL, so a ticket that has opened a feed here goes on until some time after its last
//! feed has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::{RawQuery, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use storage_coalesce::locked;
use storage_documents::Prefixes;
use storage_sdk::{Clock, Ids, Timestamp};

use crate::body::read;
use crate::content::json;
use crate::parameters::Parameters;
use crate::problem::{self, Problem};
use crate::routes::FEED;
use crate::shared::Shared;

/// How long a ticket opens a feed.
const OPENS_FOR: Duration = Duration::from_mins(1);
/// How long a ticket may come back behind its last feed.
const COMES_BACK_FOR: Duration = Duration::from_mins(10);
/// The most feeds that one ticket has open. One page needs one or two.
const OPEN_MAX: usize = 8;
/// The most tickets that have opened a feed, each of about 100 bytes.
const USED_MAX: usize = 65_536;
/// The most bytes of the prefixes of a ticket. All of them are in its text, which is in a URL.
const PREFIX_BYTES_MAX: usize = 2_048;
/// What a signature is for. The token signs nothing else today.
const PURPOSE: &[u8] = b"document-gateway ticket";

/// The signature of a ticket, and its name in the table.
type Signature = [u8; 32];

/// The tickets of a gateway.
#[derive(Debug)]
pub struct Tickets {
    signer: Signer,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    used: Arc<Mutex<HashMap<Signature, Use>>>,
}

#[derive(Clone)]
struct Signer(Hmac<Sha256>);

/// It holds the token.
impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

/// The use of a ticket that has opened a feed.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// Its feeds that are open.
    open: usize,
    /// When the last one ended.
    ended: Timestamp,
}

impl Use {
    fn is_over(&self, now: Timestamp) -> bool {
        self.open == 0 && now.since(self.ended) >= COMES_BACK_FOR
    }
}

/// What a ticket says.
struct Ticket {
    opens_until: Timestamp,
    prefixes: Prefixes,
    signature: Signature,
}

impl Tickets {
    /// The tickets of everybody who has this token.
    ///
    /// # Errors
    /// The token can be no key.
    pub fn new(token: &str, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> anyhow::Result<Self> {
        let signer = Hmac::new_from_slice(token.as_bytes());
        Ok(Self {
            signer: Signer(signer.context("the token signs no tickets")?),
            clock,
            ids,
            used: Arc::default(),
        })
    }

    fn sign(&self, said: &[u8]) -> Hmac<Sha256> {
        self.signer
            .0
            .clone()
            .chain_update(PURPOSE)
            .chain_update(said)
    }

    fn used(&self) -> MutexGuard<'_, HashMap<Signature, Use>> {
        locked(&self.used)
    }

    /// A ticket for the feed below some prefixes, and the moment until which it opens one.
    fn give(&self, prefixes: &Prefixes) -> (String, Timestamp) {
        let until = self.clock.now().plus(OPENS_FOR);
        let id = self.ids.next();
        let texts: Vec<&str> = prefixes.iter().collect();
        // Texts can be written.
        let texts = serde_json::to_vec(&texts).unwrap_or_default();
        let said = [&until.0.to_be_bytes(), id.as_bytes(), &texts].concat();
        let signature = self.sign(&said).finalize().into_bytes();
        let ticket = BASE64.encode([said.as_slice(), signature.as_slice()].concat());
        (ticket, until)
    }

    /// Reads a ticket that a gateway with this token gave.
    fn read(&self, text: &str) -> Option<Ticket> {
        let bytes = BASE64.decode(text).ok()?;
        let (said, signature) = bytes.split_last_chunk::<32>()?;
        self.sign(said).verify_slice(signature).ok()?;
        let (until, rest) = said.split_first_chunk::<8>()?;
        let (_id, texts) = rest.split_first_chunk::<16>()?;
        let texts: Vec<String> = serde_json::from_slice(texts).ok()?;
        Some(Ticket {
            opens_until: Timestamp(u64::from_be_bytes(*until)),
            prefixes: Prefixes::new(texts).ok()?,
            signature: *signature,
        })
    }

    /// Lets a ticket open one more feed.
    fn open(&self, ticket: &Ticket) -> Result<OpenedFeed, Refusal> {
        let now = self.clock.now();
        let mut used = self.used();
        if used.len() >= USED_MAX {
            used.retain(|_, one| !one.is_over(now));
        }
        let is_full = used.len() >= USED_MAX;
        let is_new = now < ticket.opens_until;
        match used.get_mut(&ticket.signature) {
            Some(one) if one.open >= OPEN_MAX => return Err(Refusal::Busy),
            Some(one) if is_new || !one.is_over(now) => one.open += 1,
            None if is_new && is_full => return Err(Refusal::Full),
            None if is_new => {
                let first = Use {
                    open: 1,
                    ended: now,
                };
                used.insert(ticket.signature, first);
            }
            _ => return Err(Refusal::Over),
        }
        Ok(OpenedFeed {
            clock: Arc::clone(&self.clock),
            used: Arc::clone(&self.used),
            signature: ticket.signature,
        })
    }

    /// Lets a request to the feed in whose URL has a ticket. The feed does not see the ticket. `None`
    /// if the request is another one.
    pub(crate) fn admit(&self, request: &mut Request) -> Option<Result<OpenedFeed, Refusal>> {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        if !is_read || request.uri().path() != FEED {
            return None;
        }
        let query = request.uri().query()?;
        let is_ticket = |pair: &&str| pair.starts_with("ticket=");
        let pair = query.split('&').find(is_ticket)?;
        let text = pair.trim_start_matches("ticket=");
        let others: Vec<&str> = query.split('&').filter(|pair| !is_ticket(pair)).collect();
        let rest = others.join("&");
        let opened = match self.read(text) {
            None => Err(Refusal::Unknown),
            Some(ticket) => match asked(&rest) {
                Err(problem) => Err(Refusal::Query(problem)),
                Ok(asked) if ticket.prefixes.cover(&asked) => self.open(&ticket),
                Ok(_) => Err(Refusal::Elsewhere(ticket.prefixes)),
            },
        };
        if let Ok(uri) = format!("{FEED}?{rest}").parse::<Uri>() {
            *request.uri_mut() = uri;
        }
        Some(opened)
    }
}

/// The prefixes that a request asks for, as the feed reads them.
fn asked(query: &str) -> Result<Prefixes, Problem> {
    Parameters::with_prefixes(Some(query))?.prefixes()
}

/// A feed that a ticket has opened.
#[derive(Debug)]
pub(crate) struct OpenedFeed {
    clock: Arc<dyn Clock>,
    used: Arc<Mutex<HashMap<Signature, Use>>>,
    signature: Signature,
}

impl crate::activity::AnswerHold for OpenedFeed {}

impl Drop for OpenedFeed {
    fn drop(&mut self) {
        let mut used = locked(&self.used);
        if let Some(one) = used.get_mut(&self.signature) {
            one.open = one.open.saturating_sub(1);
            one.ended = self.clock.now();
        }
    }
}

/// Why a ticket opens no feed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// No gateway with this token gave it.
    Unknown,
    /// It is for what lies below these prefixes.
    Elsewhere(Prefixes),
    /// The query can't be read.
    Query(Problem),
    /// It has run out.
    Over,
    /// It has opened too many feeds.
    Busy,
    /// Too many tickets have opened a feed.
    Full,
}

impl Refusal {
    pub(crate) fn into_response(self) -> Response {
        let (of, message) = match self {
            // To an `EventSource` this status says that it shall not come back.
            Self::Over => return StatusCode::NO_CONTENT.into_response(),
            Self::Query(problem) => return problem.into_response(),
            Self::Unknown => (
                problem::UNAUTHORIZED,
                "no gateway with this token gave the ticket; POST to /hyper-storage/tickets for another one".to_owned(),
            ),
            Self::Elsewhere(prefixes) => {
                let prefixes: Vec<&str> = prefixes.iter().collect();
                let message = format!("the ticket is for the feed below {}; send prefix= with one of them, or with what lies below", prefixes.join(", "));
                (problem::TICKET, message)
            }
            Self::Busy => (
                problem::TICKETS,
                format!("the ticket has {OPEN_MAX} feeds open; close one, or POST to /hyper-storage/tickets for another ticket"),
            ),
            Self::Full => (
                problem::TICKETS,
                format!("{USED_MAX} tickets have opened a feed within {} min; come back later", COMES_BACK_FOR.as_secs() / 60),
            ),
        };
        Problem::new(of, message).into_response()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    prefix: OneOrMore,
}

/// A prefix, or several.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the prefix is neither a text nor a list of texts"
)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Serialize)]
struct TicketAnswer {
    ticket: String,
    /// In seconds since 1970.
    expires: u64,
}

/// Gives a ticket for the feed below `{"prefix":…}`: one, or a list.
///
/// # Errors
/// The body is too large, names no prefix, or prefixes that are too many or too long.
pub async fn give(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    Parameters::parse(query.as_deref())?
        .finish("a ticket takes none; name the prefix in the body")?;
    let refused = |why: String| {
        let message =
            format!("{why}; send {{\"prefix\":\"rooms/\"}} or a list, and \"\" for all paths");
        Problem::new(problem::BODY, message)
    };
    let body = read(request).await?;
    let wish: Wish = serde_json::from_slice(&body).map_err(|error| refused(error.to_string()))?;
    let prefixes = match wish.prefix {
        OneOrMore::One(prefix) => Prefixes::new([prefix]),
        OneOrMore::More(none) if none.is_empty() => {
            return Err(refused("the list of prefixes is empty".to_owned()));
        }
        OneOrMore::More(several) => Prefixes::new(several),
    };
    let prefixes = prefixes.map_err(|error| refused(error.to_string()))?;
    let bytes: usize = prefixes.iter().map(str::len).sum();
    if bytes > PREFIX_BYTES_MAX {
        let message = format!(
            "the prefixes have {bytes} bytes; the most is {PREFIX_BYTES_MAX}, so use several tickets"
        );
        return Err(Problem::new(problem::BODY, message));
    }
    let (ticket, until) = shared.tickets.give(&prefixes);
    let given = TicketAnswer {
        ticket,
        expires: until.0 / 1_000_000,
    };
    // All parts can be written.
    let text = serde_json::to_string(&given).unwrap_or_default();
    Ok(json(StatusCode::OK, text.into()))
}

#[cfg(test)]
mod tests {
    use storage_sdk::{ManualClock, SeededIds};

    use super::*;

    fn below<const N: usize>(prefixes: [&str; N]) -> Prefixes {
        Prefixes::new(prefixes).unwrap()
    }

    fn tickets(token: &str) -> (Tickets, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let ids = Arc::new(SeededIds::new(1));
        let tickets = Tickets::new(token, Arc::<ManualClock>::clone(&clock), ids).unwrap();
        (tickets, clock)
    }

    /// What the feed of this query says to a ticket.
    fn admit(tickets: &Tickets, query: &str) -> Result<(OpenedFeed, String), Refusal> {
        let uri = format!("{FEED}?{query}");
        let mut request = Request::get(uri).body(axum::body::Body::empty()).unwrap();
        let opened = tickets.admit(&mut request).unwrap()?;
        Ok((opened, request.uri().to_string()))
    }

    #[test]
    fn a_ticket_opens_for_a_minute_and_comes_back_until_ten_behind_its_last_feed() {
        let (tickets, clock) = tickets("secret");
        let (ticket, _) = tickets.give(&below(["a/"]));
        let query = format!("prefix=a/b&ticket={ticket}&since=1");
        clock.advance(OPENS_FOR - Duration::from_millis(1));
        let (feed, seen) = admit(&tickets, &query).unwrap();
        assert_eq!(seen, format!("{FEED}?prefix=a/b&since=1"));
        // While it is open, it may come back: the gateway learns late of a client that went.
        clock.advance(Duration::from_hours(5));
        let (again, _) = admit(&tickets, &query).unwrap();
        drop(feed);
        clock.advance(COMES_BACK_FOR);
        drop(again);
        clock.advance(COMES_BACK_FOR - Duration::from_millis(1));
        drop(admit(&tickets, &query).unwrap());
        clock.advance(COMES_BACK_FOR);
        assert!(matches!(admit(&tickets, &query), Err(Refusal::Over)));
        let (unused, _) = tickets.give(&below(["a/"]));
        clock.advance(OPENS_FOR);
        let late = admit(&tickets, &format!("prefix=a/&ticket={unused}"));
        // An `EventSource` does not come back behind this status.
        let late = late.unwrap_err().into_response();
        assert_eq!(late.status(), StatusCode::NO_CONTENT);
    }

    #[test]
    fn a_ticket_is_for_its_prefix_and_its_token() {
        let (tickets, _) = tickets("secret");
        let (ticket, _) = tickets.give(&below(["rooms/", "guilds/red"]));
        for query in [
            "",
            "prefix=",
            "prefix=room",
            "prefix=players/",
            "prefix=rooms/a&prefix=b",
            "prefix=rooms/&%70refix=b",
            "prefix=guilds/reds",
            "prefix=guilds/",
        ] {
            let answer = admit(&tickets, &format!("{query}&ticket={ticket}"));
            assert!(matches!(answer, Err(Refusal::Elsewhere(_))), "{query}");
        }
        let (of_all, _) = tickets.give(&Prefixes::default());
        for query in [
            format!("ticket={of_all}"),
            format!("ticket={ticket}&prefix=rooms%2Flobby"),
            format!("prefix=guilds/red&ticket={ticket}&prefix=rooms/lobby&prefix=guilds/red/seats"),
        ] {
            assert!(admit(&tickets, &query).is_ok(), "{query}");
        }
        let (same, other) = (self::tickets("secret").0, self::tickets("secret2").0);
        let query = format!("prefix=rooms/&ticket={ticket}");
        assert!(admit(&same, &query).is_ok());
        assert!(matches!(admit(&other, &query), Err(Refusal::Unknown)));
        let altered = ticket.replacen(ticket.get(30..31).unwrap(), "_", 1);
        for wrong in ["", "x", altered.as_str()] {
            let answer = admit(&tickets, &format!("prefix=rooms/&ticket={wrong}"));
            assert!(matches!(answer, Err(Refusal::Unknown)), "{wrong}");
        }
    }

    #[test]
    fn tickets_that_have_opened_a_feed_are_bounded() {
        let (tickets, clock) = tickets("secret");
        let number = std::cell::Cell::new(0_u64);
        let open = || {
            number.set(number.get() + 1);
            let mut signature = [0; 32];
            signature[..8].copy_from_slice(&number.get().to_be_bytes());
            tickets.open(&Ticket {
                opens_until: clock.now().plus(OPENS_FOR),
                prefixes: Prefixes::default(),
                signature,
            })
        };
        for _ in 0..USED_MAX {
            drop(open().unwrap());
        }
        assert!(matches!(open(), Err(Refusal::Full)));
        clock.advance(COMES_BACK_FOR);
        drop(open().unwrap());
    }
}
