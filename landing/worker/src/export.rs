//! `export`: print all owners as JSON lines, hot or cold.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use storage_dirty::{Fields, HotRead, Read};
use storage_landing::rescue::marked_owners;
use storage_model::Partition;
use storage_sdk::{Kind, Owner, Storage};
use storage_tiers::TierError;

use crate::config_args::ConfigArgs;
use crate::entity::{Base, Entity};
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Write to this file instead of stdout. - is stdout, too. The old content of the file stays
    /// until the export is complete
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only owners with changes that have not landed from this Redis, each with its version. Import
    /// compares the versions, so it overwrites nothing that changed in another Redis. Works on a
    /// Redis that was replaced
    #[arg(long)]
    unlanded: bool,
    /// Show the content of stored objects, as {"object": …, "schema_version": …} in place of
    /// base64. Only for reading: import rejects this form
    #[arg(long)]
    decode: bool,
    /// Give up after this long. A tier that is away ends the command at once
    #[arg(long, default_value = "1day")]
    deadline: Deadline,
}

/// Owners of one request to the hot tier.
const AT_ONCE: usize = 200;
/// Cold owners of one request that are read concurrently.
const COLD_AT_ONCE: usize = 32;

/// What an export has written.
#[derive(Debug, Clone, Copy, Default)]
struct ExportCount {
    owners: u64,
    /// Owners that can't be read although the tiers answer.
    unreadable: u64,
}

impl ExportCount {
    /// Counts an owner that can't be read, and names it.
    fn leave_out(&mut self, error: &anyhow::Error) {
        tracing::error!("{error}. It is left out");
        self.unreadable += 1;
    }
}

/// The present state of an owner, given its hash. `None` if it has no fields left. A cold owner
/// stays cold, because an export of all owners would fill the hot tier with owners that nobody
/// plays.
async fn entity(
    storage: &Storage,
    owner: &Owner,
    hot: Option<HotRead>,
    decode: bool,
) -> anyhow::Result<Option<Entity>> {
    let whole = |read: &HotRead| {
        read.header
            .is_some_and(|header| header.complete && !header.suspect)
    };
    let read = match hot {
        Some(read) if whole(&read) => Ok(read),
        _ => storage.tiers().glance(owner).await,
    };
    match read {
        Ok(read) => {
            let live = read
                .cells
                .iter()
                .filter_map(|(field, cell)| Some((field, cell.live()?)));
            return Ok(Entity::new(owner, live, decode));
        }
        Err(error @ TierError::Unreadable { .. }) => return Err(error.into()),
        Err(_) => {}
    }
    // Reads as a game server does: waits a little for a tier that is away, and reports the fault.
    let bytes = storage.world(owner.app(), owner.region())?.bytes();
    let record = bytes
        .owner(owner.logic_type(), owner.id())?
        .get_all()
        .await?;
    Ok(Entity::new(owner, record.iter(), decode))
}

/// The present state of an owner that could not be read beside others.
async fn entity_alone(
    storage: &Storage,
    owner: &Owner,
    decode: bool,
) -> anyhow::Result<Option<Entity>> {
    let hot = storage.tiers().whole_hash(owner).await;
    if let Err(error) = &hot
        && is_of_owner(error)
    {
        return Err(error.clone().into());
    }
    entity(storage, owner, hot.ok(), decode).await
}

/// Whether an error concerns one owner, which is left out of the export.
const fn is_of_owner(error: &TierError) -> bool {
    matches!(
        error,
        TierError::Unreadable { .. } | TierError::Contended { .. }
    )
}

/// Whether another owner may be the cause of an error, so that the owner must be read alone.
fn must_be_read_alone(error: &anyhow::Error) -> bool {
    let of_sdk = error.downcast_ref::<storage_sdk::Error>();
    of_sdk.is_some_and(|error| matches!(error.kind(), Kind::HotUnavailable | Kind::Timeout))
        || error.downcast_ref().is_some_and(is_of_owner)
}

/// The owners to write, and their form.
#[derive(Debug, Clone, Copy)]
struct Form {
    unlanded: bool,
    decode: bool,
}

/// Writes the owners that can be read.
async fn write(storage: &Storage, out: &mut dyn Write, form: Form) -> anyhow::Result<ExportCount> {
    if form.unlanded {
        write_unlanded(storage, out, form.decode).await
    } else {
        write_all(storage, out, form.decode).await
    }
}

