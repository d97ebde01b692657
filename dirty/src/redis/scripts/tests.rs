//! Every script declares its inputs, is called with them, and keeps the rules.

mod names;

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Arg;
use storage_model::{
    Bytes, Cell, Change, Epoch, Fence, Field, Lead, Mutation, OpId, Owner, Partition, Position,
    RandomIds, Timestamp, Token, Version,
};

use super::partition::write_for_wait;
use super::*;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{
    Adopt, Adoption, ClaimSession, Entry, Fault, HotPaired, HotPairing, Load, Lock, Marker,
    Observed, OpenSession, PartitionState, Reject, Rejected, Settle, SnapshotId, Window,
};

/// The KEYS or ARGV that a header declares: the number of fixed ones, and whether more may follow.
fn declared(source: &str, what: &str) -> (usize, bool) {
    let prefix = format!("-- {what}[");
    let mut numbers = source.lines().filter_map(|line| {
        line.strip_prefix(&prefix)?
            .split_once(']')
            .map(|(number, _)| number)
    });
    let mut fixed = 0;
    for number in numbers.by_ref() {
        match number.strip_suffix("..") {
            Some(from) => {
                assert_eq!(from.parse::<usize>().unwrap(), fixed + 1);
                return (fixed, true);
            }
            None => assert_eq!(number.parse::<usize>().unwrap(), fixed + 1),
        }
        fixed += 1;
    }
    (fixed, false)
}

fn fits(count: usize, (fixed, more): (usize, bool)) -> bool {
    if more { count > fixed } else { count == fixed }
}

fn words(command: &Command) -> Vec<Vec<u8>> {
    let words = command.cmd.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes.to_vec(),
        other => panic!("{:?}", std::mem::discriminant(&other)),
    });
    words.collect()
}

