//! Typed settings of the storage, read from a file and from the environment.
//!
//! One struct and one file a concern. Every field states its default, its unit, its special value
//! and its consequence. Both URLs are required, and everything else has a default:
//!
//! ```
//! # use storage_config as storage_sdk;
//! use storage_sdk::Settings;
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

mod backpressure;
mod check;
mod cold_url;
mod durability;
mod duration;
mod error;
mod feed;
mod hot;
mod hot_url;
mod keys;
mod landing;
mod limits;
mod load;
mod redis;
mod rule;
mod secret;
mod section;
mod sessions;
mod settings;
mod sinks;
mod sources;
mod sql;
mod url;
mod web_url;

pub use backpressure::BackpressureSettings;
pub use cold_url::{ColdUrl, MysqlAddress};
pub use durability::DurabilitySettings;
pub use error::ConfigError;
pub use feed::FeedSettings;
pub use hot::HotSettings;
pub use hot_url::HotUrl;
pub use landing::LandingSettings;
pub use load::process_name;
pub use redis::RedisSettings;
pub use secret::Secret;
pub use sessions::SessionSettings;
pub use settings::Settings;
pub use sinks::SinkSettings;
pub use sql::{SqlSettings, TlsMode};
pub use url::{Login, Node, UrlError};
pub use web_url::WebUrl;
