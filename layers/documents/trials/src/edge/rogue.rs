//! A client that does harm, on its connection.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::args::IDLE;
use super::kind::{Habit, Kind};
use super::wire::opening;

/// How long a client waits for its connection. The system keeps more than there may be waiting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes that the system keeps for a client that does not read.
const UNREAD: u32 = 4 << 10;
/// The bytes that a client reads at once.
const ROOM: usize = 4 << 10;
/// The pauses of a client that comes again before the idle time of the gateway is over, as parts of that
/// time. On a slow machine the gateway reads late, so half of the time is left for that.
const WITHIN: Range<f64> = 0.25..0.5;
/// The pauses of a client that holds a request, and rests for longer than the idle time all the same.
const BEYOND: Range<f64> = 1.25..2.0;
/// How long a client stays that goes before the idle time is over.
const EARLY: Range<f64> = 0.1..0.5;
/// How long others stay: less than the idle time, or more than twice as long. The gateway looks once in
/// that time whether a request has come, so it ends a connection after up to twice the time.
const LATE: Range<f64> = 0.1..3.0;
/// How long a client waits for the gateway to end its connection. That is far more than the idle time.
const PATIENCE_AT_END: Duration = Duration::from_secs(30);

/// How a client fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fared {
    /// It got no connection.
    Refused,
    /// The gateway ended its connection.
    Ended,
    /// It went by itself.
    Went,
    /// It waited for the gateway to end its connection, in vain.
    Kept,
}

/// How long a client stays, unless the gateway ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// It goes by itself after this time.
    For(Duration),
    /// It waits for that end, which is due.
    UntilEnded,
}

/// How long a client of a kind stays. Of those that the gateway has to end, every second one goes before
/// that.
pub fn stay(kind: Kind, rng: &mut StdRng) -> Stay {
    if kind.vanishes() {
        return Stay::For(Duration::from_millis(rng.random_range(1..300)));
    }
    match (kind.has_to_end(), rng.random_range(0..2)) {
        (false, _) => Stay::For(IDLE.mul_f64(rng.random_range(LATE))),
        (true, 0) => Stay::For(IDLE.mul_f64(rng.random_range(EARLY))),
        (true, _) => Stay::UntilEnded,
    }
}

/// The pause of a client between two requests, or two bytes. A stranger keeps its place by that alone.
/// A request of a caller keeps its connection however long it rests, so some of them rest for long.
fn pause(kind: Kind, rng: &mut StdRng) -> Duration {
    let rests = kind.is_caller() && rng.random_range(0..2) == 0;
    IDLE.mul_f64(rng.random_range(if rests { BEYOND } else { WITHIN }))
}

/// Lives until it goes by itself, or the gateway ends the connection.
pub async fn live(address: SocketAddr, kind: Kind, stay: Stay, mut rng: StdRng) -> Fared {
    let Ok(Ok(mut stream)) = timeout(PATIENCE, connected(address, kind)).await else {
        return Fared::Refused;
    };
    let (time, otherwise) = match stay {
        Stay::For(time) => (time, Fared::Went),
        Stay::UntilEnded => (PATIENCE_AT_END, Fared::Kept),
    };
    let ended = timeout(time, act(&mut stream, kind, &mut rng)).await;
    if kind.vanishes() || rng.random_range(0..3) == 0 {
        // The connection ends by a reset.
        let _ = stream.set_zero_linger();
    }
    match ended {
        Ok(()) => Fared::Ended,
        Err(_) => otherwise,
    }
}

async fn connected(address: SocketAddr, kind: Kind) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if [Habit::Deaf, Habit::Reads].contains(&kind.habit()) {
        socket.set_recv_buffer_size(UNREAD)?;
    }
    socket.connect(address).await
}

/// Does what it does until the connection ends.
async fn act(stream: &mut TcpStream, kind: Kind, rng: &mut StdRng) {
    let first = opening(kind, rng);
    if stream.write_all(&first).await.is_err() {
        return;
    }
    if kind == Kind::HalfOpen {
        let _ = stream.shutdown().await;
    }
    let (mut reader, mut writer) = stream.split();
    let pause = pause(kind, rng);
    match kind.habit() {
        Habit::Deaf => std::future::pending().await,
        Habit::Waits => while is_open(&mut reader, ROOM).await {},
        Habit::Reads => {
            while is_open(&mut reader, 1).await {
                sleep(pause).await;
            }
        }
        Habit::Writes => write_on((&mut reader, &mut writer), b"x", pause).await,
        Habit::Repeats => write_on((&mut reader, &mut writer), &first, pause).await,
    }
}

/// Reads up to so many bytes. Returns whether the connection is still open.
async fn is_open(reader: &mut ReadHalf<'_>, most: usize) -> bool {
    let mut bytes = vec![0; most];
    reader.read(&mut bytes).await.is_ok_and(|count| count > 0)
}

/// Writes again and again, and reads all, until the connection ends.
async fn write_on(
    (reader, writer): (&mut ReadHalf<'_>, &mut WriteHalf<'_>),
    bytes: &[u8],
    pause: Duration,
) {
    let reads = async { while is_open(reader, ROOM).await {} };
    let writes = async {
        sleep(pause).await;
        while writer.write_all(bytes).await.is_ok() {
            sleep(pause).await;
        }
    };
    tokio::select! {
        () = reads => {}
        () = writes => {}
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_stranger_comes_again_within_the_idle_time_and_some_callers_rest_beyond_it() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut longest = |kind| (0..1_000).map(|_| pause(kind, &mut rng)).max();
        assert!(longest(Kind::Stranger) <= Some(IDLE / 2));
        assert!(longest(Kind::StrangeBody) <= Some(IDLE / 2));
        assert!(longest(Kind::SlowBody) > Some(IDLE));
    }

    #[test]
    fn a_client_that_has_to_end_goes_within_the_idle_time_or_waits_for_the_end() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut stays = |kind| (0..100).map(|_| stay(kind, &mut rng)).collect::<Vec<_>>();
        for kind in Kind::ALL.into_iter().filter(|kind| kind.has_to_end()) {
            let stays = stays(kind);
            assert!(stays.contains(&Stay::UntilEnded));
            let goes_late = |stay: &Stay| matches!(stay, Stay::For(time) if *time > IDLE / 2);
            assert!(!stays.iter().any(goes_late));
        }
        assert!(!stays(Kind::Stranger).contains(&Stay::UntilEnded));
    }
}
