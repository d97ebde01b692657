//! Documents and collections: JSON under a path, with revisions, conditions, patches and a feed.
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
//! | [`path`] | [`Path`], [`Place`]: the resource that a path names |
//! | [`documents`] | [`Documents`], [`Document`]: reads and writes |
//! | [`call`] | [`Call`], [`Changed`]: how a write is made, and what comes of it |
//! | [`edit`] | [`Edit`]: puts, patches, increments and deletions |
//! | [`step`] | [`ItemChange`](step::ItemChange): changes of several items in one step |
//! | [`list`] | [`Query`], [`List`]: the items of a collection |
//! | [`filter`] | [`Filter`](filter::Filter), [`Sort`](filter::Sort): the language of queries |
//! | [`condition`] | [`Tag`], [`Conditions`]: entity tags and conditional requests |
//! | [`once`] | [`Once`](once::Once): calls that are carried out once, however often they are sent |
//! | [`event`] | [`Event`], [`Method`]: the changes that the feed tells |
//! | [`history`] | [`History`](history::History): kept versions |
//! | [`clean`] | [`Sweeper`](clean::Sweeper): ends documents, removes items of deleted collections, forgets keys |
//! | [`feed`] | [`Change`], pages of landed changes, and the state of one |
//! | [`prefixes`] | [`Prefixes`]: the paths that a follower is told of |
//! | [`missed`] | [`Missed`](missed::Missed): what a follower has missed |
//! | [`json`], [`json_patch`] | bodies whose numbers keep their digits, and patches |
//! | [`lines`] | [`Export`](lines::Export): documents as lines of JSON, to copy them |
//! | [`error`] | [`Error`], [`Kind`] |

mod attempts;
pub mod call;
pub mod clean;
mod collection;
pub mod condition;
pub mod documents;
pub mod edit;
pub mod error;
pub mod event;
pub mod feed;
pub mod filter;
pub mod history;
pub mod increment;
pub mod json;
pub mod json_patch;
pub mod lines;
pub mod list;
pub mod missed;
mod number;
pub mod once;
pub mod path;
pub mod prefixes;
mod single;
mod sizes;
pub mod step;
mod stored;

pub use call::{Call, Changed};
pub use condition::{Conditions, Tag};
pub use documents::{Document, Documents};
pub use edit::Edit;
pub use error::{Error, Kind, Result};
pub use event::{Event, Method};
pub use feed::Change;
pub use list::{List, Query};
pub use path::{Path, Place};
pub use prefixes::Prefixes;
