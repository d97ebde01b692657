//! Typed settings of the storage, read from a file and from the environment.
//!
//! One struct and one file a concern. Every field states its default, its unit, its special value
//! and its consequence. Both URLs are required, and everything else has a default:
//!
//! ```
//! use storage_config::Settings;
//!
//! let text = r#"
//!     [redis]
//!     url = "redis://127.0.0.1:6379/0"
//!     [sql]
//!     url = "mysql://game@127.0.0.1:3306/game"
//!     [hot]
//!     clean_ttl = "30min"
//! "#;
//! let settings = Settings::from_toml(text, "storage.toml")?;
//! assert_eq!(settings.redis.partitions, 8);
//! # Ok::<(), storage_config::ConfigError>(())
//! ```
//!
//! | item | content |
//! | --- | --- |
//! | [`Settings`] | all sections, and the ways to get them |
//! | [`RedisSettings`], [`HotUrl`] | how to reach the hot tier |
//! | [`SqlSettings`], [`ColdUrl`] | how to reach the cold tier |
//! | [`HotSettings`] | how the hot tier is used as a cache |
//! | [`LandingSettings`] | how changes become durable |
//! | [`BackpressureSettings`] | how writes slow down when landing can't keep up |
//! | [`DurabilitySettings`] | how safe writes are when they are acknowledged |
//! | [`FeedSettings`] | which changes the feed has, and how long |
//! | [`SinkSettings`], [`SinkTarget`] | where landed events go |
//! | [`SessionSettings`] | how one server at a time writes an owner |
//! | [`storage_model::Limits`] | the section `limits`: the largest values and calls |
//! | [`ConfigError`] | the rejected value, its place and the allowed values |

mod backpressure;
mod cold_url;
mod draft;
mod durability;
mod entry;
mod error;
mod feed;
mod hot;
mod hot_url;
mod landing;
mod limits;
mod load;
mod redis;
mod secret;
mod sessions;
mod settings;
mod sinks;
mod sql;
mod url;
mod value;
mod web_url;

pub use backpressure::BackpressureSettings;
pub use cold_url::{ColdUrl, MysqlAddress};
pub use durability::DurabilitySettings;
pub use error::{ConfigError, Place};
pub use feed::FeedSettings;
pub use hot::HotSettings;
pub use hot_url::HotUrl;
pub use landing::LandingSettings;
pub use load::process_name;
pub use redis::RedisSettings;
pub use secret::Secret;
pub use sessions::SessionSettings;
pub use settings::Settings;
pub use sinks::{SinkKind, SinkSettings, SinkTarget, SinkUrl};
pub use sql::{SqlSettings, TlsMode};
pub use url::{Login, Node, UrlError};
pub use web_url::WebUrl;
