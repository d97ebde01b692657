//! Advice for an operator about an error number.

use crate::classify::Dialect;

/// The way out of an error, if it is the same for everyone.
pub(crate) fn advice(dialect: Dialect, code: u32) -> Option<&'static str> {
    match dialect {
        Dialect::MySql => of_mysql(code),
        Dialect::Sqlite => of_sqlite(code & 0xff),
    }
}

fn of_mysql(code: u32) -> Option<&'static str> {
    Some(match code {
        3 | 20 | 1021 | 1026 | 1030 | 1114 => {
            "the server's disk is full or failing: free space there"
        }
        1040 | 1203 | 1226 => {
            "the server has no connection left: lower sql.connections, or raise its limit"
        }
        1044 => {
            "there is no such database, or the user may not use it: create it, and grant the rights that `landing-worker grants` prints"
        }
        1142 | 1143 | 1227 => "grant the right: `landing-worker grants` prints all required rights",
        1045 | 1698 => {
            "check sql.user and sql.password, or the login in sql.url, and the hosts that this user may connect from"
        }
        1049 => "create the database, or correct its name in sql.url",
        1129 | 1130 => "the server rejects connections from this host: let the user come from it",
        1223 | 1290 | 1792 | 1836 => {
            "the server takes no writes: if that lasts, it is a replica or read-only, so set sql.url to the primary"
        }
        1461 => "raise max_prepared_stmt_count",
        _ => return None,
    })
}

fn of_sqlite(kind: u32) -> Option<&'static str> {
    Some(match kind {
        3 | 8 | 23 => "let this user write the file and its folder",
        10 => "the disk is failing or full",
        11 | 26 => "the file is damaged or not a database: restore it from a backup",
        13 => "the disk is full: free space there",
        14 => {
            "the file is not there, or this user may not read and write it and its folder: check its path in sql.url"
        }
        _ => return None,
    })
}
