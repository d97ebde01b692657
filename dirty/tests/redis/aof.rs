//! An append-only file may end anywhere. A script is in it as a whole or not at all (H53, R1).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use storage_dirty::*;
use storage_servers::{RedisServer, Reply};

use crate::counts::{IDS, PARTITION, step};
use crate::support::*;

#[tokio::test]
async fn a_file_that_was_cut_at_any_byte_brings_back_whole_scripts_alone() {
    const SEED: u64 = 53;
    let options_of = storage_servers::RedisOptions {
        appendonly: true,
        ..Default::default()
    };
    let server = RedisServer::start(options_of).await.unwrap();
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    store
        .lock(&[PARTITION], &lock("w"), Duration::from_secs(600))
        .await
        .pop()
        .unwrap()
        .unwrap();
    let mut random = StdRng::seed_from_u64(SEED);
    for _ in 0..200 {
        step(&store, &mut random).await;
    }
    server.kill().unwrap();
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = files
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .unwrap();
    let whole = fs::read(&file).unwrap();
    let mut states = BTreeMap::new();
    // One cut after the other, within the writes of the last few scripts.
    for end in (whole.len() - 5_000..=whole.len()).step_by(20) {
        fs::write(&file, &whole[..end]).unwrap();
        server.restart().await.unwrap();
        let found = check(
            &server,
            &format!("seed {SEED}, cut to {end} of {} bytes", whole.len()),
        )
        .await;
        *states.entry(found).or_insert(0) += 1;
    }
    assert!(
        states.len() > 2,
        "the cuts took too few scripts away: {states:?}"
    );
}

async fn text(server: &RedisServer, command: &[&str]) -> Option<String> {
    match server.call(command).await.unwrap() {
        Reply::Null => None,
        reply => Some(reply.text().unwrap().to_owned()),
    }
}

/// The versions of an entry. A mark has one, and error marks have one for each field.
fn versions(name: &str, mark: &str) -> Vec<u64> {
    let refused = |line: &str| {
        line.split('\u{1f}')
            .nth(1)
            .and_then(|line| line.split(' ').next()?.parse().ok())
    };
    match name.contains(":error ") {
        true => mark.lines().filter_map(refused).collect(),
        false => vec![u64::from_str_radix(&mark[..14], 16).unwrap()],
    }
}

/// Fails if data, exist marker, version source, marks and time to live don't fit together. Returns
/// all versions.
async fn check(server: &RedisServer, when: &str) -> String {
    let mut marks = BTreeMap::new();
    for map in [
        "slug-marks:{0}",
        "slug-marks:{0}:saving",
        "slug-marks:{0}:error",
    ] {
        let entries = texts(server.call(&["HGETALL", map]).await.unwrap());
        for entry in entries.chunks(2) {
            let [name, version] = entry else {
                panic!("{map} holds a name without a version")
            };
            marks.insert(format!("{map} {name}"), version.clone());
        }
    }
    let number = |text: Option<String>| {
        text.map_or(0, |text| {
            text.split(' ')
                .next()
                .unwrap_or_default()
                .parse::<u64>()
                .unwrap()
        })
    };
    let source = number(text(server, &["HGET", "slug-part:{0}", "src"]).await);
    let mut seen = format!("{source}");
    for id in IDS {
        let data = format!("slug-data:{{0}}:game:eu:player:{id}");
        let version = number(text(server, &["HGET", &data, ":v"]).await);
        let marker = number(
            text(
                server,
                &["GET", &format!("slug-exist:{{0}}:game:eu:player:{id}")],
            )
            .await,
        );
        let mine: Vec<u64> = marks
            .iter()
            .filter(|(name, _)| name.ends_with(&format!(" game:eu:player:{id}")))
            .flat_map(|(name, mark)| versions(name, mark))
            .collect();
        assert!(
            version == 0 || marker > 0,
            "{when}: {id} is at {version}, its marker at {marker}"
        );
        assert!(
            marker <= source,
            "{when}: {id} is at {marker}, the source at {source}"
        );
        assert!(
            mine.iter().all(|mark| *mark <= version),
            "{when}: {id} is at {version} and marked at {mine:?}"
        );
        let lasting = server.call(&["PTTL", &data]).await.unwrap() == Reply::Integer(-1);
        assert_eq!(lasting, !mine.is_empty(), "{when}: {id}");
        seen = format!("{seen} {version}/{}", mine.len());
    }
    seen
}
