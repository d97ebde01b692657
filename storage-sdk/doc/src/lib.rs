//! The set-up of the doc examples of storage-sdk.
//!
//! An example hides one line, and the line that closes it. The name in the hidden line is what the example begins with:
//!
//! ```text
//! # storage_doc::with_player(async |ann| {
//! assert_eq!(ann.incr("gold", 5).await?.value(), 5);
//! # Ok(()) });
//! ```
//!
//! The storage is in memory, so no example leaves a file. An example that fails panics with its error.

use std::error::Error;

use serde::{Deserialize, Serialize};
use storage_sdk::{ByteOwner, ByteStorage, InGroup, ObjStorage, SaveObject, Storage, World};

/// The end of an example.
pub type Done = Result<(), Box<dyn Error>>;

/// The object of examples that are not about their type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "hero")]
pub struct Hero {
    /// The id of its owner.
    #[save_object(owner_id)]
    pub id: u64,
    /// The level.
    pub level: u32,
}

/// An example without a storage. It opens its own.
///
/// # Panics
/// The example fails, or the system allows no runtime.
pub fn run(example: impl AsyncFnOnce() -> Done) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(example()));
    assert!(done.is_ok(), "the example failed: {done:?}");
}

/// An example with files. The working folder is a new one, which goes with the example.
///
/// # Panics
/// As [`run`], or the system allows no folder.
pub fn in_folder(example: impl AsyncFnOnce() -> Done) {
    run(async || {
        let folder = tempfile::tempdir()?;
        std::env::set_current_dir(folder.path())?;
        example().await
    });
}

/// An example with a storage.
///
/// # Panics
/// As [`run`].
pub fn with_storage(example: impl AsyncFnOnce(Storage) -> Done) {
    run(async || example(Storage::in_memory().await?).await);
}

/// An example with a world.
///
/// # Panics
/// As [`run`].
pub fn with_world(example: impl AsyncFnOnce(World) -> Done) {
    with_storage(async |storage| example(storage.world("mygame", "eu-1")?).await);
}

/// An example with the owners of a world.
///
/// # Panics
/// As [`run`].
pub fn with_bytes(example: impl AsyncFnOnce(ByteStorage) -> Done) {
    with_world(async |world| example(world.bytes()).await);
}

/// An example with an owner.
///
/// # Panics
/// As [`run`].
pub fn with_player(example: impl AsyncFnOnce(ByteOwner) -> Done) {
    with_bytes(async |bytes| example(bytes.owner("player", 42_u64)?).await);
}

/// An example with two owners of one group.
///
/// # Panics
/// As [`run`].
pub fn with_two(example: impl AsyncFnOnce(ByteOwner, ByteOwner) -> Done) {
    with_bytes(async |bytes| {
        let member = |id| bytes.owner("purse", InGroup("red", id));
        example(member(1)?, member(2)?).await
    });
}

/// An example with the objects of a type.
///
/// # Panics
/// As [`run`].
pub fn with_heroes(example: impl AsyncFnOnce(ObjStorage<Hero>) -> Done) {
    with_world(async |world| example(world.objects()).await);
}
