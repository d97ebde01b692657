//! The sinks of the settings: receivers of the feed's landed events.
//!
//! | module | concept |
//! | --- | --- |
//! | [`json`] | an event as JSON, the same for files and web services |
//! | [`mod@file`] | files of JSON lines |
//! | [`mod@stream`] | streams of Redis |
//! | [`webhook`] | a web service |
//! | [`lag`] | how far each sink is behind |

pub mod file;
pub mod json;
pub mod lag;
pub mod stream;
pub mod webhook;

use std::sync::Arc;

use storage_config::{Settings, SinkSettings};
use storage_landing::Sink;
use storage_model::{SinkName, Token};

pub use file::FileSink;
pub use stream::StreamSink;
pub use webhook::Webhook;

/// All sinks of the settings, for the feed of the database of this identity. Contacts none of them.
///
/// # Errors
/// A sink's settings are not usable.
pub fn of(settings: &Settings, feed: Token) -> anyhow::Result<Vec<(SinkName, Arc<dyn Sink>)>> {
    let mut sinks = Vec::new();
    for (name, settings) in &settings.sinks {
        sinks.push((name.clone(), one(name, settings, feed)?));
    }
    Ok(sinks)
}

/// The sink of these settings.
///
/// # Errors
/// As [`of`].
pub fn one(name: &SinkName, settings: &SinkSettings, feed: Token) -> anyhow::Result<Arc<dyn Sink>> {
    Ok(match settings {
        SinkSettings::File { dir, .. } => Arc::new(FileSink::new(dir.clone(), feed)),
        SinkSettings::Stream {
            url,
            key_prefix,
            keep,
            timeout,
            ..
        } => Arc::new(StreamSink::new(url, key_prefix, *keep, *timeout, feed)?),
        SinkSettings::Webhook {
            url,
            authorization,
            proxy,
            timeout,
            ..
        } => {
            let (authorization, proxy) = (authorization.as_ref(), proxy.as_ref());
            let sink = Webhook::through(name.clone(), url, authorization, *timeout, proxy)?;
            Arc::new(sink.of_feed(feed))
        }
        _ => anyhow::bail!("the sink {name} has a kind that this program does not serve"),
    })
}
