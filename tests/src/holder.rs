//! A game server that holds one owner in a session. It counts in all fields of the owner, saves,
//! and prints the events of the session.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_sdk::{Autosave, ByteSession, OnConflict, SessionOptions, Storage};
use tokio::signal::unix::{SignalKind, signal};

/// The arguments of a holder.
#[derive(Debug, clap::Args)]
pub struct HolderArgs {
    /// The settings file
    #[arg(long)]
    config: std::path::PathBuf,
    /// The owner's id
    #[arg(long)]
    owner: String,
    /// The number of fields that it counts in
    #[arg(long, default_value_t = 20)]
    fields: u32,
    /// Takes the owner at once from its holder
    #[arg(long)]
    steal: bool,
}

const LONG: Duration = Duration::from_secs(30);

/// Holds the owner until it is lost or SIGTERM comes. Prints "begins N", "saved N" for each save,
/// "lost WHY", and "closed ENDED LEFT UNSAVED".
///
/// # Errors
/// The storage does not open, the session does not begin, or the fields at its beginning differ.
pub async fn hold(args: HolderArgs) -> Result<()> {
    let mut stops = signal(SignalKind::terminate())?;
    let storage = Storage::open(storage_config::Settings::load(&args.config)?).await?;
    let owner = storage
        .world("game", "eu")?
        .bytes()
        .owner("count", args.owner.as_str())?;
    let on_conflict = if args.steal {
        OnConflict::Steal
    } else {
        OnConflict::Wait { at_most: LONG }
    };
    let session = owner
        .session(
            SessionOptions::new()
                .on_conflict(on_conflict)
                .autosave(Autosave::Off)
                .within(LONG),
        )
        .await?;
    let begins = number_of(&session)?;
    println!("begins {begins}");
    tokio::select! {
        stopped = stops.recv() => ensure!(stopped.is_some(), "no signals arrive"),
        lost = count(&session, begins, args.fields) => println!("lost {}", lost?),
    }
    let report = storage.close(LONG).await.sessions;
    println!(
        "closed {} {} {}",
        report.ended,
        report.left,
        report.unsaved.len()
    );
    Ok(())
}

/// The number in all fields. An error if they differ, because a save changes all of them or none.
fn number_of(session: &ByteSession) -> Result<u64> {
    let mut numbers = Vec::new();
    for (_, value) in session.fields() {
        numbers.push(std::str::from_utf8(&value)?.parse()?);
    }
    numbers.dedup();
    ensure!(
        numbers.len() <= 1,
        "the fields hold different numbers: {numbers:?}"
    );
    Ok(numbers.first().copied().unwrap_or_default())
}

/// Counts until the session is lost. Returns the reason of the loss.
async fn count(session: &ByteSession, begins: u64, fields: u32) -> Result<String> {
    for number in begins + 1.. {
        for field in 0..fields {
            if session
                .set(&format!("f{field:03}"), number.to_string())
                .is_err()
            {
                return Ok(session.lost().await.to_string());
            }
        }
        match session.save().deadline(LONG).await {
            Ok(_) => println!("saved {number}"),
            Err(error) if error.kind() == storage_sdk::Kind::Fenced => {
                return Ok(session.lost().await.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok("counted to the end".to_owned())
}
