//! The meaning of the databases' error numbers. There is one table for each dialect, and no other
//! code knows a number.

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

/// The class of an error number. `None` if the number is in no table.
pub(crate) fn class(dialect: Dialect, code: u32) -> Option<Class> {
    let (table, code) = match dialect {
        Dialect::MySql => (MYSQL, code),
        // The low byte is the kind of error, the higher bytes are the detail.
        Dialect::Sqlite => (SQLITE, code & 0xff),
    };
    table
        .iter()
        .find(|(_, codes)| codes.contains(&code))
        .map(|(class, _)| *class)
}

/// The numbers of MySQL and MariaDB.
const MYSQL: &[(Class, &[u32])] = &[
    (
        Retry,
        &[
            1020, // the row changed since it was read (MariaDB's snapshot isolation)
            1037, 1038, 1041, // out of memory
            1205, // lock wait timeout
            1206, // the lock table is full
            1213, // deadlock, and every conflict of Galera
            1317, // the query was killed
            1614, // deadlock in a distributed transaction
            1615, // the prepared statement must be prepared again
            1637, // too many transactions
            3101, // group replication rolled back
            3168, 3170, // not available, out of memory
            3572, // a lock was not free at once
        ],
    ),
    (TooLong, &[1969, 3024]),
    (
        Reconnect,
        &[
            1040, 1203, 1226, // too many connections
            1042, 1043, // handshake failed
            1047, 1180, // Galera without quorum
            1053, 1077, 1078, 1079, // shutting down
            1152, 1184, 1927, 3169, // the connection was killed or aborted
            1156, 1157, 1158, 1159, 1160, 1161, 1835, // broken packets
            1243, // the prepared statement is unknown
            1461, // too many prepared statements
            2002, 2003, 2006, 2013, // the client library's own: no server, server gone
            4031, // idle for too long
        ],
    ),
    (
        Resolve,
        &[
            1223, // a global read lock
            1290, // --read-only, super_read_only
            1792, // a read-only transaction
            1836, // read-only mode
            3032, // offline mode
        ],
    ),
    (
        Operator,
        &[
            1005, 1030, 1033, 1194, 1195, 1812, 1813, 1932, // the table's files
            3, 20, 1021, 1026, 1114, // the disk is full, or cannot be written
            1015, 1016, 1034, // a file cannot be locked, opened or read
            1044, 1045, 1049, 1142, 1143, 1227, // rights, database
            1054, 1064, 1136, 1146, 1364, // the table does not fit the statements
            1129, 1130, 1251, 1698, 1820,
            1862, // the server rejects the host, the user or the password
            1665, // the binary log's format does not allow READ COMMITTED
        ],
    ),
    (
        Refused,
        &[
            1048, // null
            1062, 1169, 1586, // another unique key
            1118, // the row is too large
            1153, // the packet is too large
            1216, 1217, 1451, 1452, // another table's rows
            1264, 1265, 1292, 1366, 1406, 1411,
            1690, // out of range, too long, of a wrong type
            1301, // larger than the packet
            1390, // too many placeholders
            3819, 4025, // a check
        ],
    ),
];

/// The low bytes of SQLite's numbers.
const SQLITE: &[(Class, &[u32])] = &[
    (
        Retry,
        &[
            5,  // another writer, for longer than the wait
            6,  // another connection of the same cache
            7,  // out of memory
            9,  // interrupted
            15, // the locks of the write-ahead log
            17, // the schema changed
        ],
    ),
    (
        Operator,
        &[
            1,  // the statement does not fit the tables
            3,  // rights
            8,  // read-only
            10, // the disk fails
            11, // the file is damaged
            13, // the disk is full
            14, // the file cannot be opened
            22, // the file is too large for the system
            23, // not allowed
            26, // not a database
        ],
    ),
    (
        Refused,
        &[
            18, // too big
            19, // a constraint
            20, // a wrong type
        ],
    ),
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
                    1021, 1114, 1026, 1030, 1044, 1045, 1142, 1049, 1146, 1054, 1064,
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
                assert_eq!(class(Dialect::MySql, code), Some(class_), "{code}");
            }
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
            assert_eq!(class(Dialect::Sqlite, code), Some(expected), "{code}");
        }
    }

    #[test]
    fn unknown_numbers_have_no_class() {
        assert_eq!(class(Dialect::MySql, 0), None);
        assert_eq!(class(Dialect::MySql, 1105), None);
        assert_eq!(class(Dialect::MySql, 64_999), None);
        assert_eq!(class(Dialect::Sqlite, 2), None);
    }

    #[test]
    fn no_number_has_two_classes() {
        for table in [MYSQL, SQLITE] {
            let mut seen = BTreeSet::new();
            assert!(
                table
                    .iter()
                    .flat_map(|(_, codes)| *codes)
                    .all(|code| seen.insert(code))
            );
        }
    }
}
