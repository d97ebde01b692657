//! The hot tier over TLS, with a private certificate authority.

use anyhow::{Context as _, Result};
use storage_sdk::Storage;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_only_through_its_own_authority() -> Result<()> {
    let options = RedisOptions {
        tls: true,
        user: Some("game".into()),
        password: Some("s3cret".into()),
        ..RedisOptions::default()
    };
    let redis = RedisServer::start(options).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let error = Storage::open(world.settings.clone()).await.unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");

    let mut trusting = world;
    trusting.settings.redis.tls_ca_file = Some(redis.ca_pem().context("a certificate")?.to_owned());
    let stack = Stack::with(trusting).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    ann.evict().await?;
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"1"[..]));
    Ok(())
}
