//! Tiers that do not belong together: what is wrong, and the way out.

use std::fmt;

use storage_model::{LAYOUT, Paired, Timestamp, Token};

/// Why these two tiers are not used together. Nothing was written to either.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// One of the tiers has another layout of keys than this program.
    Layout {
        /// Which tier, and where.
        tier: String,
        /// The number that it has.
        stored: u32,
    },
    /// One of the tiers has another number of partitions than the settings.
    Partitions {
        /// Which tier, and where.
        tier: String,
        /// The number that it has.
        stored: u32,
        /// The number in the settings.
        configured: u32,
    },
    /// The hot tier belongs to another database.
    Database {
        /// Where the hot tier is.
        hot: Place,
        /// Since when it belongs to that database.
        since: Timestamp,
        /// That database.
        belongs_to: Token,
        /// Where the database of the settings is.
        address: String,
        /// Its identity; none if it holds no data of a storage.
        identity: Option<Token>,
    },
    /// Another hot tier is the database's current one.
    Replaced {
        /// Where the hot tier of the settings is.
        hot: Place,
        /// Since when it belongs to the database; none if it never did.
        since: Option<Timestamp>,
        /// Where the database is.
        address: String,
        /// The current one; none if the database knows of none.
        by: Option<Paired>,
    },
    /// The database is used under another prefix.
    Prefix {
        /// Where the hot tier of the settings is.
        hot: Place,
        /// Where the database is.
        address: String,
        /// Its current hot tier.
        by: Paired,
    },
}

/// A hot tier, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Host and port.
    pub address: String,
    /// The prefix of its keys.
    pub prefix: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the hot tier at {} with redis.prefix = {:?}",
            self.address, self.prefix
        )
    }
}

/// The words for how to pair two tiers on purpose.
const ADOPT: &str = "`landing-worker adopt` pairs these two on purpose";

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout { tier, stored, .. } if *stored > LAYOUT => {
                write!(
                    f,
                    "{tier} has layout {stored} of a newer program, this one has layout {LAYOUT}; use the newer program"
                )
            }
            Self::Layout { tier, stored, .. } => write!(
                f,
                "{tier} has layout {stored} of an older program, this one has layout {LAYOUT}; run `drain` by the older program, then \
                 `landing-worker migrate`"
            ),
            Self::Partitions {
                tier,
                stored,
                configured,
            } => write!(
                f,
                "{tier} was set up with {stored} partitions, the settings say {configured}; set redis.partitions = {stored}"
            ),
            Self::Database {
                hot,
                since,
                belongs_to,
                address,
                identity: None,
            } => write!(
                f,
                "{hot} belongs to database {belongs_to} since {}, and the database at {address} holds no data of a storage; set sql.url \
                 and sql.table to the database it belongs to, or {ADOPT}",
                when(*since)
            ),
            Self::Database {
                hot,
                since,
                belongs_to,
                address,
                identity: Some(identity),
            } => write!(
                f,
                "{hot} belongs to database {belongs_to} since {}, and the database at {address} is {identity}; correct sql.url, \
                 sql.table, redis.url or redis.prefix, or {ADOPT}",
                when(*since)
            ),
            Self::Replaced {
                hot,
                address,
                by: None,
                ..
            } => write!(
                f,
                "{hot} belongs to the database at {address}, which knows of no hot tier: it was emptied, or restored from before; {ADOPT}"
            ),
            Self::Replaced {
                hot,
                since: Some(since),
                address,
                by: Some(by),
            } if *since > by.since => write!(
                f,
                "{hot} took over the database at {address} on {}, and the database knows only {} of {}: it was restored from before; {ADOPT}",
                when(*since),
                place(by),
                when(by.since)
            ),
            Self::Replaced {
                hot,
                address,
                by: Some(by),
                ..
            } => write!(
                f,
                "{hot} is not the current one of the database at {address}: {} took over on {}; use that one, give this one a table \
                 of its own (sql.table), or {ADOPT}",
                place(by),
                when(by.since)
            ),
            Self::Prefix { hot, address, by } => write!(
                f,
                "{hot} is blank, and the database at {address} belongs to {} since {}; set redis.prefix = {:?}, or give this prefix a \
                 table of its own (sql.table), or {ADOPT}",
                place(by),
                when(by.since),
                by.prefix
            ),
        }
    }
}

fn place(paired: &Paired) -> Place {
    Place {
        address: paired.address.clone(),
        prefix: paired.prefix.clone(),
    }
}

/// A moment as people write it, in UTC.
fn when(moment: Timestamp) -> String {
    let seconds = moment.0 / 1_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// The date of a day since 1970 (Howard Hinnant's `civil_from_days`, for days that are not
/// negative).
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_764_039_661, "2025-11-25 03:01:01 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(when(Timestamp(seconds * 1_000_000)), expected);
        }
        assert!(!when(Timestamp(u64::MAX)).is_empty());
    }
}
