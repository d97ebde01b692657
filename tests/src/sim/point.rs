//! The name of a request, for the count of hits.

use super::redis::Server;

macro_rules! scripts {
    ($($folder:ident { $($name:ident)* })*) => {
        /// The scripts' files and names.
        const SCRIPTS: &[(&str, &str)] = &[$($((
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../dirty/src/lua/", stringify!($folder), "/", stringify!($name), ".lua")),
            stringify!($name),
        ),)*)*];
    };
}

scripts! {
    owner { update mutate transact observe fill check_fill read_names evict }
    partition { peek part_state adopt raise_landed pairing pair announce lock renew unlock write_for_wait }
    landing { end_collect collect_linked snapshot settle reject expire probation requeue }
    session { open_session claim_session close_session ask_session beat lapse end_grace }
}

/// The name of the script of this text. Its second line identifies it, whatever shared text and
/// sabotage are in the script.
#[must_use]
pub fn script(source: &str) -> &'static str {
    let is = |file: &str| {
        file.lines()
            .nth(1)
            .is_some_and(|purpose| source.lines().any(|line| line == purpose))
    };
    SCRIPTS
        .iter()
        .find(|(file, _)| is(file))
        .map_or("script", |(_, name)| name)
}

fn is_beats(key: &[u8]) -> bool {
    key.windows(7).any(|part| part == b"-beats:")
}

/// The script or command of a request.
pub fn point(server: &Server, request: &[Vec<u8>]) -> &'static str {
    let [name, args @ ..] = request else {
        return "nothing";
    };
    match name.to_ascii_uppercase().as_slice() {
        b"EVALSHA" => args
            .first()
            .and_then(|sha| server.script_name(sha))
            .unwrap_or("script"),
        b"HGETALL" if args.first().is_some_and(|key| key.ends_with(b":asked")) => "asked",
        // The first half of a beat.
        b"HGETALL" if args.first().is_some_and(|key| is_beats(key)) => "beat",
        b"HMGET" | b"HGETALL" => "read",
        b"HGET" => "session",
        b"HSCAN" => "scan",
        b"GET" => "observe",
        b"SET" => "lease",
        b"DEL" => "release",
        b"PEXPIRE" => "refresh_ttl",
        b"HLEN" | b"EXISTS" => "peek",
        b"TIME" => "time",
        b"ZREM" => "retire",
        b"SCRIPT" | b"CLIENT" => "setup",
        b"INFO" => "connect",
        _ => "other",
    }
}
