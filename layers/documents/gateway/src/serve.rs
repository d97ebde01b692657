//! A gateway at work: its address, its tasks, and its orderly end.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use storage_documents::Documents;
use storage_sdk::{Ids as _, RandomIds, Settings, Storage};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use crate::args::Args;
use crate::feed::Hub;
use crate::figures::Figures;
use crate::landed::LandedEnd;
use crate::routes::{self, Parts, Shared};
use crate::sweep;

/// The time for requests under way, and then for the storage, at the end.
const GRACE: Duration = Duration::from_secs(10);

/// A gateway that serves.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    token: String,
    hub: Hub,
    storage: Storage,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
    sweeping: AbortHandle,
}

impl Gateway {
    /// Opens the storage and begins to serve.
    ///
    /// # Errors
    /// The settings are wrong, a tier is away, or the address is taken.
    pub async fn open(args: &Args) -> anyhow::Result<Self> {
        let storage = storage_of(args).await?;
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.with_context(|| format!("--listen {}", args.listen))?;
        let token = token_of(args)?;
        let figures = Figures::default();
        let hub = Hub::new(&storage, figures.clone());
        let documents = Documents::new(&storage, &args.app, &args.region)?;
        let documents = documents.with_history(args.history.clone());
        let sweeping = sweep::begin(&documents)?;
        let router = routes::router(Shared::new(Parts {
            documents: documents.clone(),
            hub: hub.clone(),
            landed: LandedEnd::new(&storage),
            token: token.as_str().into(),
            figures,
            page_size: args.page_size,
        }));
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let serve = axum::serve(listener, router).with_graceful_shutdown(async {
            // A gateway that is dropped stops, too.
            let _ = stopped.await;
        });
        let serving = tokio::spawn(async { serve.await });
        Ok(Self {
            address,
            token,
            hub,
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

    /// Ends in order: feeds end, requests under way finish, and the storage is closed.
    ///
    /// # Errors
    /// Requests did not finish in time, or the storage could not be closed whole.
    pub async fn close(self) -> anyhow::Result<()> {
        self.hub.drain();
        self.sweeping.abort();
        // The receiver goes only with the server.
        let _ = self.stop.send(());
        let served = tokio::time::timeout(GRACE, self.serving).await;
        let report = self.storage.close(GRACE).await;
        served.context("requests did not finish in time")???;
        anyhow::ensure!(report.left() == 0, "{report:?}");
        Ok(())
    }
}

fn token_of(args: &Args) -> anyhow::Result<String> {
    let Some(file) = &args.token_file else {
        return Ok(RandomIds.next().to_string());
    };
    let token = std::fs::read_to_string(file);
    let token = token.with_context(|| format!("--token-file {}", file.display()))?;
    let token = token.trim();
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
