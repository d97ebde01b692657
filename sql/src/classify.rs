//! The meaning of the databases' error numbers. There is one table for each dialect, and no other
//! code knows a number. The tables have each number of both lists that our logins and statements can
//! meet. Any other number is unknown.

/// The dialect of an error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    MySql,
    Sqlite,
}

/// How to react to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The database is busy. Roll back and retry. The connection is good.
    Retry,
    /// The statement took too long. As above. A smaller statement may finish in time.
    TooLong,
    /// The connection is gone or useless. Open another one.
    Reconnect,
    /// The server takes no writes any more. Drop all connections, so that the host name is resolved
    /// again.
    Resolve,
    /// Only the operator can repair it. No data is given up.
    Operator,
    /// The settings name something that does not exist. Only for a database that was never reached.
    /// For any other it is an outage.
    Settings,
    /// The statement's content is at fault, and will fail again.
    Refused,
    /// No version of this program writes such a row. The connection is good.
    Unreadable,
    /// The number is in no table, for example a trigger's own number. The database counts as
    /// unwell, unless only one row gets this answer while another row succeeds.
    Unknown,
}

use Class::{Operator, Reconnect, Refused, Resolve, Retry, TooLong};

/// Numbers with one meaning.
struct CodeGroup {
    class: Class,
    codes: &'static [u32],
    /// The way out, for an operator. Empty if there is nothing to do.
    advice: &'static str,
}

fn table(dialect: Dialect) -> &'static [CodeGroup] {
    match dialect {
        Dialect::MySql => MYSQL,
        Dialect::Sqlite => SQLITE,
    }
}

fn known(dialect: Dialect, code: u32) -> Option<&'static CodeGroup> {
    let code = match dialect {
        Dialect::MySql => code,
        // The low byte is the kind of error, the higher bytes are the detail.
        Dialect::Sqlite => code & 0xff,
    };
    table(dialect)
        .iter()
        .find(|known| known.codes.contains(&code))
}

/// The class of an error. `None` if the number is in no table. Some numbers have two meanings, which
/// the text tells apart.
pub(crate) fn class(dialect: Dialect, code: u32, text: &str) -> Option<Class> {
    match (dialect, code) {
        // The limit of prepared statements is 0, so none can be prepared at all.
        (Dialect::MySql, 1461) if text.contains("current value: 0") => Some(Operator),
        // Others may close their connections, while a quota of an hour lasts.
        (Dialect::MySql, 1226) if text.contains("max_user_connections") => Some(Reconnect),
        _ => known(dialect, code).map(|known| known.class),
    }
}

/// The way out of an error, if it is the same for everyone.
pub(crate) fn advice(dialect: Dialect, code: u32) -> Option<&'static str> {
    let advice = known(dialect, code)?.advice;
    (!advice.is_empty()).then_some(advice)
}

