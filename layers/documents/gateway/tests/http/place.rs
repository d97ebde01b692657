//! A gateway, and a client of it.

use anyhow::{Context as _, Result};
use clap::Parser as _;
use document_gateway::args::Args;
use document_gateway::serve::Gateway;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use storage_documents::Documents;
use storage_tests::stack::Worker;
use storage_tests::{Stack, World};
use tempfile::TempDir;

/// The file of the settings.
const SETTINGS: &str = "storage.toml";

/// A gateway of its own, and a client with its token.
pub(crate) struct Place {
    folder: TempDir,
    servers: Option<(Stack, Worker)>,
    pub(crate) gateway: Gateway,
    pub(crate) client: Client,
}

impl Place {
    /// On a file alone.
    pub(crate) async fn embedded() -> Result<Self> {
        Self::embedded_with(&[]).await
    }

    /// On a file alone, with these options.
    pub(crate) async fn embedded_with(options: &[&str]) -> Result<Self> {
        Self::of(tempfile::tempdir()?, None, options).await
    }

    /// On a file alone, with other options.
    pub(crate) async fn with(change: impl FnOnce(&mut Args)) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut args = args_of(&folder, false, &[])?;
        change(&mut args);
        Ok(Self {
            gateway: Gateway::open(&args).await?,
            client: Client::new(),
            folder,
            servers: None,
        })
    }

    /// On Redis and MariaDB, with a worker.
    pub(crate) async fn on_servers() -> Result<Self> {
        Self::on(World::fresh().await?).await
    }

    /// As [`Place::on_servers`], with another number of partitions.
    pub(crate) async fn with_partitions(count: u32) -> Result<Self> {
        let world = World::fresh().await?;
        let line = |count| format!("\npartitions = {count}\n");
        let text = world
            .text
            .replace(&line(world.settings.redis.partitions), &line(count));
        let settings = storage_sdk::Settings::from_toml(&text, "test")?;
        Self::on(World {
            settings,
            text,
            ..world
        })
        .await
    }

    /// On other servers, with a worker.
    pub(crate) async fn on(world: World) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(SETTINGS), &world.text)?;
        let stack = Stack::with(world).await?;
        let worker = stack.worker();
        Self::of(folder, Some((stack, worker)), &[]).await
    }

    async fn of(
        folder: TempDir,
        servers: Option<(Stack, Worker)>,
        options: &[&str],
    ) -> Result<Self> {
        // Another test of this process may have named it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let args = args_of(&folder, servers.is_some(), options)?;
        Ok(Self {
            gateway: Gateway::open(&args).await?,
            client: Client::new(),
            folder,
            servers,
        })
    }

    /// Another gateway on the same servers.
    pub(crate) async fn another(&self) -> Result<Gateway> {
        Gateway::open(&args_of(&self.folder, true, &[])?).await
    }

    /// Ends the gateway, and opens another one over the same data.
    pub(crate) async fn reopened(self) -> Result<Self> {
        self.gateway.close().await?;
        Self::of(self.folder, self.servers, &[]).await
    }

    pub(crate) async fn close(self) -> Result<()> {
        self.gateway.close().await?;
        if let Some((_, worker)) = self.servers {
            worker.stop().await?;
        }
        Ok(())
    }

    /// The documents of another world of the same storage.
    pub(crate) fn theirs(&self) -> Result<Documents> {
        Ok(Documents::new(self.gateway.storage(), "theirs", "main")?)
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("http://{}/hyper-storage/{rest}", self.gateway.address())
    }

    /// A request to a path of content.
    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .client
            .request(method, self.url(&format!("content/{path}")));
        request.bearer_auth(self.gateway.token())
    }

    /// A GET of another resource.
    pub(crate) async fn look(&self, resource: &str) -> Result<Response> {
        let request = self.client.get(self.url(resource));
        Ok(request.bearer_auth(self.gateway.token()).send().await?)
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Result<Response> {
        let request = self.call(Method::PUT, path).body(body.to_owned());
        Ok(request.send().await?)
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Result<Response> {
        let request = self.call(Method::POST, path).body(body.to_owned());
        Ok(request.send().await?)
    }

    pub(crate) async fn patch(&self, path: &str, body: &str) -> Result<Response> {
        let request = self.call(Method::PATCH, path).body(body.to_owned());
        Ok(request.send().await?)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Response> {
        Ok(self.call(Method::DELETE, path).send().await?)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Response> {
        Ok(self.call(Method::GET, path).send().await?)
    }

    /// The body at a path, as JSON.
    pub(crate) async fn json(&self, path: &str) -> Result<Value> {
        json(self.get(path).await?.error_for_status()?).await
    }
}

/// A gateway on the folder's settings file, or on its data file alone.
fn args_of(folder: &TempDir, on_servers: bool, options: &[&str]) -> Result<Args> {
    let (option, file) = if on_servers {
        ("--config", folder.path().join(SETTINGS))
    } else {
        ("--embedded", folder.path().join("data.db"))
    };
    let mut args = vec!["document-gateway", option];
    args.push(file.to_str().context("a file")?);
    args.extend(["--listen", "127.0.0.1:0", "--history", "kept=3"]);
    args.extend(options);
    Ok(Args::try_parse_from(args)?)
}

pub(crate) async fn json(response: Response) -> Result<Value> {
    Ok(serde_json::from_str(&response.text().await?)?)
}

pub(crate) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Status, revision and count of an answer.
pub(crate) fn told(response: &Response) -> (u16, &str, &str) {
    (
        response.status().as_u16(),
        header(response, "revision"),
        header(response, "count"),
    )
}

/// Status and type of a problem, without its prefix.
pub(crate) async fn refused(response: Response) -> Result<(u16, String)> {
    let status = response.status().as_u16();
    Ok((status, problem(response).await?))
}

/// The type of a problem, behind its prefix.
pub(crate) async fn problem(response: Response) -> Result<String> {
    assert_eq!(
        header(&response, "content-type"),
        "application/problem+json",
        "{}",
        response.status()
    );
    let body = json(response).await?;
    let of = body.get("type").and_then(Value::as_str);
    let of = of.context("no type")?;
    Ok(of.trim_start_matches("urn:document-gateway:").to_owned())
}
