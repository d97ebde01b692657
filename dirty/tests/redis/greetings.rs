//! Servers and proxies that close a new connection, and the reason that is told.

use storage_dirty::*;
use storage_servers::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::support::*;

async fn opens(server: &RedisServer, count: usize) -> Vec<UnixStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(UnixStream::connect(server.socket()).await.unwrap());
    }
    held
}

#[tokio::test]
async fn a_server_without_a_place_for_a_client_says_so_itself() {
    let server = server().await;
    server
        .call(&["CONFIG", "SET", "maxclients", "4"])
        .await
        .unwrap();
    let _held = opens(&server, 4).await;
    let error = open_redis(settings(&server.url())).await.unwrap_err();
    assert_eq!(error.kind, HotKind::Unavailable, "{error}");
    assert!(
        error.message.contains("max number of clients reached") && !error.message.contains("TLS"),
        "{error}"
    );
}

/// Answers PING as a proxy does, and closes the connection on any other command.
async fn proxy() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pings_only(stream));
        }
    });
    format!("redis://{address}")
}

async fn pings_only(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = vec![0; 4096];
    loop {
        let read = stream.read(&mut bytes).await?;
        if !bytes.get(..read).unwrap_or_default().ends_with(b"PING\r\n") {
            return Ok(());
        }
        stream.write_all(b"+PONG\r\n").await?;
    }
}

#[tokio::test]
async fn a_proxy_that_closes_the_connection_on_a_command_is_named_as_that() {
    let error = open_redis(settings(&proxy().await)).await.unwrap_err();
    assert_eq!(
        error.kind,
        HotKind::Settings,
        "waiting does not help: {error}"
    );
    assert!(
        error.message.contains("closes the connection on CLIENT")
            && error.message.contains("proxy"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refused_connection_and_silence_advise_nothing_about_tls() {
    let nobody = open_redis(settings("redis://127.0.0.1:1"))
        .await
        .unwrap_err();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let hung = open_redis(settings(&url)).await.unwrap_err();
    for error in [nobody, hung] {
        assert!(
            error.kind == HotKind::Unavailable && !error.message.contains("TLS"),
            "{error}"
        );
    }
}
