//! Requests over many connections.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use document_gateway::routes::PREFIX;
use storage_tests::bench::case::Sample;
use storage_tests::bench::load::{Operation, count, drive};
use tokio::sync::Mutex;

use super::http::Connection;
use super::served::{Served, TOKEN};

/// The number of connections, and so of requests at the same time.
pub const CONNECTIONS: usize = 64;

/// Some requests that are sent in turn. A task has a connection of its own.
#[derive(Debug, Clone)]
pub struct Requests {
    served: Arc<Served>,
    connections: Arc<[Mutex<Connection>]>,
    /// The bytes of each request, ready to be sent.
    requests: Arc<[Vec<u8>]>,
}

impl Requests {
    /// Opens the connections.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn open(
        served: &Arc<Served>,
        requests: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Mutex::new(served.connect().await?));
        }
        Ok(Self {
            served: Arc::clone(served),
            connections: connections.into(),
            requests: requests.into_iter().collect(),
        })
    }

    /// Other requests over the same connections.
    #[must_use]
    pub fn others(self, requests: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let requests = requests.into_iter().collect();
        Self { requests, ..self }
    }

    /// Sends each request once.
    ///
    /// # Errors
    /// A request fails.
    pub async fn send_all(&self) -> Result<()> {
        count(self, CONNECTIONS, self.requests.len()).await?;
        Ok(())
    }

    /// Sends the requests for this time, over all connections.
    ///
    /// # Errors
    /// A request fails.
    pub async fn send_for(&self, time: Duration) -> Result<Sample> {
        drive(self, CONNECTIONS, time).await
    }

    /// The process that they are sent to.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.served.pid()
    }
}

impl Operation for Requests {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let request = turn % self.requests.len().max(1);
        let request = self.requests.get(request).context("no requests")?;
        let connection = self.connections.get(turn % CONNECTIONS);
        let mut connection = connection.context("no connections")?.lock().await;
        connection.call(request).await?;
        Ok(1)
    }
}

/// The bytes of a GET of a resource.
#[must_use]
pub fn get(resource: &str) -> Vec<u8> {
    request("GET", resource, "", "")
}

/// The bytes of a PUT of a document or item.
#[must_use]
pub fn put(path: &str, body: &str) -> Vec<u8> {
    request("PUT", &format!("content/{path}"), "", body)
}

/// The bytes of a PUT that waits until the change and its event have landed.
#[must_use]
pub fn put_landed(path: &str, body: &str) -> Vec<u8> {
    let wait = "hyper-storage-wait: landed\r\nprefer: wait=60\r\n";
    request("PUT", &format!("content/{path}"), wait, body)
}

fn request(method: &str, resource: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let text = format!(
        "{method} {PREFIX}/{resource} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    text.into_bytes()
}
