//! The fault of a statement, in terms that both drivers share.

use crate::classify::{Class, Dialect, advice, class};
use crate::{ColdError, ColdKind, RowFault};

/// A failed statement, or a failed attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    /// The database's error number. 0 if it gave none.
    pub(crate) code: u32,
    /// One line, never with a password.
    pub(crate) message: String,
}

impl Fault {
    /// An error answer of the database. Logs a number that is in no table.
    pub(crate) fn answered(dialect: Dialect, code: u32, message: &str) -> Self {
        let class = class(dialect, code, message).unwrap_or_else(|| {
            tracing::warn!(code, message, "unknown database error number: the database counts as unwell, unless only one row gets this error");
            Class::Unknown
        });
        let message = match advice(dialect, code) {
            Some(advice) => format!("{}; {advice}", one_line(message)),
            None => one_line(message),
        };
        Self {
            class,
            code,
            message,
        }
    }

    /// Settings that name something that does not exist.
    pub(crate) fn settings(message: impl AsRef<str>) -> Self {
        Self {
            class: Class::Settings,
            code: 0,
            message: one_line(message.as_ref()),
        }
    }

    /// A failed attempt to connect without a reason from the server. A passing fault stays an
    /// outage.
    pub(crate) fn unopened(message: &str) -> Self {
        if storage_model::is_unknown_host(message) {
            return Self::settings(format!(
                "no name server knows the host ({message}): correct it in sql.url"
            ));
        }
        if storage_model::is_failed_handshake(message) {
            return Self::operator(format!(
                "TLS: {message}: see sql.tls, sql.tls_ca_file and sql.tls_cert_file"
            ));
        }
        Self::lost(format!(
            "{message}{}",
            storage_model::limit_of(message).unwrap_or_default()
        ))
    }

    /// The fault for a database that was reached before. Then the settings are right, and the
    /// database is away.
    pub(crate) fn of_known_place(self) -> Self {
        let class = if self.class == Class::Settings {
            Class::Reconnect
        } else {
            self.class
        };
        Self { class, ..self }
    }

    /// A connection that broke or failed to open without an answer from the database.
    pub(crate) fn lost(message: impl AsRef<str>) -> Self {
        Self {
            class: Class::Reconnect,
            code: 0,
            message: one_line(message.as_ref()),
        }
    }

    /// A fault that only the operator can repair.
    pub(crate) fn operator(message: impl AsRef<str>) -> Self {
        Self {
            class: Class::Operator,
            code: 0,
            message: one_line(message.as_ref()),
        }
    }

    /// An unreadable row.
    pub(crate) fn unreadable(message: impl AsRef<str>) -> Self {
        Self {
            class: Class::Unreadable,
            code: 0,
            message: one_line(message.as_ref()),
        }
    }

    /// A failed COMMIT. Either nothing was written or the outcome is unknown, for any answer, and
    /// no row is at fault. A full disk stays a full disk, because waiting does not help.
    pub(crate) fn of_commit(self) -> Self {
        let class = if matches!(self.class, Class::Resolve | Class::Operator) {
            self.class
        } else {
            Class::Reconnect
        };
        Self {
            class,
            message: format!("the commit failed: {}", self.message),
            ..self
        }
    }

    /// A rejection of any row. No single row is at fault.
    pub(crate) fn of_any_row(self) -> Self {
        let class = if self.class == Class::Refused {
            Class::Operator
        } else {
            self.class
        };
        Self {
            class,
            message: format!("the database takes no row: {}", self.message),
            ..self
        }
    }

    /// The error of an operation without rows to reject.
    pub(crate) fn into_cold(self, operation: &'static str) -> ColdError {
        let kind = match self.class {
            Class::Retry | Class::TooLong | Class::Reconnect | Class::Resolve | Class::Unknown => {
                ColdKind::Unwell
            }
            Class::Unreadable => ColdKind::Unreadable,
            Class::Settings => ColdKind::Settings,
            // A read has no row that could be at fault. So a rejection means that the statement
            // does not fit the database.
            Class::Operator | Class::Refused => ColdKind::Operator,
        };
        let message = if self.code == 0 {
            self.message
        } else {
            format!("error {}: {}", self.code, self.message)
        };
        ColdError {
            kind,
            operation,
            message,
        }
    }

    /// Whether rows can be at fault.
    pub(crate) fn may_be_of_rows(&self) -> bool {
        matches!(self.class, Class::Refused | Class::Unknown)
    }

    /// Whether the statement was cut, so that nobody knows whether its rows are at fault. The
    /// connection broke, for example at a proxy with a packet limit, or the time ran out.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.class, Class::Reconnect | Class::TooLong)
    }

    /// The last of this many cuts of the same rows.
    pub(crate) fn each_time(self, times: u32) -> Self {
        Self {
            message: format!(
                "cut {times} times while another row succeeded: {}",
                self.message
            ),
            ..self
        }
    }

    /// The fault of rows, for a fault whose rows are the cause.
    pub(crate) fn of_rows(self) -> RowFault {
        RowFault {
            code: self.code,
            message: self.message,
        }
    }
}

