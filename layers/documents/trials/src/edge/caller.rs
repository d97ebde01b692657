//! A caller with the token, on connections of HTTP/1.1 whose standing it knows. A library would open
//! another connection by itself when the gateway ends one, and nobody would hear of that.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::args::IDLE;
use super::promise::{Failed, Met, Standing, makes_room};
use crate::bench::http::{find, header, read};
use crate::gateway::TOKEN;

/// How long one try may need.
const PATIENCE: Duration = Duration::from_secs(20);
/// The line before the body.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A request for a resource below the prefix of the gateway.
#[derive(Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'static str,
    /// The resource.
    pub resource: &'a str,
    /// The key, so that a repeat changes nothing.
    pub key: Option<String>,
    /// The body. Without one it is empty.
    pub body: String,
}

impl<'a> Request<'a> {
    /// A read.
    #[must_use]
    pub fn get(resource: &'a str) -> Self {
        Self {
            method: "GET",
            resource,
            key: None,
            body: String::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self {
            method,
            resource,
            key,
            body,
        } = self;
        let key = key
            .as_ref()
            .map(|key| format!("Idempotency-Key: {key}\r\n"));
        let text = format!(
            "{method} /hyper-storage/{resource} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {TOKEN}\r\n{}Content-Length: {}\r\n\r\n{body}",
            key.unwrap_or_default(),
            body.len()
        );
        text.into_bytes()
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    fn ends_its_connection(&self) -> bool {
        let of = self.header("connection");
        of.is_some_and(|of| of.eq_ignore_ascii_case("close"))
    }
}

/// A caller with the token.
#[derive(Debug)]
pub struct Caller {
    address: SocketAddr,
    is_kept: bool,
    connection: Option<Connection>,
}

impl Caller {
    /// A caller that keeps its connection, or opens another one for each request.
    #[must_use]
    pub fn new(address: SocketAddr, is_kept: bool) -> Self {
        Self {
            address,
            is_kept,
            connection: None,
        }
    }

    /// Sends a request once. The inner error is a try without an answer.
    ///
    /// # Errors
    /// The answer is no HTTP that this caller knows.
    pub async fn call(&mut self, request: &Request<'_>) -> Result<Result<Answer, Failed>> {
        let sent = Instant::now();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match Connection::open(self.address).await {
                Ok(connection) => connection,
                Err(error) => return Ok(Err(no_connection(&error))),
            },
        };
        let asked = timeout(PATIENCE, connection.ask(request)).await;
        let (met, why) = match asked {
            Ok(Ok(())) => {
                let answer = connection.answer()?;
                if !makes_room(answer.status, &answer.body) {
                    connection.known = Some(sent);
                    let stays = self.is_kept && !answer.ends_its_connection();
                    self.connection = stays.then_some(connection);
                    return Ok(Ok(answer));
                }
                (Met::Room, answer.body)
            }
            Ok(Err(error)) if connection.bytes.is_empty() => (Met::Cut, format!("{error:#}")),
            Ok(Err(error)) => (Met::Torn, format!("{error:#}")),
            Err(_) => (Met::Silence, format!("no answer within {PATIENCE:?}")),
        };
        let standing = standing(connection.known);
        Ok(Err(Failed { standing, met, why }))
    }
}

fn no_connection(error: &anyhow::Error) -> Failed {
    Failed {
        standing: Standing::New,
        met: Met::Silence,
        why: format!("{error:#}"),
    }
}

/// The standing on a connection whose last request with an answer was sent at this time. The gateway
/// counts its idle time from a later moment, so on a slow machine no caller is taken for a known one
/// that rested.
fn standing(known: Option<Instant>) -> Standing {
    match known {
        None => Standing::New,
        Some(sent) if sent.elapsed() < IDLE => Standing::Known,
        Some(_) => Standing::Rested,
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// When the last request was sent that has its answer.
    known: Option<Instant>,
    /// The last answer.
    bytes: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await;
        let stream = stream.with_context(|| format!("no connection within {PATIENCE:?}"))??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            known: None,
            bytes: Vec::new(),
        })
    }

    /// Sends a request and reads the whole answer.
    async fn ask(&mut self, request: &Request<'_>) -> Result<()> {
        self.bytes.clear();
        self.stream.write_all(&request.bytes()).await?;
        while !self.is_whole()? {
            read(&mut self.stream, &mut self.bytes).await?;
        }
        Ok(())
    }

    /// The head of the answer, once it is there, and the length of both with the line between them.
    fn head(&self) -> Result<Option<(&str, usize)>> {
        let Some(end) = find(&self.bytes, END_OF_HEAD) else {
            return Ok(None);
        };
        let head = std::str::from_utf8(self.bytes.get(..end).unwrap_or_default())?;
        Ok(Some((head, end + END_OF_HEAD.len())))
    }

    fn is_whole(&self) -> Result<bool> {
        let Some((head, begin)) = self.head()? else {
            return Ok(false);
        };
        let length = header(head, "content-length").unwrap_or("0");
        Ok(self.bytes.len() >= begin + length.parse::<usize>()?)
    }

    /// The answer, which is whole.
    fn answer(&self) -> Result<Answer> {
        let (head, begin) = self.head()?.context("an answer without a head")?;
        anyhow::ensure!(
            header(head, "transfer-encoding").is_none(),
            "an answer in chunks: {head}"
        );
        let status = head.get(9..12).unwrap_or_default();
        let body = self.bytes.get(begin..).unwrap_or_default();
        Ok(Answer {
            status: status
                .parse()
                .with_context(|| format!("no status: {head}"))?,
            head: head.to_owned(),
            body: std::str::from_utf8(body)?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const TORN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no";
    const ROOM: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 41\r\n\r\nthe connection makes room for another one";

    /// A server that answers the requests of one connection so, and ends it.
    async fn server(answers: &'static [&'static str]) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            for answer in answers {
                let mut request = Vec::new();
                while find(&request, END_OF_HEAD).is_none() {
                    read(&mut stream, &mut request).await?;
                }
                stream.write_all(answer.as_bytes()).await?;
            }
            anyhow::Ok(())
        });
        Ok(address)
    }

    /// The standing and the end of the call behind so many whole answers.
    async fn behind(whole: usize, answers: &'static [&'static str]) -> Result<(Standing, Met)> {
        let mut caller = Caller::new(server(answers).await?, true);
        for _ in 0..whole {
            let answer = caller.call(&Request::get("a")).await?.unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
        }
        let failed = caller.call(&Request::get("a")).await?.unwrap_err();
        Ok((failed.standing, failed.met))
    }

    #[tokio::test]
    async fn a_caller_knows_how_its_connection_ended_and_whether_it_was_known() -> Result<()> {
        assert_eq!(behind(0, &[]).await?, (Standing::New, Met::Cut));
        assert_eq!(behind(0, &[ROOM]).await?, (Standing::New, Met::Room));
        assert_eq!(behind(0, &[TORN]).await?, (Standing::New, Met::Torn));
        assert_eq!(behind(1, &[WHOLE]).await?, (Standing::Known, Met::Cut));
        let room = behind(1, &[WHOLE, ROOM]).await?;
        assert_eq!(room, (Standing::Known, Met::Room));
        let torn = behind(1, &[WHOLE, TORN]).await?;
        assert_eq!(torn, (Standing::Known, Met::Torn));
        Ok(())
    }

    #[test]
    fn a_caller_rested_once_its_last_request_is_older_than_the_idle_time() {
        assert_eq!(standing(None), Standing::New);
        assert_eq!(standing(Some(Instant::now())), Standing::Known);
        let old = Instant::now().checked_sub(IDLE).unwrap();
        assert_eq!(standing(Some(old)), Standing::Rested);
    }
}
