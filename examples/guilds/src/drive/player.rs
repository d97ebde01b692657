//! A player: random commands on random servers, and a diary of the answers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use anyhow::bail;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

/// A player of the driver.
#[derive(Debug)]
pub struct Player {
    /// The line that logs the player in.
    pub login: String,
    /// The other members of the guild.
    pub mates: Vec<u64>,
    /// All game servers.
    pub servers: Vec<SocketAddr>,
    /// The random choices.
    pub choices: StdRng,
    /// The diary so far.
    pub diary: Diary,
}

/// The experience of a player with the game servers.
#[derive(Debug, Clone, Default)]
pub struct Diary {
    /// The player.
    pub player: u64,
    /// For each command, the number of lines that were sent, and of those that were carried out.
    pub commands: BTreeMap<String, (u64, u64)>,
    /// Commands that were refused.
    pub refused: u64,
    /// Moves to another server.
    pub moves: u64,
    /// Connections that broke.
    pub cut_off: u64,
}

impl Diary {
    /// The empty diary of a player.
    #[must_use]
    pub fn of(player: u64) -> Self {
        Self {
            player,
            ..Self::default()
        }
    }

    /// How often this command was sent.
    #[must_use]
    pub fn sent(&self, command: &str) -> u64 {
        self.commands.get(command).map_or(0, |(sent, _)| *sent)
    }

    /// How often a server acknowledged this command.
    #[must_use]
    pub fn done(&self, command: &str) -> u64 {
        self.commands.get(command).map_or(0, |(_, done)| *done)
    }
}

/// A connection to a game server.
struct Link {
    server: SocketAddr,
    stream: BufStream<TcpStream>,
}

impl Link {
    async fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = BufStream::new(TcpStream::connect(server).await?);
        Ok(Self { server, stream })
    }

    /// Sends a line. Returns the answer, or the reason of a refusal. An error means that the
    /// connection is over, and that nobody knows whether the command was carried out.
    async fn ask(&mut self, line: &str) -> io::Result<Result<String, String>> {
        self.stream
            .write_all(format!("{line}\n").as_bytes())
            .await?;
        self.stream.flush().await?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await?;
        match answer.trim_end_matches('\n').split_once(' ') {
            Some(("ok", words)) => Ok(Ok(words.to_owned())),
            Some(("no", words)) => Ok(Err(words.to_owned())),
            _ => Err(io::Error::other(answer)),
        }
    }
}

impl Player {
    /// Plays this number of commands, and logs out.
    ///
    /// # Errors
    /// The player can't log in on any server.
    pub async fn play(
        mut self,
        commands: u64,
        progress: UnboundedSender<()>,
    ) -> anyhow::Result<Diary> {
        let mut link = self.log_in(None).await?;
        for _ in 0..commands {
            if self.choices.random_ratio(1, 20) {
                // The old connection is still open. The new server asks the old one for the player.
                link = self.log_in(Some(link.server)).await?;
                self.diary.moves += 1;
            }
            if self.act(&mut link).await.is_err() {
                self.diary.cut_off += 1;
                link = self.log_in(None).await?;
            }
            // The driver listens until half of all commands are done.
            let _ = progress.send(());
        }
        if link.ask("logout").await.is_err() {
            self.diary.cut_off += 1;
        }
        Ok(self.diary)
    }

    /// Logs in on any server, but not on the one that the player leaves.
    async fn log_in(&mut self, leaves: Option<SocketAddr>) -> anyhow::Result<Link> {
        self.servers.shuffle(&mut self.choices);
        for server in self
            .servers
            .iter()
            .filter(|server| Some(**server) != leaves)
        {
            let Ok(mut link) = Link::open(*server).await else {
                continue; // the server is dead
            };
            match link.ask(&self.login).await {
                Ok(Ok(_)) => return Ok(link),
                Ok(Err(why)) => bail!("{:?} was refused: {why}", self.login),
                Err(_) => self.diary.cut_off += 1,
            }
        }
        bail!("{:?} finds no server", self.login)
    }

    /// Sends a command, and notes it in the diary.
    async fn act(&mut self, link: &mut Link) -> io::Result<()> {
        let line = self.choose(link).await?;
        let command = line.split(' ').next().unwrap_or_default();
        let (sent, done) = self.diary.commands.entry(command.to_owned()).or_default();
        *sent += 1;
        match link.ask(&line).await? {
            Ok(_) => *done += 1,
            Err(_) => self.diary.refused += 1,
        }
        Ok(())
    }

    async fn choose(&mut self, link: &mut Link) -> io::Result<String> {
        let items = link.ask("inventory").await?.unwrap_or_default();
        let items: Vec<&str> = items.split_whitespace().collect();
        let choices = &mut self.choices;
        let (item, mate) = (items.choose(choices), self.mates.choose(choices));
        let gold = choices.random_range(1..60);
        Ok(match (choices.random_range(0..10), item, mate) {
            (0..4, Some(item), Some(mate)) => format!("trade {item} {mate} {gold}"),
            (4..7, _, Some(mate)) => format!("pay {mate} {gold}"),
            (7, _, _) => format!("walk {gold} -{gold}"),
            _ => "quest".to_owned(),
        })
    }
}
