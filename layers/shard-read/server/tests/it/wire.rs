//! Protocols of services, names of hosts, and connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use prost::Message as _;
use shard_read_server::{Call, Claims, KeyOutcome, LoadError, Server, Shard};
use storage_shard_read::net::{Dial, LocalNetwork, Stream};
use storage_shard_read::{
    Client, FailureKind, GetReply, GetRequest, Hosts, KeyAnswer, KeyFailure, Malformed, Mode,
    Schema, ShardInfo, ShardRange, State, Wire,
};
use tokio::time::timeout;

use crate::words::words;
use crate::world::{SOON, World, until};

/// The protocol of a service that was there before: prices of items.
struct PriceWire;

#[derive(Clone, PartialEq, prost::Message)]
struct PriceRequest {
    #[prost(string, repeated, tag = "1")]
    items: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PriceReply {
    #[prost(fixed64, tag = "1")]
    from: u64,
    #[prost(fixed64, tag = "2")]
    to: u64,
    #[prost(bool, tag = "3")]
    is_mine: bool,
    #[prost(int64, repeated, tag = "4")]
    coins: Vec<i64>,
}

impl Wire for PriceWire {
    const SERVICE: &'static str = "market.Prices";
    const METHOD: &'static str = "Look";

    fn encode_request(request: &GetRequest) -> Bytes {
        let items = request
            .keys
            .iter()
            .map(|key| String::from_utf8_lossy(key).into_owned());
        let request = PriceRequest {
            items: items.collect(),
        };
        request.encode_to_vec().into()
    }

    fn decode_request(bytes: Bytes) -> Result<GetRequest, Malformed> {
        let items = PriceRequest::decode(bytes)?.items.into_iter();
        let mut request = GetRequest::new(Prices::NAME);
        request.keys = items.map(Bytes::from).collect();
        Ok(request)
    }

    fn encode_reply(reply: &GetReply) -> Bytes {
        let coins = reply.answers.iter().flatten().map(|answer| match answer {
            KeyAnswer::Value(value) => Prices::decode_value(value).unwrap_or(-1),
            KeyAnswer::Failed(_) => -1,
        });
        let reply = PriceReply {
            from: reply.shard.range.map_or(0, ShardRange::begin),
            to: reply.shard.range.map_or(0, ShardRange::last),
            is_mine: reply.answers.is_some(),
            coins: coins.collect(),
        };
        reply.encode_to_vec().into()
    }

    fn decode_reply(bytes: Bytes) -> Result<GetReply, Malformed> {
        let reply = PriceReply::decode(bytes)?;
        let range = ShardRange::new(reply.from, reply.to.checked_add(1));
        let range = range.filter(|_| reply.from < reply.to);
        let shard = match range {
            Some(range) => ShardInfo::holding("", State::Serving, range, 0),
            None => ShardInfo::standby(""),
        };
        let answer = |coins: i64| match coins {
            0.. => KeyAnswer::Value(Prices::encode_value(&coins)),
            _ => KeyAnswer::Failed(KeyFailure::new(FailureKind::Invalid, "it has no price")),
        };
        let answers = reply
            .is_mine
            .then(|| reply.coins.into_iter().map(answer).collect());
        Ok(GetReply::new(shard, answers))
    }
}

/// Prices of items.
struct Prices;

impl Schema for Prices {
    type Key = String;
    type Id = String;
    type Value = i64;
    type Wire = PriceWire;
    const NAME: &'static str = "prices";

    fn sharding_key(key: &String) -> u64 {
        xxhash_rust::xxh3::xxh3_64(key.as_bytes())
    }

    fn id(key: &String) -> String {
        key.clone()
    }

    fn encode_key(key: &String) -> Bytes {
        key.clone().into()
    }

    fn decode_key(bytes: &[u8]) -> Result<String, Malformed> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }

    fn encode_value(value: &i64) -> Bytes {
        Bytes::copy_from_slice(&value.to_be_bytes())
    }

    fn decode_value(bytes: &[u8]) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(bytes.try_into()?))
    }
}

/// Each item costs as many coins as it has letters. A stone has no price.
struct Market;

