//! The internals of this crate for the micro-benchmarks. They are not part of its interface.

use sqlx::{Arguments, Execute};
use storage_model::Row;

use crate::classify::Dialect;
use crate::statement::{Names, Texts};
use crate::{mysql, registry, split, upsert};

/// The limit of a value on a MySQL server with default settings.
const BYTES_MAX: usize = upsert::value_bytes_max(64 << 20);

/// The rows of a landing in key order.
#[must_use]
pub fn ordered(rows: &[Row]) -> Vec<&Row> {
    split::ordered(rows)
}

/// Cuts ordered rows into upserts and lists the arguments of each. Returns the number of arguments.
#[must_use]
pub fn upserts(rows: &[&Row]) -> usize {
    upsert::upserts(rows, BYTES_MAX)
        .map(|(_, args)| std::hint::black_box(args).len())
        .sum()
}

/// The texts of all statements for MySQL.
#[derive(Debug)]
pub struct MySqlTexts(Texts);

impl Default for MySqlTexts {
    fn default() -> Self {
        let names = Names::new("landing_rows");
        Self(Texts::new(&names, Dialect::MySql, registry::statements()))
    }
}

impl MySqlTexts {
    /// As [`upserts`], with each upsert's arguments bound as MySQL's driver sends them. Returns the
    /// number of bound arguments.
    #[must_use]
    pub fn bound(&self, rows: &[&Row]) -> usize {
        let bind = |(size, args): (usize, Vec<_>)| {
            let mut query = mysql::query(self.0.get(&upsert::UPSERT, size)?, &args);
            let bound = query.take_arguments().ok().flatten()?;
            Some(std::hint::black_box(bound).len())
        };
        upsert::upserts(rows, BYTES_MAX).filter_map(bind).sum()
    }
}
