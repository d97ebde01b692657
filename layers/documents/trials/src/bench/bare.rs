//! The role of bare handlers: the least that a handler must do for the same answer.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::routing::get;
use document_gateway::routes::PREFIX;
use redis::aio::MultiplexedConnection;
use serde_json::value::RawValue;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions, MySqlRow};
use sqlx::{AssertSqlSafe, Row as _};
use storage_config::Settings;
use storage_tests::bench::place::{connect, part_of};
use storage_tests::bench::talk::lines;
use tokio::net::TcpListener;

/// The storage's own statement for a page of items.
const ITEMS: &str = include_str!("../../../../../sql/query/mysql/rows_between.sql");
/// The most items of a page, and the rows that the storage reads for it.
const SIZE: usize = 100;
const ROWS: u64 = 101;
/// The field of a body.
const FIELD: &str = "d";
/// The world of the documents.
const WORLD: (&str, &str) = ("documents", "main");
const JSON: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// The arguments of bare handlers.
#[derive(Debug, clap::Args)]
pub struct BareArgs {
    /// The settings file
    #[arg(long)]
    config: PathBuf,
    /// The URL of the database
    #[arg(long)]
    database: String,
}

#[derive(Debug, Clone)]
struct Bare {
    redis: MultiplexedConnection,
    database: MySqlPool,
    partitions: u32,
    items: Arc<str>,
}

/// Serves bare handlers on a free port, and prints its address. Ends with its standard input.
///
/// # Errors
/// A server is away.
pub async fn serve(args: BareArgs) -> Result<()> {
    let bare = Bare::open(&Settings::load(&args.config)?, &args.database).await?;
    let router = Router::new()
        .route(&format!("{PREFIX}/content/{{*path}}"), get(read).put(write))
        .route(&format!("{PREFIX}/list/{{*path}}"), get(list))
        .with_state(bare);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}", listener.local_addr()?);
    let mut lines = lines();
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        () = async { while lines.recv().await.is_some() {} } => Ok(()),
    }
}

impl Bare {
    async fn open(settings: &Settings, database: &str) -> Result<Self> {
        let redis = connect(&settings.redis.url.to_string(), &settings.redis).await?;
        let pool = MySqlPoolOptions::new()
            .max_connections(settings.sql.connections)
            .test_before_acquire(false);
        let database = pool.connect(database).await?;
        let lines = ITEMS.lines().filter(|line| !line.starts_with("--"));
        let items = lines.collect::<Vec<_>>().join("\n");
        Ok(Self {
            redis,
            database,
            partitions: settings.redis.partitions,
            items: items
                .replace("{table}", &settings.sql.table)
                .replace("{each ?}", "?")
                .into(),
        })
    }

    /// A key as long as that of the document.
    fn key(&self, path: &str) -> String {
        let (app, region) = WORLD;
        let part = part_of(self.partitions, path);
        format!("plain-hash:{{{part}}}:{app}:{region}:doc:{path}")
    }
}

type Answer<T> = std::result::Result<T, (StatusCode, String)>;

fn failed(error: impl Into<anyhow::Error>) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.into().to_string())
}

/// HMGET of the body.
async fn read(
    State(mut bare): State<Bare>,
    Path(path): Path<String>,
) -> Answer<([(HeaderName, &'static str); 1], Vec<u8>)> {
    let mut command = redis::cmd("HMGET");
    command.arg(bare.key(&path)).arg(FIELD);
    let found = command.query_async::<(Option<Vec<u8>>,)>(&mut bare.redis);
    let (body,) = found.await.map_err(failed)?;
    Ok((JSON, body.context("no document").map_err(failed)?))
}

/// HSET of the body.
async fn write(
    State(mut bare): State<Bare>,
    Path(path): Path<String>,
    body: Bytes,
) -> Answer<StatusCode> {
    let mut command = redis::cmd("HSET");
    command.arg(bare.key(&path)).arg(FIELD).arg(&body[..]);
    let written = command.query_async::<u64>(&mut bare.redis);
    written.await.map_err(failed)?;
    Ok(StatusCode::OK)
}

/// The first items of a collection by the storage's own statement.
async fn list(
    State(bare): State<Bare>,
    Path(path): Path<String>,
) -> Answer<([(HeaderName, &'static str); 1], Vec<u8>)> {
    let (app, region) = WORLD;
    let [from, before] = ["/", "0"].map(|end| format!("{{{path}}}1{end}"));
    let query = sqlx::query(AssertSqlSafe(bare.items))
        .bind(app.as_bytes())
        .bind(region.as_bytes())
        .bind(&b"item"[..])
        .bind(from.as_bytes())
        .bind(before.as_bytes())
        .bind(0) // live ones
        .bind(FIELD.as_bytes())
        .bind(ROWS);
    let rows = query.fetch_all(&bare.database).await.map_err(failed)?;
    Ok((JSON, array(&rows).map_err(failed)?))
}

/// The values of the rows as an array.
fn array(rows: &[MySqlRow]) -> Result<Vec<u8>> {
    let value = |row| -> Result<&RawValue> {
        let value: &[u8] = MySqlRow::try_get(row, "value")?;
        Ok(serde_json::from_slice(value)?)
    };
    let values: Vec<&RawValue> = rows.iter().take(SIZE).map(value).collect::<Result<_>>()?;
    Ok(serde_json::to_vec(&values)?)
}
