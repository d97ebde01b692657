//! Versions in Lua. Its numbers are doubles, and its printing rounds (H7).

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use storage_servers::Reply;

use crate::support::*;

/// A script with the shared text of all scripts. It returns each version as text, and whether it is
/// less than the next one.
const SCRIPT: &str = concat!(
    include_str!("../../src/lua/shared/prelude.lua"),
    r"
local found = {}
for at = 1, #ARGV - 1 do
  local this, next = number(ARGV[at], 'a version'), number(ARGV[at + 1], 'a version')
  found[#found + 1] = digits(this)
  found[#found + 1] = this < next and 1 or 0
end
return found
"
);
const VERSION_MAX: u64 = (1 << 53) - 1;

#[tokio::test]
async fn a_hundred_thousand_versions_come_back_from_lua_and_compare_as_they_do_here() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random::<u64>);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = server().await;
    for _ in 0..100 {
        let mut versions = vec![0, 1, VERSION_MAX - 1, VERSION_MAX];
        while versions.len() < 1_001 {
            let any = random.random_range(0..=VERSION_MAX) >> random.random_range(0..53);
            // Two neighbours, which rounding makes equal.
            versions.extend([any, any.saturating_add(1).min(VERSION_MAX)]);
        }
        let mut command = vec!["EVAL".to_owned(), SCRIPT.to_owned(), "0".to_owned()];
        command.extend(versions.iter().map(u64::to_string));
        let Reply::Array(found) = server.call(&command).await.unwrap() else {
            panic!("SEED={seed}")
        };
        for (pair, found) in versions.windows(2).zip(found.chunks(2)) {
            let expected = [
                Reply::Bytes(pair[0].to_string().into_bytes()),
                Reply::Integer(i64::from(pair[0] < pair[1])),
            ];
            assert_eq!(found, expected, "SEED={seed}: {pair:?}");
        }
    }
    for wrong in ["9007199254740992", "-1", "1.5", "x", "1e99"] {
        let refused = server.call(&["EVAL", SCRIPT, "0", wrong, "1"]).await;
        let error = refused.unwrap_err();
        assert!(
            format!("{error:#}").contains("CORRUPT"),
            "{wrong}: {error:#}"
        );
    }
}