#[async_trait]
impl Shard<Prices> for Market {
    async fn load(&self, _range: ShardRange) -> Result<(), LoadError> {
        Ok(())
    }

    async fn get(&self, _call: &Call, keys: &[String]) -> Vec<KeyOutcome<i64>> {
        let price = |item: &String| match item.as_str() {
            "stone" => Err(KeyFailure::new(
                FailureKind::Invalid,
                "a stone has no price",
            )),
            item => Ok(i64::try_from(item.len()).unwrap_or(i64::MAX)),
        };
        keys.iter().map(price).collect()
    }

    async fn unload(&self, _range: ShardRange) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_keeps_the_protocol_that_it_has() -> Result<()> {
    let claims = Claims::fixed(ShardRange::ALL);
    let server = Server::<Prices>::builder(Market, claims).listen("127.0.0.1:0".parse()?);
    let server = server.await?;
    let client = Client::<Prices>::builder(Hosts::list([server.address()])).build()?;
    let items = ["sword", "stone", "bow"].map(String::from);
    let found = client.get(items).deadline(SOON).partial().await?;
    assert_eq!(
        found.values,
        [("sword".to_owned(), 5), ("bow".to_owned(), 3)]
    );
    let (item, reason) = &found.unanswered[0];
    assert_eq!(item, "stone");
    assert!(reason.ends_with("it has no price"), "{reason}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_addresses_of_a_name_are_hosts() -> Result<()> {
    let claims = Claims::fixed(ShardRange::ALL);
    let server = Server::<Prices>::builder(Market, claims).listen("127.0.0.1:0".parse()?);
    let server = server.await?;
    let port = server.socket().map_or(0, |socket| socket.port());
    let client = Client::<Prices>::builder(Hosts::dns(format!("localhost:{port}"))).build()?;
    let found = client.get(["sword".to_owned()]).deadline(SOON).await?;
    assert_eq!(found.values, [("sword".to_owned(), 5)]);
    let named = client.hosts();
    assert!(
        named
            .iter()
            .any(|host| host.address == format!("127.0.0.1:{port}")),
        "{named:?}"
    );
    Ok(())
}

/// Counts connections.
#[derive(Debug)]
struct CountedNetwork {
    network: LocalNetwork,
    dials: Arc<AtomicUsize>,
}

#[async_trait]
impl Dial for CountedNetwork {
    async fn dial(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        self.network.dial(address).await
    }
}

/// A hedge that won cancels the other request. HTTP/2 servers take many resets for an attack, and end the connection.
#[tokio::test(flavor = "multi_thread")]
async fn forty_thousand_cancelled_requests_end_no_connection() -> Result<()> {
    const AT_ONCE: usize = 500;
    let world = World::new().await?;
    let hosts = [world.fixed("a", |server| server).await?];
    let dials = Arc::new(AtomicUsize::new(0));
    let network = CountedNetwork {
        network: world.network.clone(),
        dials: Arc::clone(&dials),
    };
    let client = world.client_with(&hosts, |client| client.dial(network).mode(Mode::One))?;
    client.get(words(1)).deadline(SOON).await?;
    let knobs = &hosts[0].knobs;
    knobs.waits.send_replace(true);
    while client.figures().requests < 40_000 {
        let call = async || client.get(words(1)).deadline(SOON).await.map(drop);
        let calls = join_all((0..AT_ONCE).map(|_| call()));
        let cancelled = timeout(Duration::from_millis(5), calls).await;
        assert!(cancelled.is_err(), "no call has an answer: {cancelled:?}");
        // The server has read what came before, so that resets of one batch wait at most.
        client.get(["now".to_owned()]).deadline(SOON).await?;
    }
    knobs.waits.send_replace(false);
    let found = client.get(words(3)).deadline(SOON).await?;
    assert_eq!(found.values.len(), 3);
    assert_eq!(
        dials.load(Ordering::SeqCst),
        1,
        "the first connection lives"
    );
    until("nothing is under way", async || {
        let all = (0..20).map(|_| client.get(words(500)).deadline(SOON));
        let all = join_all(all.map(IntoFuture::into_future)).await;
        Ok(all.iter().all(Result::is_ok))
    })
    .await
}
