//! A client that does harm, on its connection.

use std::net::SocketAddr;
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
/// The longest pause between two bytes.
const PAUSE_MAX_MS: u64 = 1_000;

/// How a client fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fared {
    /// It got no connection.
    Refused,
    /// The gateway ended its connection.
    Ended,
    /// It went by itself.
    Went,
}

/// How long a client stays, unless the gateway ends its connection.
pub fn life(kind: Kind, rng: &mut StdRng) -> Duration {
    if kind.vanishes() {
        Duration::from_millis(rng.random_range(1..300))
    } else {
        IDLE.mul_f64(rng.random_range(0.1..3.0))
    }
}

/// Lives until it goes by itself, or the gateway ends the connection.
pub async fn live(address: SocketAddr, kind: Kind, life: Duration, mut rng: StdRng) -> Fared {
    let Ok(Ok(mut stream)) = timeout(PATIENCE, connected(address, kind)).await else {
        return Fared::Refused;
    };
    let ended = timeout(life, act(&mut stream, kind, &mut rng)).await;
    if kind.vanishes() || rng.random_range(0..3) == 0 {
        // The connection ends by a reset.
        let _ = stream.set_zero_linger();
    }
    match ended {
        Ok(()) => Fared::Ended,
        Err(_) => Fared::Went,
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
    let pause = Duration::from_millis(rng.random_range(50..PAUSE_MAX_MS));
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