/// Writes the owners with marks, from the hot tier alone: newer rows may be of the one that replaced it.
async fn write_unlanded(
    storage: &Storage,
    out: &mut dyn Write,
    decode: bool,
) -> anyhow::Result<ExportCount> {
    let (mut out, tiers) = (BufWriter::new(out), storage.tiers());
    let mut written = ExportCount::default();
    for partition in (0..tiers.hot().partitions.partition_count()).map(Partition) {
        let owners = marked_owners(tiers, partition).await?;
        let state = tiers
            .hot()
            .partitions
            .partition_states(&[partition])
            .await
            .pop();
        let record = state.transpose()?.and_then(|state| state.record);
        let landed = record.map(|record| record.landed.get()).unwrap_or_default();
        for owner in owners {
            let read = match tiers.hash_as_it_is(&owner).await {
                Err(error) if is_of_owner(&error) => {
                    written.leave_out(&error.into());
                    continue;
                }
                read => read?,
            };
            let version = read.header.map(|header| header.version.get());
            let base = Base {
                version: version.unwrap_or_default(),
                landed,
            };
            let cells = read.cells.iter().map(|(field, cell)| (field, cell));
            let Some(entity) = Entity::unlanded(&owner, cells, base, decode) else {
                continue;
            };
            serde_json::to_writer(&mut out, &entity)?;
            out.write_all(b"\n")?;
            written.owners += 1;
        }
    }
    out.flush()?;
    Ok(written)
}

/// Writes all owners that can be read.
async fn write_all(
    storage: &Storage,
    out: &mut dyn Write,
    decode: bool,
) -> anyhow::Result<ExportCount> {
    let mut out = BufWriter::new(out);
    // A fault of the tables must surface as a database error, because its kind decides the exit
    // code.
    storage.tiers().cold().rows.all_owners(None, 1).await?;
    let mut pages = storage.owners().await?;
    let mut written = ExportCount::default();
    while let Some(owners) = pages.next().await? {
        for owners in owners.chunks(AT_ONCE) {
            let reads: Vec<Read> = owners
                .iter()
                .map(|owner| Read {
                    owner: owner.clone(),
                    fields: Fields::All,
                })
                .collect();
            let hot = storage.tiers().hot().owners.read(&reads).await;
            let entities = owners.iter().zip(hot).map(async |(owner, hot)| {
                let entity = entity(storage, owner, hot.ok(), decode).await;
                (owner, entity)
            });
            let mut entities = futures::stream::iter(entities).buffered(COLD_AT_ONCE);
            while let Some((owner, entity)) = entities.next().await {
                let entity = match entity {
                    Err(error) if must_be_read_alone(&error) => {
                        entity_alone(storage, owner, decode).await
                    }
                    entity => entity,
                };
                let entity = match entity {
                    Err(error) if error.downcast_ref().is_some_and(is_of_owner) => {
                        written.leave_out(&error);
                        continue;
                    }
                    entity => entity?,
                };
                let Some(entity) = entity else { continue };
                serde_json::to_writer(&mut out, &entity)?;
                out.write_all(b"\n")?;
                written.owners += 1;
            }
        }
    }
    out.flush()?;
    Ok(written)
}

/// Writes all owners to a file. The file gets its name only when it is complete. If an owner can't be
/// read, it keeps a name of its own.
async fn write_file(storage: &Storage, path: &Path, form: Form) -> anyhow::Result<ExportCount> {
    let old = std::fs::metadata(path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        // A pipe or a device. A file must not take its place.
        return write(storage, &mut File::create(path)?, form).await;
    }
    // The target of a link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = format!(
        "{}.",
        path.file_name().unwrap_or_default().to_string_lossy()
    );
    let mut part = tempfile::Builder::new();
    part.prefix(&name)
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666));
    let mut part = part.tempfile_in(folder)?;
    if let Some(old) = old {
        part.as_file().set_permissions(old.permissions())?;
    }
    let written = write(storage, part.as_file_mut(), form).await?;
    // ORDER: before the file gets its name. Otherwise a power failure may leave an empty file in
    // place of the old one.
    part.as_file().sync_all()?;
    if written.unreadable > 0 {
        let (_, kept) = part.keep()?;
        tracing::error!("the file is not complete, so it is {}", kept.display());
        return Ok(written);
    }
    part.persist(&path).map_err(|error| error.error)?;
    Ok(written)
}

/// Prints all owners in key order, hot or cold, with their unlanded changes. Cold owners are read
/// without filling the hot tier.
///
/// # Errors
/// The storage can't be opened or read, or the output can't be written, or the deadline passed. An
/// existing file is then unchanged.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, export(args)).await
}

async fn export(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let storage = Storage::builder(settings).read_only().open().await?;
    let form = Form {
        unlanded: args.unlanded,
        decode: args.decode,
    };
    let file = args.output.filter(|path| path != Path::new("-"));
    let written = match &file {
        Some(path) => write_file(&storage, path, form)
            .await
            .with_context(|| format!("the export to {}", path.display()))?,
        None => write(&storage, &mut std::io::stdout(), form).await?,
    };
    storage.close(Duration::from_secs(10)).await;
    let _ = writeln!(std::io::stderr(), "{} owners", written.owners);
    if written.unreadable == 0 {
        return Ok(Exit::Fine);
    }
    let _ = writeln!(
        std::io::stderr(),
        "{} owners are missing, since they can't be read",
        written.unreadable
    );
    Ok(Exit::Found)
}