/// The numbers of MySQL and MariaDB. The chapter on errors has the same rows.
const MYSQL: &[CodeGroup] = &[
    CodeGroup {
        // Another transaction stood in the way: a deadlock, a lock that was not free in time, a table that changed.
        class: Retry,
        codes: &[
            1020, 1205, 1206, 1213, 1402, 1412, 1613, 1614, 1615, 1689, 1964, 3058, 3101, 3132,
            3133, 3177, 3572,
        ],
        advice: "",
    },
    CodeGroup {
        // The statement was killed, or the server is busy.
        class: Retry,
        codes: &[1297, 1317, 1637],
        advice: "",
    },
    CodeGroup {
        // The server is out of memory.
        class: Retry,
        codes: &[
            5, 1037, 1038, 1041, 1119, 1436, 3015, 3168, 3170, 3950, 3985,
        ],
        advice: "if that lasts, give the server more memory",
    },
    CodeGroup {
        // The statement took longer than sql.statement_timeout. A smaller batch is tried.
        class: TooLong,
        codes: &[1969, 3024],
        advice: "",
    },
    CodeGroup {
        // The server has no connection or thread left.
        class: Reconnect,
        codes: &[1040, 1135, 1203, 4081, 4082],
        advice: "the server has no connection left: lower sql.connections, or raise its limit",
    },
    CodeGroup {
        // The connection was rejected, closed or killed.
        class: Reconnect,
        codes: &[1042, 1043, 1080, 1152, 1184, 1243, 1927, 3169, 4031],
        advice: "",
    },
    CodeGroup {
        // The connection broke in the middle of a packet.
        class: Reconnect,
        codes: &[1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1835, 3068],
        advice: "",
    },
    CodeGroup {
        // The server shuts down.
        class: Reconnect,
        codes: &[1053, 1077, 1078, 1079],
        advice: "",
    },
    CodeGroup {
        // The cluster of servers has no quorum, or rejects the commit.
        class: Reconnect,
        codes: &[
            1047, 1180, 1181, 3100, 3781, 3782, 3783, 3796, 3797, 3798, 3799,
        ],
        advice: "",
    },
    CodeGroup {
        // A proxy has no server.
        class: Reconnect,
        codes: &[2002, 2003, 2005, 2006, 2012, 2013, 2014, 2055],
        advice: "",
    },
    CodeGroup {
        // Too many prepared statements. With the limit 0 it is a matter for an operator, exit code 3.
        class: Reconnect,
        codes: &[1461],
        advice: "raise max_prepared_stmt_count",
    },
    CodeGroup {
        // The server takes no writes: it is a replica, read-only or offline.
        class: Resolve,
        codes: &[1036, 1207, 1223, 1290, 1792, 1836, 1874, 3032, 3989, 4049],
        advice: "the server takes no writes: if that lasts, it is a replica or read-only, so set sql.url to the primary",
    },
    CodeGroup {
        // The server rejects the user or the password, or does not know how to check it.
        class: Operator,
        codes: &[1045, 1251, 1275, 1524, 1698, 1873, 4055, 4058],
        advice: "check the login in sql.url and sql.password, the hosts that this user may connect from, and sql.tls if the server or the user wants TLS",
    },
    CodeGroup {
        // The account is locked, for good or after too many wrong passwords.
        class: Operator,
        codes: &[3118, 3955, 4150, 4151],
        advice: "the account is locked: unlock it with ALTER USER … ACCOUNT UNLOCK",
    },
    CodeGroup {
        // The password has expired.
        class: Operator,
        codes: &[1820, 1862, 3892],
        advice: "the password has expired: set a new one with ALTER USER … IDENTIFIED BY",
    },
    CodeGroup {
        // The account has used up a quota, which the message names. For max_user_connections the exit code is 5, because others may close theirs.
        class: Operator,
        codes: &[1226],
        advice: "the account has used up this quota: raise it with ALTER USER … WITH, or set it to 0",
    },
    CodeGroup {
        // The server rejects this host.
        class: Operator,
        codes: &[1129, 1130],
        advice: "the server rejects connections from this host: let the user come from it",
    },
    CodeGroup {
        // The server wants TLS.
        class: Operator,
        codes: &[3159],
        advice: "the server wants TLS: set sql.tls to required or more",
    },
    CodeGroup {
        // No right to the database, or no such database.
        class: Operator,
        codes: &[1044, 3879],
        advice: "there is no such database, or the user may not use it: create it, and grant the rights that `landing-worker grants` prints",
    },
    CodeGroup {
        // No such database.
        class: Operator,
        codes: &[1046, 1049],
        advice: "create the database, or correct its name in sql.url",
    },
    CodeGroup {
        // A right is missing, or the user in whose name a trigger runs.
        class: Operator,
        codes: &[1142, 1143, 1227, 1370, 1419, 1449],
        advice: "grant the right: `landing-worker grants` prints all required rights",
    },
    CodeGroup {
        // The disk, a tablespace or the log of changes is full or failing.
        class: Operator,
        codes: &[3, 20, 35, 1021, 1026, 1030, 1114, 1878, 3019, 3675],
        advice: "the server's disk is full or failing: free space there",
    },
    CodeGroup {
        // The server can't read or write a file.
        class: Operator,
        codes: &[
            1, 2, 9, 13, 23, 27, 29, 1004, 1015, 1016, 1017, 1023, 1024, 1025,
        ],
        advice: "the server can't use its files: look into its log",
    },
    CodeGroup {
        // The files of a table are missing, damaged or locked.
        class: Operator,
        codes: &[
            1005, 1033, 1034, 1035, 1194, 1195, 1712, 1728, 1812, 1813, 1814, 1877, 1881, 1932,
            3000, 3185, 3510, 4047, 4139,
        ],
        advice: "the table is damaged or its files are missing: look into the log of the server",
    },
    CodeGroup {
        // The tables, or the kind of server, do not fit the statements.
        class: Operator,
        codes: &[
            1050, 1054, 1060, 1061, 1064, 1067, 1071, 1072, 1091, 1099, 1100, 1101, 1103, 1104,
            1109, 1115, 1136, 1146, 1192, 1193, 1231, 1235, 1238, 1267, 1270, 1271, 1273, 1286,
            1289, 1295, 1305, 1364, 1707, 3161, 3780, 4182,
        ],
        advice: "compare the tables with `landing-worker migrate --dry-run`, and the server with the versions that are supported",
    },
    CodeGroup {
        // The replication of the server forbids the statement.
        class: Operator,
        codes: &[1418, 1598, 1665, 1785, 3098, 3750],
        advice: "set binlog_format to ROW, and keep the tables in InnoDB with their primary keys",
    },
    CodeGroup {
        // A value is null, too long, out of range or of a wrong type.
        class: Refused,
        codes: &[
            1048, 1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1690, 1977, 3854, 3988,
        ],
        advice: "",
    },
    CodeGroup {
        // An index, a foreign key, a partition or a check of your own rejects the row.
        class: Refused,
        codes: &[
            1022, 1062, 1169, 1216, 1217, 1369, 1451, 1452, 1526, 1586, 1748, 1761, 1762, 3819,
            4025,
        ],
        advice: "",
    },
    CodeGroup {
        // The row, the packet or the list of values is too large.
        class: Refused,
        codes: &[1118, 1153, 1162, 1301, 1390],
        advice: "raise max_allowed_packet, or lower limits.value_bytes_max",
    },
    CodeGroup {
        // The transaction is too large. Smaller ones are tried first.
        class: Refused,
        codes: &[1197, 1705, 1713, 3231],
        advice: "raise max_binlog_cache_size, or the limit that the message names",
    },
];

