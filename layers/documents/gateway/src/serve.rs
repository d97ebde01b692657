//! A gateway at work: its address, its tasks, and its orderly end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use storage_documents::Documents;
use storage_sdk::{Ids as _, RandomIds, Settings, Storage, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};

use crate::args::Args;
use crate::connections::{self, Terms};
use crate::feed::Hub;
use crate::figures::Figures;
use crate::front::Front;
use crate::landed::LandedEnd;
use crate::routes;
use crate::shared::{KEYED_MAX, Parts, Shared};
use crate::tickets::Tickets;
use crate::tls::Tls;
use crate::{limits, sweep};

/// The time for requests under way, and then for the storage, at the end.
const GRACE: Duration = Duration::from_secs(10);

/// A gateway that serves.
#[derive(Debug)]
pub struct Gateway {
    scheme: &'static str,
    address: SocketAddr,
    token: String,
    shared: Shared,
    storage: Storage,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    sweeping: AbortHandle,
}

impl Gateway {
    /// Opens the storage and begins to serve.
    ///
    /// # Errors
    /// The settings or the certificate are wrong, a tier is away, or the address is taken.
    pub async fn open(args: &Args) -> anyhow::Result<Self> {
        let files = args.tls_cert.clone().zip(args.tls_key.clone());
        let tls = files
            .map(|(certificate, key)| Tls::open(certificate, key))
            .transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let storage = storage_of(args).await?;
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("--listen {}", args.listen))?;
        let token = token_of(args)?;
        let figures = Figures::default();
        let documents =
            Documents::new(&storage, &args.app, &args.region)?.with_history(args.history.clone());
        let sweeping = sweep::begin(&documents)?;
        let ids = Arc::new(RandomIds);
        let shared = Shared::new(Parts {
            documents,
            hub: Hub::new(&storage, figures.clone()),
            landed: LandedEnd::new(&storage),
            token: token.as_str().into(),
            figures: figures.clone(),
            page_size: args.page_size,
            tickets: Tickets::new(&token, Arc::new(SystemClock), ids.clone())?,
            public_url: args.public_url.clone().unwrap_or_default(),
            ids,
            keyed: Arc::new(Semaphore::new(KEYED_MAX.into())),
            is_leaving: AtomicBool::new(false),
        });
        let front = Front::new(shared.clone(), routes::router(shared.clone(), &args.origin));
        let address = listener.local_addr()?;
        let terms = Terms {
            most: limits::connections(args.connections.get()),
            idle: args.idle,
            tls: tls.map(Arc::new),
            figures,
        };
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(connections::serve(listener, front, terms, stopped));
        Ok(Self {
            scheme,
            address,
            token,
            shared,
            storage,
            stop,
            serving,
            sweeping,
        })
    }

    /// The address, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of all resources.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.address, routes::PREFIX)
    }

    /// The storage that is served from.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The token of callers.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Says that the gateway is about to end, and goes on to serve: `/ready` is 503 from now on.
    pub fn leave(&self) {
        self.shared.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Ends in order: feeds end, requests under way finish, and the storage is closed.
    ///
    /// # Errors
    /// Requests did not finish in time, or the storage could not be closed whole.
    pub async fn close(self) -> anyhow::Result<()> {
        self.shared.hub.drain();
        self.sweeping.abort();
        self.stop.send_replace(true);
        let end = Instant::now() + GRACE;
        let served = timeout_at(end, self.serving).await;
        // Callers of these may have gone.
        let ended = timeout_at(end, self.shared.keyed.acquire_many(KEYED_MAX.into())).await;
        let report = self.storage.close(GRACE).await;
        served.context("requests did not finish in time")??;
        drop(ended.context("calls with a key did not finish in time")??);
        anyhow::ensure!(report.left() == 0, "{report:?}");
        Ok(())
    }
}

fn token_of(args: &Args) -> anyhow::Result<String> {
    let Some(file) = &args.token_file else {
        return Ok(RandomIds.next().to_string());
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--token-file {}", file.display()))?;
    let token = text.trim();
    anyhow::ensure!(
        !token.is_empty(),
        "--token-file {} is empty",
        file.display()
    );
    Ok(token.to_owned())
}

async fn storage_of(args: &Args) -> anyhow::Result<Storage> {
    if let Some(file) = &args.embedded {
        let opened = Storage::embedded(file).await;
        return opened.with_context(|| format!("--embedded {}", file.display()));
    }
    let file = args
        .config
        .as_ref()
        .context("name --embedded or --config")?;
    let settings = Settings::load(file).with_context(|| format!("--config {}", file.display()))?;
    Ok(Storage::open(settings).await?)
}
