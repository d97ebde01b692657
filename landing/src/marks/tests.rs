use storage_dirty::SnapshotId;
use storage_model::{Bytes, Cell};

use super::*;

fn part(partition: u32, owners: &[&str]) -> LandingPart {
    let entry = |(at, id): (usize, &&str)| {
        let mark = Mark {
            owner: Owner::new("a", "r", "t", id).unwrap(),
            fields: vec![Field::new(&at.to_string()).unwrap()],
        };
        Entry {
            raw: Bytes::from(format!("{id} {at}")),
            mark: Some(mark),
            version: Version::new(1).unwrap(),
        }
    };
    let entries = owners.iter().enumerate().map(entry).collect();
    LandingPart {
        partition: Partition(partition),
        snapshot: SnapshotId(1),
        entries,
        replay: false,
        notes: None,
    }
}

fn sizes(groups: &[Vec<LandingPart>]) -> Vec<Vec<usize>> {
    groups
        .iter()
        .map(|group| group.iter().map(|part| part.entries.len()).collect())
        .collect()
}

#[test]
fn groups_are_even_and_a_few_that_are_left_over_are_no_group() {
    let ten = part(0, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    assert_eq!(sizes(&cut(vec![ten.clone()], 9)), [[10]]);
    assert_eq!(sizes(&cut(vec![ten.clone()], 4)), [[4], [4], [2]]);
    assert_eq!(sizes(&cut(vec![ten.clone()], 1)), [[1]; 10]);
    assert_eq!(
        sizes(&cut(vec![part(1, &["x"]), ten.clone(), part(2, &["y"])], 6)),
        [vec![1, 5], vec![5, 1]]
    );
    assert_eq!(sizes(&cut(vec![ten], usize::MAX)), [[10]]);
    assert!(cut(vec![part(0, &[])], 5).is_empty());
}

#[test]
fn each_mark_is_judged_by_its_own_row_in_whatever_order_they_come() {
    let mut part = part(0, &["c", "a", "d", "b", "a"]);
    let version = |number| Version::new(number).unwrap();
    let row = |entry: &Entry, number| {
        let mark = entry.mark.clone().unwrap();
        Row {
            owner: mark.owner,
            field: mark.fields[0].clone(),
            cell: Cell::Live(Bytes::new()),
            version: version(number),
        }
    };
    let mut rows: Vec<Row> = part
        .entries
        .iter()
        .zip(10..)
        .map(|(entry, number)| row(entry, number))
        .collect();
    rows.sort_by(|a, b| (&a.owner, &a.field).cmp(&(&b.owner, &b.field)));
    let births = vec![Version::ZERO; rows.len()];
    let rows = Rows { rows, births };
    // Above the version of its own row, but not above the versions of other rows.
    part.entries[2].version = version(13);
    let judged = |part: &LandingPart, has_errors| judge(part, &rows, &Faults::new(), has_errors);
    let verdict = judged(&part, true);
    assert_eq!(
        verdict
            .rows
            .iter()
            .map(|row| row.version.get())
            .collect::<Vec<_>>(),
        [10, 11, 13, 14]
    );
    assert_eq!(
        (verdict.settle.len(), verdict.reject.len()),
        (4, 1),
        "the row of d is older than its mark"
    );
    assert!(
        judged(&part, false).rows.is_empty(),
        "no error mark needs clearing"
    );
    part.replay = true;
    assert_eq!(
        judged(&part, false).rows.len(),
        4,
        "error marks are tried again"
    );
}

#[test]
fn a_mark_is_of_a_hash_between_its_birth_and_its_version_and_any_other_has_vanished() {
    let version = |number| Version::new(number).unwrap();
    let mut part = part(0, &["a"]);
    let Mark { owner, fields } = part.entries[0].mark.clone().unwrap();
    let row = Row {
        owner: owner.clone(),
        field: fields[0].clone(),
        cell: Cell::Live(Bytes::new()),
        version: version(9),
    };
    let rows = Rows {
        rows: vec![row],
        births: vec![version(4)],
    };
    for (mark, rejects) in [(3, 1), (4, 0), (9, 0), (10, 1)] {
        part.entries[0].version = version(mark);
        let verdict = judge(&part, &rows, &Faults::new(), true);
        assert_eq!(
            (
                verdict.reject.len(),
                verdict.settle.len(),
                verdict.rows.len()
            ),
            (rejects, 1 - rejects, 1 - rejects),
            "{mark}"
        );
    }
    assert_eq!(
        judge(&part, &Rows::default(), &Faults::new(), true).reject[0].faults[0].version,
        version(10)
    );
    part.entries[0].version = version(5);
    let refused = Faults::from([((owner, fields[0].clone()), (1_406, "too long".to_owned()))]);
    let rejected = judge(&part, &rows, &refused, true).reject;
    assert_eq!(
        rejected[0].faults[0].version,
        version(9),
        "the version of the rejected row"
    );
}

/// The present hash may have been made while no map named its owner. Then it does not tell its
/// birth.
#[test]
fn a_mark_that_was_put_aside_has_vanished_whatever_hash_there_is() {
    let version = |number| Version::new(number).unwrap();
    let mut part = part(0, &["a"]);
    let Mark { owner, fields } = part.entries[0].mark.clone().unwrap();
    let row = Row {
        owner: owner.clone(),
        field: fields[0].clone(),
        cell: Cell::Live(Bytes::new()),
        version: version(9),
    };
    let rows = Rows {
        rows: vec![row],
        births: vec![Version::ZERO],
    };
    part.entries[0].version = version(5);
    assert_eq!(judge(&part, &rows, &Faults::new(), true).settle.len(), 1);
    part.entries[0].raw = Bytes::from_static(b"app:eu:x:a\x1f00000000000005");
    let refused = Faults::from([((owner, fields[0].clone()), (1_406, "too long".to_owned()))]);
    for faults in [Faults::new(), refused] {
        let verdict = judge(&part, &rows, &faults, true);
        assert_eq!(
            (
                verdict.settle.len(),
                verdict.rows.len(),
                verdict.reject[0].faults[0].code
            ),
            (0, 0, 0)
        );
    }
}

#[test]
fn an_owner_is_in_one_group_and_an_entry_that_came_twice_in_it_once() {
    let mut entries = part(0, &["b", "a", "b", "a", "a", "c"]).entries;
    entries.extend(entries.clone());
    let groups = cut(
        vec![LandingPart {
            partition: Partition(0),
            snapshot: SnapshotId(1),
            entries,
            replay: false,
            notes: None,
        }],
        2,
    );
    assert_eq!(sizes(&groups), [[3], [2], [1]]);
    let wanted: Vec<_> = groups
        .iter()
        .flatten()
        .flat_map(LandingPart::wanted)
        .map(|(owner, fields)| (owner.id().to_owned(), fields.len()))
        .collect();
    assert_eq!(
        wanted,
        [
            ("a".to_owned(), 3),
            ("b".to_owned(), 2),
            ("c".to_owned(), 1)
        ]
    );
}

#[test]
fn error_marks_of_one_owner_share_a_name_and_each_is_tried_once() {
    let mut entries = part(0, &["a", "a", "b"]).entries;
    for entry in &mut entries {
        entry.raw = Bytes::from(entry.mark.as_ref().unwrap().owner.id().to_owned());
    }
    entries.extend(entries.clone());
    let groups = cut(
        vec![LandingPart {
            partition: Partition(0),
            snapshot: SnapshotId(0),
            entries,
            replay: true,
            notes: None,
        }],
        9,
    );
    assert_eq!(sizes(&groups), [[3]]);
}

#[test]
fn a_part_is_halved_between_owners() {
    let owners_of = |part: &LandingPart| -> Vec<String> {
        let marks = part.entries.iter().filter_map(|entry| entry.mark.as_ref());
        marks.map(|mark| mark.owner.id().to_owned()).collect()
    };
    let halved =
        |owners: &[&str]| halves(&part(0, owners)).map(|halves| halves.each_ref().map(owners_of));
    let texts = |owners: &[&str]| owners.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        halved(&["a", "b", "c", "d"]),
        Some([texts(&["a", "b"]), texts(&["c", "d"])])
    );
    assert_eq!(
        halved(&["a", "b", "b", "b"]),
        Some([texts(&["a"]), texts(&["b", "b", "b"])])
    );
    assert_eq!(halved(&["a", "a"]), None);
    assert_eq!(halved(&[]), None);
}