/// The low bytes of SQLite's numbers.
const SQLITE: &[CodeGroup] = &[
    CodeGroup {
        // Another connection or program is using the file.
        class: Retry,
        codes: &[4, 5, 6, 9, 15, 17],
        advice: "",
    },
    CodeGroup {
        // Out of memory.
        class: Retry,
        codes: &[7],
        advice: "",
    },
    CodeGroup {
        // The statement does not fit the tables.
        class: Operator,
        codes: &[1, 21, 25],
        advice: "compare the tables with `landing-worker migrate --dry-run`",
    },
    CodeGroup {
        // No right to write the file.
        class: Operator,
        codes: &[3, 8, 23],
        advice: "let this user write the file and its folder",
    },
    CodeGroup {
        // The disk fails, or the file is too large for it.
        class: Operator,
        codes: &[10, 22],
        advice: "the disk is failing or full",
    },
    CodeGroup {
        // The file is damaged, or no database.
        class: Operator,
        codes: &[11, 24, 26],
        advice: "the file is damaged or not a database: restore it from a backup",
    },
    CodeGroup {
        // The disk is full.
        class: Operator,
        codes: &[13],
        advice: "the disk is full: free space there",
    },
    CodeGroup {
        // The file cannot be opened.
        class: Operator,
        codes: &[14],
        advice: "the file is not there, or this user may not read and write it and its folder: check its path in sql.url",
    },
    CodeGroup {
        // The row is too large, breaks a constraint, or has a wrong type.
        class: Refused,
        codes: &[18, 19, 20],
        advice: "",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_number_of_mysql_has_the_class_that_its_meaning_asks_for() {
        let expected = [
            (Retry, &[1213, 1205, 3101, 1317][..]),
            (TooLong, &[3024, 1969]),
            (
                Reconnect,
                &[
                    2002, 2003, 2006, 2013, 1040, 1047, 1053, 1077, 1078, 1079, 1158, 1159, 1160,
                    1161, 1927, 4031, 1461,
                ],
            ),
            (Resolve, &[1290, 1836, 1792, 1223]),
            (
                Operator,
                &[
                    1021, 1114, 1026, 1030, 1044, 1045, 1142, 1049, 1146, 1054, 1064, 3118, 4151,
                    3955, 1226, 1820,
                ],
            ),
            (
                Refused,
                &[
                    1153, 1406, 1366, 1264, 1292, 1048, 3819, 4025, 1452, 1062, 1390,
                ],
            ),
        ];
        for (class_, codes) in expected {
            for &code in codes {
                assert_eq!(class(Dialect::MySql, code, ""), Some(class_), "{code}");
            }
        }
    }

    #[test]
    fn a_number_with_two_meanings_is_told_apart_by_its_text() {
        let quota =
            |name| format!("User 'game' has exceeded the '{name}' resource (current value: 9)");
        let cases = [
            (1226, quota("max_questions"), Operator),
            (1226, quota("max_user_connections"), Reconnect),
            (1461, "(current value: 16382)".to_owned(), Reconnect),
            (1461, "(current value: 0)".to_owned(), Operator),
        ];
        for (code, text, expected) in cases {
            let found = class(Dialect::MySql, code, &text);
            assert_eq!(found, Some(expected), "{text}");
        }
    }

    #[test]
    fn sqlite_is_judged_by_the_low_byte() {
        let cases = [
            (5, Retry),
            (517, Retry), // BUSY_SNAPSHOT
            (262, Retry), // LOCKED_SHAREDCACHE
            (8, Operator),
            (1032, Operator), // READONLY_DBMOVED
            (13, Operator),
            (11, Operator),
            (778, Operator), // IOERR_WRITE
            (18, Refused),
            (275, Refused),  // CONSTRAINT_CHECK
            (1555, Refused), // CONSTRAINT_PRIMARYKEY
        ];
        for (code, expected) in cases {
            assert_eq!(class(Dialect::Sqlite, code, ""), Some(expected), "{code}");
        }
    }

    #[test]
    fn unknown_numbers_have_no_class() {
        for code in [0, 1105, 64_999] {
            assert_eq!(class(Dialect::MySql, code, ""), None);
        }
        assert_eq!(class(Dialect::Sqlite, 2, ""), None);
    }

    #[test]
    fn no_number_has_two_classes() {
        for table in [MYSQL, SQLITE] {
            let mut seen = BTreeSet::new();
            assert!(
                table
                    .iter()
                    .flat_map(|known| known.codes)
                    .all(|code| seen.insert(code))
            );
        }
    }

    /// Numbers, kind, exit code and advice of each row of the chapter, in its order.
    fn rows_of_the_chapter(heading: &str) -> Vec<(String, String, String, String)> {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/errors.md");
        let chapter = std::fs::read_to_string(chapter).unwrap();
        let section = chapter.split_once(heading).unwrap().1;
        let section = section.split("\n## ").next().unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        section
            .lines()
            .filter(|line| {
                line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit())
            })
            .map(|line| {
                let cells: Vec<String> = cells(line);
                (
                    cells[1].clone(),
                    cells[3].clone(),
                    cells[4].clone(),
                    cells[5].clone(),
                )
            })
            .collect()
    }

    #[test]
    fn the_chapter_on_errors_has_the_rows_of_the_tables_and_no_others() {
        for (dialect, heading) in [
            (Dialect::MySql, "## MySQL and MariaDB\n"),
            (Dialect::Sqlite, "## SQLite\n"),
        ] {
            let rows = rows_of_the_chapter(heading);
            assert_eq!(rows.len(), table(dialect).len(), "{dialect:?}");
            for (known, (codes, kind, exit, advice)) in table(dialect).iter().zip(rows) {
                let numbers: Vec<String> = known.codes.iter().map(ToString::to_string).collect();
                assert_eq!(numbers.join(", "), codes);
                let expected = match known.class {
                    Operator => ("operator", "3"),
                    Refused => ("row", "1"),
                    _ => ("unwell", "5"),
                };
                assert_eq!((kind.as_str(), exit.as_str()), expected, "{codes}");
                assert!(
                    advice.contains(known.advice) && !advice.is_empty(),
                    "{codes}"
                );
            }
        }
    }
}
