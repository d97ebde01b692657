//! The process of a game server. A player is a connection, and the player's session lives as long
//! as the connection.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use storage_sdk::{Session, Settings, Storage};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::game::{Game, Refusal};
use crate::profile::Profile;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The settings file. All servers and workers have the same one
    #[arg(long)]
    config: PathBuf,
    /// The name of this server
    #[arg(long)]
    name: String,
}

/// Prints the address of the server, and serves players until the standard input ends.
///
/// # Errors
/// The storage does not open, no port is free, or a player could not be saved at the end.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut settings = Settings::load(&args.config)?;
    settings.sessions.name = Some(args.name.clone());
    let storage = Storage::open(settings).await?;
    let game = Arc::new(Game::new(&storage, &args.name)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    at_end_of_input(|| drop(stop));
    tokio::select! {
        failed = accept(&listener, &game) => failed?,
        _ = stopped => {}
    }
    let unsaved = storage
        .close(Duration::from_secs(10))
        .await
        .sessions
        .unsaved;
    ensure!(
        unsaved.is_empty(),
        "these players are not saved: {unsaved:?}"
    );
    Ok(())
}

/// Calls the closure when the standard input ends. A parent ends a child this way, also if it dies.
pub fn at_end_of_input(then: impl FnOnce() + Send + 'static) {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        then();
    });
}

async fn accept(listener: &TcpListener, game: &Arc<Game>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let game = Arc::clone(game);
        tokio::spawn(async move {
            if let Err(error) = serve(&game, Client::new(stream)).await {
                tracing::warn!(%error, "the connection of a player failed");
            }
        });
    }
}

/// Serves one player from the login to the end of the connection.
async fn serve(game: &Game, mut client: Client) -> anyhow::Result<()> {
    let Some(login) = client.line().await? else {
        return Ok(());
    };
    let profile = match game.log_in(&login).await {
        Ok(profile) => profile,
        Err(refusal) => return Ok(client.answer(Err(refusal)).await?),
    };
    let last_line = play(game, &profile, &mut client).await;
    // The last save and the end of the session are one step. It must come even if the connection
    // broke.
    profile.end().await?;
    Ok(client.say(&last_line?).await?)
}

/// Plays until the player leaves, another server asks for the player, or the session is lost.
/// Returns the last line for the player.
async fn play(game: &Game, profile: &Session<Profile>, client: &mut Client) -> io::Result<String> {
    client.answer(Ok("welcome".to_owned())).await?;
    loop {
        tokio::select! {
            line = client.line() => match line?.as_deref() {
                None | Some("logout") => return Ok("ok goodbye".to_owned()),
                Some(line) => client.answer(game.act(profile, line).await).await?,
            },
            server = profile.asked() => return Ok(format!("moved to {server}")),
            why = profile.lost() => return Ok(format!("lost: {why}")),
        }
    }
}

/// The connection of a player.
struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    output: OwnedWriteHalf,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        let (input, output) = stream.into_split();
        let lines = BufReader::new(input).lines();
        Self { lines, output }
    }

    /// The next line. `None` at the end.
    async fn line(&mut self) -> io::Result<Option<String>> {
        self.lines.next_line().await
    }

    async fn answer(&mut self, answer: Result<String, Refusal>) -> io::Result<()> {
        match answer {
            Ok(words) => self.say(&format!("ok {words}")).await,
            Err(refusal) => self.say(&format!("no {refusal}")).await,
        }
    }

    async fn say(&mut self, line: &str) -> io::Result<()> {
        self.output.write_all(format!("{line}\n").as_bytes()).await
    }
}
