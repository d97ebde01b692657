//! The tiers that may be used together, case by case.

use storage_model::{SeededIds, Timestamp};

use super::*;

const PARTITIONS: u32 = 16;

fn token(seed: u64) -> Token {
    Token::draw(&SeededIds::new(seed))
}

fn hot(paired: Option<HotPaired>) -> HotPairing {
    let (prefix, address) = ("eu".to_owned(), "redis:6379".to_owned());
    HotPairing {
        incarnation: "here".into(),
        now: Timestamp(1),
        number: 0,
        prefix,
        address,
        paired,
    }
}

fn has(of: u64, database: u64, since: u64) -> Option<HotPaired> {
    let (token, database) = (token(of), token(database));
    Some(HotPaired {
        token,
        database,
        partitions: PARTITIONS,
        layout: LAYOUT,
        since: Timestamp(since),
    })
}

fn knows(of: u64, since: u64) -> Option<Paired> {
    let (prefix, address) = ("eu".to_owned(), "other:6379".to_owned());
    Some(Paired {
        token: token(of),
        since: Timestamp(since),
        prefix,
        address,
    })
}

fn cold(identity: Option<u64>, hot: Option<Paired>) -> ColdPairing {
    let identity = identity.map(token);
    let set = identity.map(|_| PARTITIONS);
    ColdPairing {
        address: "db:3306/game".into(),
        identity,
        partitions: set,
        layout: identity.map(|_| LAYOUT),
        hot,
        last_raise: Stamp::NONE,
    }
}

fn judged(hot: &HotPairing, cold: &ColdPairing) -> Result<PairingStep, String> {
    judge(PARTITIONS, hot, cold).map_err(|mismatch| mismatch.to_string())
}

#[test]
fn tiers_that_know_each_other_are_used_and_a_blank_hot_tier_takes_over() {
    assert_eq!(
        judged(&hot(has(1, 9, 5)), &cold(Some(9), knows(1, 5))),
        Ok(PairingStep::Paired)
    );
    assert_eq!(
        judged(&hot(None), &cold(None, None)),
        Ok(PairingStep::TakeOver)
    );
    assert_eq!(
        judged(&hot(None), &cold(Some(9), knows(1, 5))),
        Ok(PairingStep::TakeOver)
    );
    let expected = Paired {
        token: token_of(token(9), &hot(None)),
        ..knows(1, 5).unwrap()
    };
    let joined = HotPaired {
        token: expected.token,
        ..has(1, 9, 5).unwrap()
    };
    assert_eq!(
        judged(&hot(None), &cold(Some(9), Some(expected))),
        Ok(PairingStep::Join(joined))
    );
}

#[test]
fn another_number_or_prefix_on_one_server_has_another_token() {
    let of = |number: u32, prefix: &str| {
        token_of(
            token(9),
            &HotPairing {
                number,
                prefix: prefix.to_owned(),
                ..hot(None)
            },
        )
    };
    assert_eq!(of(0, "eu"), of(0, "eu"));
    assert!(of(0, "eu") != of(1, "eu") && of(0, "eu") != of(0, "us"));
}

#[test]
fn tiers_that_do_not_belong_together_are_refused_by_name_with_the_way_out() {
    let other_layout = |layout| ColdPairing {
        layout: Some(layout),
        ..cold(Some(9), knows(1, 5))
    };
    let other_count = ColdPairing {
        partitions: Some(64),
        ..cold(Some(9), knows(1, 5))
    };
    let counted = HotPaired {
        partitions: 8,
        ..has(1, 9, 5).unwrap()
    };
    let other_prefix = Paired {
        prefix: "us".into(),
        ..knows(1, 5).unwrap()
    };
    let cases: [(HotPairing, ColdPairing, &[&str]); 9] = [
        (
            hot(has(1, 9, 5)),
            cold(Some(8), knows(1, 5)),
            &["belongs to database", "correct sql.url", "adopt"],
        ),
        (
            hot(has(1, 9, 5)),
            cold(None, None),
            &["holds no data of a storage", "set sql.url", "adopt"],
        ),
        (
            hot(has(1, 9, 5)),
            cold(Some(9), knows(2, 6)),
            &["took over on", "other:6379", "sql.table", "adopt"],
        ),
        (
            hot(has(1, 9, 7)),
            cold(Some(9), knows(2, 6)),
            &["restored from an older backup", "adopt"],
        ),
        (
            hot(has(1, 9, 7)),
            cold(Some(9), None),
            &["knows of no hot tier", "adopt"],
        ),
        (
            hot(None),
            cold(Some(9), Some(other_prefix)),
            &["redis.prefix = \"us\"", "a table of its own"],
        ),
        (hot(None), other_layout(LAYOUT + 1), &["newer program"]),
        (
            hot(None),
            other_count,
            &[
                "64 partitions",
                "settings say 16",
                "set redis.partitions = 64",
            ],
        ),
        (
            hot(Some(counted)),
            cold(Some(9), knows(1, 5)),
            &["8 partitions", "set redis.partitions = 8"],
        ),
    ];
    for (hot, cold, words) in cases {
        let refused = judged(&hot, &cold).unwrap_err();
        for word in words {
            assert!(refused.contains(word), "{word:?} is missing: {refused}");
        }
    }
    assert!(
        judged(&hot(None), &other_layout(0))
            .unwrap_err()
            .contains("older program")
    );
}
