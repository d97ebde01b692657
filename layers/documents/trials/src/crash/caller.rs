//! One call of a client, its answer, and its repeat.

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage_documents::event::id_of;
use storage_documents::once::Once;
use storage_documents::{Call, Changed, Documents, Error, Kind as Cause, Path, Tag};
use storage_sdk::Outcome;
use storage_tests::crash::play::Play;

use crate::torture::history::{Asked, End, Kind};

/// A call that a client makes. Its key is its token.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The kind.
    pub kind: Kind,
    /// The document, the item or the collection.
    pub path: &'static str,
    /// The name of the change.
    pub token: &'static str,
}

/// A call with its answer, as the history of a run keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    /// The place of the call among those of the scenario.
    at: usize,
    /// The path: of a post, that of its answer.
    path: String,
    end: Ended,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Ended {
    Made(u64, Option<(String, String)>),
    NotMade,
    Unknown,
}

/// The documents of a process.
///
/// # Errors
/// None but an impossible name.
pub fn documents(play: &Play<'_>) -> Result<Documents> {
    Ok(Documents::new(&play.storage, "documents", "main")?)
}

/// Makes all calls, each once, and records their answers.
///
/// # Errors
/// An answer is none that the call can have.
pub async fn make_all(play: &Play<'_>, wanted: &[Wanted]) -> Result<()> {
    let documents = documents(play)?;
    for (at, wanted) in wanted.iter().enumerate() {
        make(play, &documents, at, wanted).await?;
    }
    Ok(())
}

/// Makes the calls whose answers are not known, until each is answered.
///
/// # Errors
/// A call is not carried out although all is well.
pub async fn repeat_unanswered(play: &Play<'_>, wanted: &[Wanted]) -> Result<()> {
    let documents = documents(play)?;
    let answered = lines(play)?;
    for (at, wanted) in wanted.iter().enumerate() {
        let is_made = |line: &Line| line.at == at && matches!(line.end, Ended::Made(..));
        if answered.iter().any(is_made) {
            continue;
        }
        make(play, &documents, at, wanted).await?;
        let made = lines(play)?.last().is_some_and(is_made);
        anyhow::ensure!(
            made,
            "{wanted:?} is not carried out: {:?}",
            lines(play)?.last()
        );
    }
    Ok(())
}

/// The last answer to each call.
///
/// # Errors
/// The history has other lines.
pub fn asked(play: &Play<'_>, wanted: &[Wanted]) -> Result<Vec<Asked>> {
    let lines = lines(play)?;
    let of = |(at, wanted): (usize, &Wanted)| {
        let line = lines.iter().rev().find(|line| line.at == at);
        let line = line.with_context(|| format!("{wanted:?} was never made"))?;
        let end = match line.end.clone() {
            Ended::Made(revision, first) => End::Acked { revision, first },
            Ended::NotMade => End::NotApplied,
            Ended::Unknown => End::Unknown,
        };
        let token = if wanted.kind == Kind::Delete {
            ""
        } else {
            wanted.token
        };
        Ok(Asked {
            path: line.path.clone(),
            kind: wanted.kind,
            token: token.to_owned(),
            end,
        })
    };
    wanted.iter().enumerate().map(of).collect()
}

fn lines(play: &Play<'_>) -> Result<Vec<Line>> {
    let answers = play.history.answers();
    let lines = answers.iter().map(|line| serde_json::from_str(line));
    Ok(lines.collect::<Result<_, _>>()?)
}

async fn make(play: &Play<'_>, documents: &Documents, at: usize, wanted: &Wanted) -> Result<()> {
    let path = Path::new(wanted.path)?;
    let body = match wanted.kind {
        Kind::Increment => json!({ "n": wanted.token.parse::<u64>()? }),
        _ => json!({ "by": wanted.token }),
    };
    let body = body.to_string();
    let request: [&[u8]; 3] = [
        wanted.token.as_bytes(),
        wanted.path.as_bytes(),
        body.as_bytes(),
    ];
    let call = Call {
        once: Some(Once::new(&format!("key-{at}"), &request)?),
        ..Call::default()
    };
    // A process that dies here leaves a call without an answer.
    let unknown = Line {
        at,
        path: path.as_str().to_owned(),
        end: Ended::Unknown,
    };
    play.history.answered(serde_json::to_string(&unknown)?);
    let body = body.as_bytes();
    let result = match wanted.kind {
        Kind::Put => documents.put(&path, body, &call).await,
        Kind::Patch => documents.patch(&path, body, &call).await,
        Kind::Delete => documents.delete(&path, &call).await,
        Kind::Post => documents.post(&path, body, &call).await,
        Kind::Increment => {
            let edit = storage_documents::Edit::increment(body)?;
            documents.edit(&path, &edit, &call).await
        }
    };
    let line = answer(unknown, result).with_context(|| format!("{wanted:?}"))?;
    play.history.answered(serde_json::to_string(&line)?);
    Ok(())
}

fn answer(line: Line, result: Result<Changed, Error>) -> Result<Line> {
    let changed = match result {
        Ok(changed) => changed,
        Err(error) => {
            let end = match error.kind() {
                Cause::Storage(error) if error.outcome() == Outcome::NotApplied => Ended::NotMade,
                Cause::Storage(error) if error.outcome() == Outcome::Unknown => Ended::Unknown,
                // What it builds on may not have been made.
                Cause::Contended | Cause::Missing => Ended::NotMade,
                _ => bail!("{error}"),
            };
            return Ok(Line { end, ..line });
        }
    };
    let tag = Some(Tag::of(changed.version).to_string());
    let event = changed
        .event
        .map(|(partition, position)| id_of(partition, position));
    Ok(Line {
        path: changed.path.as_str().to_owned(),
        end: Ended::Made(changed.revision, tag.zip(event)),
        ..line
    })
}
