//! Documents: JSON under a path, with revisions, conditions, patches and a feed.
//!
//! A document is one owner of the storage. Each change is one step: the body, the revision and the
//! event of the feed are written together, or nothing is. Several processes can serve the same
//! documents.
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
//! use storage_documents::{Call, Documents, Path};
//!
//! let documents = Documents::new(&storage, "mygame", "eu-1")?;
//! let path = Path::new("guilds/red")?;
//! let put = documents.put(&path, br#"{"name":"Red","seats":3}"#, &Call::default()).await?;
//! assert_eq!((put.revision, put.created), (1, true));
//!
//! let patch = br#"{"seats":null,"open":true}"#;
//! assert_eq!(documents.patch(&path, patch, &Call::default()).await?.revision, 2);
//! let red = documents.get(&path).await?.expect("it is there");
//! assert_eq!(&*red.body, br#"{"name":"Red","open":true}"#);
//! # Ok(()) }
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`path`] | [`Path`]: which paths name a document |
//! | [`documents`] | [`Documents`], [`Document`], [`Changed`]: reads and writes |
//! | [`condition`] | [`Tag`], [`Conditions`]: entity tags and conditional requests |
//! | [`event`] | [`Event`], [`Method`]: the changes that the feed tells |
//! | [`json`] | [`Json`](json::Json): a body whose numbers keep their digits, and merge patches |
//! | [`error`] | [`Error`], [`Kind`] |

pub mod condition;
pub mod documents;
pub mod error;
pub mod event;
pub mod json;
pub mod path;
mod stored;

pub use condition::{Conditions, Tag};
pub use documents::{Call, Changed, Document, Documents};
pub use error::{Error, Kind, Result};
pub use event::{Event, Method};
pub use path::Path;
