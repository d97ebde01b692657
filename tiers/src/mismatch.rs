//! Tiers that do not belong together: the fault, and the way out.

use std::fmt;

use storage_model::{LAYOUT, Paired, Timestamp, Token};

/// Why these two tiers are not used together. Neither tier was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// One of the tiers has another layout of keys than this program.
    Layout {
        /// The tier and its address.
        tier: String,
        /// The tier's layout.
        stored: u32,
    },
    /// One of the tiers has another partition count than the settings.
    Partitions {
        /// The tier and its address.
        tier: String,
        /// The tier's partition count.
        stored: u32,
        /// The partition count of the settings.
        configured: u32,
    },
    /// The hot tier belongs to another database.
    Database {
        /// The hot tier and its address.
        hot: Place,
        /// Since when the hot tier belongs to its database.
        since: Timestamp,
        /// The database that the hot tier belongs to.
        belongs_to: Token,
        /// The address of the database in the settings.
        address: String,
        /// The identity of the database in the settings. `None` if it holds no data of a storage.
        identity: Option<Token>,
    },
    /// Another hot tier is the database's current one.
    Replaced {
        /// The hot tier of the settings and its address.
        hot: Place,
        /// Since when it belongs to the database. `None` if it never did.
        since: Option<Timestamp>,
        /// The address of the database.
        address: String,
        /// The current hot tier. `None` if the database knows of none.
        by: Option<Paired>,
    },
    /// Another hot tier with the same token took partitions, while this one was there.
    Taken {
        /// The address of the hot tier of the settings.
        hot: String,
        /// The address of the database.
        address: String,
        /// Since when the database knows the other one. `None` if it has forgotten it.
        since: Option<Timestamp>,
        /// The address of the other one. `None` if the database has forgotten it.
        by: Option<String>,
    },
    /// The database is used under another prefix.
    Prefix {
        /// The hot tier of the settings and its address.
        hot: Place,
        /// The address of the database.
        address: String,
        /// The current hot tier of the database.
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

/// The way to pair two tiers on purpose.
const ADOPT: &str = "pair these two with `landing-worker adopt`";

impl Mismatch {
    /// The fault in words of the embedded mode, which has no server to adopt. `None` if the hot tier is
    /// a server, or the advice is the same.
    fn embedded(&self) -> Option<String> {
        let is_embedded = |hot: &Place| hot.address == storage_dirty::memory::ADDRESS;
        let ends = "This program's writes fail, and its changes that have not landed are lost";
        match self {
            Self::Replaced {
                hot,
                since,
                address,
                by: Some(by),
            } if is_embedded(hot) && since.is_none_or(|since| since <= by.since) => Some(format!(
                "another program took over {address} on {}. {ends}: end it, or end the other one and start this one again",
                when(by.since)
            )),
            Self::Taken {
                hot,
                address,
                since: Some(since),
                ..
            } if hot == storage_dirty::memory::ADDRESS => Some(format!(
                "another program took over {address} on {}. {ends}: end it, or end the other one and start this one again",
                when(*since)
            )),
            Self::Replaced { hot, address, .. } | Self::Database { hot, address, .. }
                if is_embedded(hot) =>
            {
                Some(format!(
                    "{address} was replaced while it was open, for example by a backup. {ends}: start it again"
                ))
            }
            Self::Prefix { hot, address, by } if is_embedded(hot) => Some(format!(
                "{address} was used with redis.prefix = {:?}, and the settings say {:?}: set the former",
                by.prefix, hot.prefix
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = self.embedded() {
            return f.write_str(&words);
        }
        match self {
            Self::Layout { tier, stored, .. } if *stored > LAYOUT => {
                write!(
                    f,
                    "{tier} has layout {stored}, made by a newer program, and this program has layout {LAYOUT}: use the newer program"
                )
            }
            Self::Layout { tier, stored, .. } => write!(
                f,
                "{tier} has layout {stored}, made by an older program, and this program has layout {LAYOUT}: use the older program"
            ),
            Self::Partitions {
                tier,
                stored,
                configured,
            } => write!(
                f,
                "{tier} was set up with {stored} partitions, the settings say {configured}: set redis.partitions = {stored}"
            ),
            Self::Database {
                hot,
                since,
                belongs_to,
                address,
                identity: None,
            } => write!(
                f,
                "{hot} belongs to database {belongs_to} since {}, but the database at {address} holds no data of a storage: set sql.url \
                 and sql.table to the database that it belongs to, or {ADOPT}",
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
                "{hot} belongs to database {belongs_to} since {}, but the database at {address} is {identity}: correct sql.url, \
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
                "{hot} belongs to the database at {address}, which knows of no hot tier. The database was emptied, or restored from an older backup: {ADOPT}"
            ),
            Self::Replaced {
                hot,
                since: Some(since),
                address,
                by: Some(by),
            } if *since > by.since => write!(
                f,
                "{hot} took over the database at {address} on {}, but the database knows only {} of {}. The database was restored from an older backup: {ADOPT}",
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
                "{hot} is not the current one of the database at {address}: {} took over on {}. Use that one, give this one a table \
                 of its own (sql.table), or {ADOPT}",
                place(by),
                when(by.since)
            ),
            Self::Taken { hot, since, by, .. } => {
                let by = by.as_deref().unwrap_or("an unknown address");
                let on = since.map(|since| format!(" on {}", when(since)));
                write!(
                    f,
                    "the hot tier at {hot} was replaced by the one at {by}{}: connect to that one. Unlanded writes stay here: `landing-worker status` \
                     counts them, and `landing-worker export` saves them. To go back to this one, run `landing-worker adopt`",
                    on.unwrap_or_default()
                )
            }
            Self::Prefix { hot, address, by } => write!(
                f,
                "{hot} is blank, but the database at {address} belongs to {} since {}: set redis.prefix = {:?}, or give this prefix a \
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

/// A moment in UTC, for people.
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