impl ColdError {
    /// Settings that name an impossible database.
    pub(crate) fn settings(message: String) -> Self {
        Self {
            kind: ColdKind::Settings,
            operation: "open",
            message,
        }
    }

    /// Adds the database's address, which every error to callers has.
    pub(crate) fn at(self, place: &str) -> Self {
        Self {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_mysql(code: u32) -> Fault {
        Fault::answered(Dialect::MySql, code, "text\nof two lines")
    }

    #[test]
    fn only_refusals_and_numbers_of_no_table_may_be_of_rows() {
        let refusal = RowFault {
            code: 1406,
            message: "text of two lines".to_owned(),
        };
        assert_eq!(of_mysql(1406).of_rows(), refusal);
        assert_eq!(
            [1406, 64_999, 1205, 1146, 2013].map(|code| of_mysql(code).may_be_of_rows()),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn a_number_of_no_table_that_is_no_rows_is_an_unwell_database() {
        let kind = |code| of_mysql(code).into_cold("land").kind;
        assert_eq!(
            [64_999, 1205, 1146].map(kind),
            [ColdKind::Unwell, ColdKind::Unwell, ColdKind::Operator]
        );
    }

    /// All numbers that fit MySQL's protocol, and the kinds and details of SQLite's.
    #[test]
    fn of_all_numbers_only_those_of_the_table_refuse_a_row() {
        // Calls the classifier itself, because `answered` logs each unknown number.
        let refused = |dialect, code| class(dialect, code, "") == Some(Class::Refused);
        let mysql: Vec<u32> = (0..=u32::from(u16::MAX))
            .filter(|code| refused(Dialect::MySql, *code))
            .collect();
        assert!(mysql.contains(&1406) && mysql.len() < 40, "{mysql:?}");
        assert!(
            mysql.iter().all(|code| (1022..=1977).contains(code)
                || [3231, 3819, 3854, 3988, 4025].contains(code)),
            "{mysql:?}"
        );
        for code in 0..1 << 20 {
            assert_eq!(
                refused(Dialect::Sqlite, code),
                [18, 19, 20].contains(&(code & 0xff)),
                "{code}"
            );
        }
    }

    #[test]
    fn a_statement_is_cut_by_its_connection_or_by_a_limit_of_time() {
        assert_eq!(
            [2013, 1969, 3024, 1205, 1290, 1406].map(|code| of_mysql(code).is_cut()),
            [true, true, true, false, false, false]
        );
        assert!(Fault::lost("no reply within 10s").is_cut());
    }

    #[test]
    fn a_full_disk_is_for_an_operator_at_the_commit_too() {
        let full = [
            (Dialect::MySql, 1021),
            (Dialect::MySql, 1114),
            (Dialect::MySql, 3),
            (Dialect::Sqlite, 13),
            (Dialect::Sqlite, 778),
        ];
        for (dialect, code) in full {
            let error = Fault::answered(dialect, code, "full")
                .of_commit()
                .into_cold("raise");
            assert_eq!(error.kind, ColdKind::Operator, "{error}");
            assert!(error.message.contains("disk"), "{error}");
        }
        assert_eq!(of_mysql(1290).of_commit().class, Class::Resolve);
    }

    #[test]
    fn what_lasts_is_told_from_an_outage_when_a_connection_can_not_be_made() {
        let kind = |fault: Fault| fault.into_cold("load").kind;
        let (unknown, resolver) = (
            "lookup: Name or service not known",
            "lookup: Temporary failure in name resolution",
        );
        assert_eq!(kind(Fault::unopened(unknown)), ColdKind::Settings);
        assert_eq!(
            kind(Fault::unopened(unknown).of_known_place()),
            ColdKind::Unwell
        );
        assert_eq!(
            kind(Fault::unopened("invalid peer certificate: UnknownIssuer").of_known_place()),
            ColdKind::Operator
        );
        for passes in [
            resolver,
            "Connection refused",
            "Connection reset by peer",
            "unexpected end of file",
            "timed out",
        ] {
            assert_eq!(kind(Fault::unopened(passes)), ColdKind::Unwell, "{passes}");
        }
        let prepared = |words: &str| kind(Fault::answered(Dialect::MySql, 1461, words));
        assert_eq!(
            prepared("more than max_prepared_stmt_count statements (current value: 0)"),
            ColdKind::Operator
        );
        assert_eq!(
            prepared("more than max_prepared_stmt_count statements (current value: 16382)"),
            ColdKind::Unwell
        );
    }

    #[test]
    fn a_failed_commit_is_never_a_refusal() {
        for fault in [of_mysql(1406), of_mysql(64_999)].map(Fault::of_commit) {
            assert!(!fault.may_be_of_rows());
            assert_eq!(fault.into_cold("land").kind, ColdKind::Unwell);
        }
    }
}