/// One call of every script.
fn calls() -> Vec<Command> {
    let (space, partition, version) = (
        Space::new("slug", 4),
        Partition(1),
        Version::new(5).unwrap(),
    );
    let owner = Owner::new("game", "eu", "player", "ann").unwrap();
    let (field, ttl) = (Field::new("gold").unwrap(), Duration::from_secs(9));
    let lock_ = Lock {
        holder: "w".into(),
        token: "t".into(),
    };
    let observed = Observed {
        marker: Marker::Unknown(version),
        present: false,
        epoch: Epoch(1),
    };
    let rows = vec![(
        field.clone(),
        Cell::Removed(Bytes::from_static(b"1")),
        version,
    )];
    let load = Load {
        owner: owner.clone(),
        observed,
        rows,
        complete: true,
    };
    let of = |change| {
        Mutation::new(
            owner.clone(),
            vec![(field.clone(), change)],
            OpId::new([7; 16]),
            Timestamp(1),
        )
    };
    let seen = PartitionState {
        incarnation: "a/b".into(),
        record: None,
    };
    let adopted = Adopt {
        partition,
        seen,
        epoch: Epoch(2),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: version,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    let head = Head {
        partition,
        lock: Some(&lock_),
        epoch: Epoch(1),
        clean_ttl: ttl,
    };
    let mark = MarkRef {
        name: b"m",
        owner: Some(&owner),
    };
    let row = RowRef {
        from: version,
        owner: &owner,
        field: "gold".into(),
        version,
    };
    let entry = Entry {
        raw: Bytes::from_static(b"m"),
        mark: None,
        version,
    };
    let faults = vec![Fault {
        field: field.clone(),
        version,
        code: 1,
        message: "no".into(),
    }];
    let rejected = vec![Rejected {
        leaves: Vec::new(),
        source: Some(entry),
        owner: Some(owner.clone()),
        faults,
    }];
    let rejecting = Reject {
        partition,
        lock: lock_.clone(),
        epoch: Epoch(1),
        snapshot: SnapshotId(1),
        retry_min: ttl,
        retry_max: ttl,
        probation: true,
        rejected: rejected.clone(),
    };
    let settling = Settle {
        partition,
        lock: None,
        epoch: Epoch(1),
        snapshot: SnapshotId(1),
        landed: version,
        marks: vec![],
        rows: vec![],
        probation: true,
    };
    let lead = Lead {
        owner: owner.clone(),
        position: Position::ZERO,
    };
    let now = Timestamp(1);
    let fence = Fence {
        version,
        token: OpId::new([7; 16]),
    };
    let (holder, name) = (fence.token, "game 1".to_owned());
    let opening = OpenSession {
        owner: owner.clone(),
        token: holder,
        holder,
        name: name.clone(),
        takes: Some(fence),
        deadline: now,
        load: Some(load.clone()),
    };
    let claim = ClaimSession {
        owner: owner.clone(),
        fence,
        holder,
        name,
        epoch: Epoch(1),
        acked: fence.version,
    };
    let (prefix, address) = ("slug".to_owned(), String::new());
    let blank = HotPairing {
        incarnation: "a/b".into(),
        now,
        number: 0,
        prefix,
        address,
        paired: None,
    };
    let token = Token::draw(&RandomIds);
    let paired = HotPaired {
        token,
        database: token,
        partitions: 4,
        layout: 1,
        since: now,
    };
    let call = CallNumber {
        store: "w:1",
        number: 1,
    };
    vec![
        update(
            &space,
            partition,
            call,
            Some(ttl),
            &[of(Change::Set(Bytes::new())), of(Change::Set(Bytes::new()))],
        ),
        transact(&space, partition, call, None, &[of(Change::Remove)]),
        end_call(&space, partition, call),
        forget_calls(&space, partition, 0, &[("w:1".into(), "1".into())]),
        open_session(&space, &opening, ttl, None),
        claim_session(&space, &claim),
        close_session(&space, &owner, fence, ttl),
        ask_session(&space, &owner, fence, OpId::new([2; 16]), "game 2"),
        beat(&space, partition, Some((fence.token, 1)))[1].clone(),
        forget_lapsed(&space, partition, &[(owner.clone(), fence)]),
        lapse(
            &space,
            partition,
            (fence.token, 1),
            (fence.token, LapseStep::Lapse(std::slice::from_ref(&owner))),
            ttl,
        ),
        end_grace(&space, partition, Adoption::default()),
        mutate(
            &space,
            &of(Change::Incr(1)),
            std::slice::from_ref(&load),
            Some(ttl),
        ),
        observe(&space, &owner),
        fill(&space, &load, ttl, ttl, Some(ttl)),
        fill_part(
            &space,
            &Load {
                complete: false,
                ..load.clone()
            },
            ttl,
            Some(ttl),
        ),
        check_fill(&space, &load),
        read_names(&space, &owner),
        evict(&space, &owner),
        marked(&space, &owner, Some(Epoch(1))),
        rights("slug-part:{0}"),
        part_state(&space, partition),
        adopt(&space, &adopted),
        raise_landed(&space, partition, Epoch(1), version),
        end_collect(&space, partition, None, std::iter::once(&owner)),
        collect_linked(
            &space,
            partition,
            &[(owner.clone(), crate::Fields::All)],
            crate::Bound { rows: 1, bytes: 1 },
            true,
        ),
        tear(&space, partition, &owner),
        links(&space, partition, Epoch(1), std::slice::from_ref(&owner), 1),
        pairing(&space),
        pair(&space, &blank, &paired),
        announce(&space, "w", ttl),
        peek(&space, partition),
        lock(&space, partition, &lock_, ttl),
        renew(&space, partition, &lock_, ttl),
        unlock(&space, partition, &lock_),
        snapshot(&space, partition, &lock_),
        settle(
            &space,
            head,
            &settling,
            std::slice::from_ref(&mark),
            std::slice::from_ref(&row),
        ),
        reject(&space, head, &rejecting, &rejected),
        probation(&space, partition, &lock_),
        expire(
            &space,
            head,
            Window {
                epoch: Epoch(1),
                number: 1,
            },
            std::slice::from_ref(&mark),
        ),
        requeue(&space, head, std::slice::from_ref(&mark)),
        write_for_wait(&space, partition),
        read_notes(
            &space,
            partition,
            Position::ZERO,
            crate::Bound { rows: 1, bytes: 1 },
        ),
        resync(&space, partition, &lock_, Epoch(1), &[lead], true),
        trim_notes(&space, partition, &lock_, Epoch(1), Position::ZERO, true),
    ]
}

#[test]
fn every_script_is_called_with_the_keys_and_arguments_that_its_header_names() {
    let mut called = BTreeSet::new();
    for command in calls() {
        let script = SCRIPTS
            .all()
            .into_iter()
            .find(|script| script.name == command.name)
            .unwrap();
        let words = words(&command);
        assert_eq!(
            (&words[0][..], &words[1][..]),
            (&b"EVALSHA"[..], script.sha.as_bytes())
        );
        let keys: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
        assert!(
            fits(keys, declared(script.source(), "KEYS")),
            "{}: {keys} keys",
            script.name
        );
        let arguments = words.len() - 3 - keys;
        assert!(
            fits(arguments, declared(script.source(), "ARGV")),
            "{}: {arguments} arguments",
            script.name
        );
        let slots: BTreeSet<u16> = words[3..3 + keys]
            .iter()
            .map(|key| crate::redis::connections::slot::slot_of(key))
            .collect();
        let is_anywhere = script.name == "rights"; // asked of any node, so it declares no key
        assert_eq!(
            slots,
            if is_anywhere {
                BTreeSet::new()
            } else {
                BTreeSet::from([command.slot])
            },
            "{}",
            script.name
        );
        called.insert(script.name);
    }
    assert_eq!(called.len(), SCRIPTS.all().len());
}

#[test]
fn headers_are_complete_and_scripts_say_what_they_may_do() {
    let workers = "end_call forget_calls claim_session close_session ask_session beat lapse forget_lapsed end_grace evict adopt raise_landed end_collect pair announce lock renew unlock snapshot collect_linked settle reject probation expire requeue write_for_wait resync trim_notes tear";
    for script in SCRIPTS.all() {
        let name = script.name;
        let first_input = if name == "rights" {
            "\n-- ARGV[1] "
        } else {
            "\n-- KEYS[1] "
        };
        for line in ["\n-- Reply: ", "\n-- Invariant: ", first_input] {
            assert!(script.source().contains(line), "{name} lacks {line:?}");
        }
        let first = script.source().lines().next().unwrap();
        let expected = match name {
            "update" | "mutate" | "transact" | "observe" | "fill" | "fill_part"
            | "open_session" => "#!lua",
            _ if workers.split(' ').any(|worker| worker == name) => "#!lua flags=allow-oom",
            _ => "#!lua flags=no-writes,allow-oom",
        };
        assert_eq!(first, expected, "{name}");
    }
}

#[test]
fn scripts_never_swallow_errors_and_never_print_numbers_rounded() {
    for script in SCRIPTS.all() {
        for line in script.source().lines() {
            let code = line.split_once("--").map_or(line, |(code, _)| code);
            // Lua's own conversion of numbers, also in `..`, keeps 14 digits (H7). A swallowed
            // error leaves a change half done (H2).
            for banned in ["pcall", "tostring", "..", "%d"] {
                let harmless = match banned {
                    // Digits in a pattern, or integers that fit.
                    "%d" => code.contains("%d+") || code.contains("and '%d' or '%.0f'"),
                    // A read leaves nothing half done, and neither does a script without the right
                    // to write. A note that the stream refuses is taken back before anything else
                    // is written. The failure of one of many writes is its answer. The caller names
                    // the key of a partner that can't be read.
                    "pcall" => {
                        script.name == "rights"
                            || code.contains("redis.pcall('XADD', ")
                            || code.contains("redis.pcall(whole[i] and 'HGETALL'")
                            || code.contains("pcall(planned, owners)")
                            || code.contains("pcall(write_step, step, r)")
                    }
                    // Both operands are texts.
                    ".." => [
                        "base_text .. all_of, base_text .. part_of",
                        "= digits14 .. named",
                        "or v .. flags",
                    ]
                    .iter()
                    .any(|texts| code.contains(texts)),
                    _ => false,
                };
                assert!(
                    !code.contains(banned) || harmless,
                    "{}: {banned} in {line:?}",
                    script.name
                );
            }
        }
    }
}
