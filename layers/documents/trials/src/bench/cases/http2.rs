//! Reads over one connection of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use reqwest::{Client, ClientBuilder};
use storage_tests::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use storage_tests::bench::load::{Operation, drive};
use storage_tests::bench::place::{Arena, Place, owner_id};

use super::load::puts;
use super::sides::at_least;
use crate::bench::body::document;
use crate::bench::requests::CONNECTIONS;
use crate::bench::served::{Served, TOKEN};

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Http2)
}

struct Http2;

#[async_trait]
impl Case for Http2 {
    fn plan(&self) -> Plan {
        Plan {
            name: "get-http2".to_owned(),
            ours: "GET of documents of 1,024 B, one connection of HTTP/2 without TLS, 64 streams, 4,096 documents, hot and unlanded, client reqwest"
                .to_owned(),
            baseline: "the same over 64 connections of HTTP/1.1, client reqwest".to_owned(),
            figure: Figure::Rate,
            unit: "reads/s",
            goal: Some(at_least(0.7, 1.0)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        // The client asks for one, although nothing is encrypted here. A second call finds the first one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let place = arena.place().await?;
        let gateway = Arc::new(Served::gateway(&place).await?);
        let paths = arena.scale.pick(256, 4_096, 4_096);
        puts(&gateway, "guilds/", paths, document).await?;
        let urls: Arc<[String]> = (0..paths)
            .map(|number| gateway.url(&owner_id("content/guilds/", number)))
            .collect();
        let reads = |builder: ClientBuilder| {
            let client = builder.build()?;
            anyhow::Ok(Reads {
                client,
                urls: Arc::clone(&urls),
            })
        };
        Ok(Box::new(Http2Rig {
            ours: reads(Client::builder().http2_prior_knowledge())?,
            baseline: reads(
                Client::builder()
                    .http1_only()
                    .pool_max_idle_per_host(CONNECTIONS),
            )?,
            time: arena.scale.slice(),
            gateway,
            place,
        }))
    }
}

/// Reads of documents in turn.
#[derive(Clone)]
struct Reads {
    client: Client,
    urls: Arc<[String]>,
}

impl Operation for Reads {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let url = self
            .urls
            .get(turn % self.urls.len().max(1))
            .context("no documents")?;
        let answer = self.client.get(url).bearer_auth(TOKEN).send().await?;
        answer.error_for_status()?.bytes().await?;
        Ok(1)
    }
}

struct Http2Rig {
    place: Place,
    gateway: Arc<Served>,
    ours: Reads,
    baseline: Reads,
    time: Duration,
}

#[async_trait]
impl Rig for Http2Rig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let reads = match side {
            Side::Ours => &self.ours,
            Side::Baseline => &self.baseline,
        };
        drive(reads, CONNECTIONS, self.time).await
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            gateway: self.gateway.pid(),
            ..self.place.processes()
        }
    }
}
