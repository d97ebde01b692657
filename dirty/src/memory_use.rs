//! How full the hot tier is.

/// The memory of one server with a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// The server.
    pub server: String,
    /// The bytes in use.
    pub used: u64,
    /// The most bytes that the server may use.
    pub limit: u64,
    /// What the server has done about its limit. `None` if it evicts nothing.
    pub evictions: Option<Evictions>,
}

/// What a server that evicts landed data has done since it started. Nobody can tell from outside how
/// much is left to evict, but the server shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evictions {
    /// The keys that it has evicted.
    pub evicted: u64,
    /// The commands that it has rejected for lack of memory, because nothing was left to evict.
    pub rejected: u64,
}

impl MemoryUse {
    /// The used share of the limit, in percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }

    /// Whether landed data can no longer make room, by an earlier look at the same servers. A server
    /// that evicts nothing never makes room. Another one is full only if it has rejected commands
    /// since, and has evicted nothing.
    #[must_use]
    pub fn is_full(&self, before: &[Self]) -> bool {
        let Some(now) = self.evictions else {
            return true;
        };
        let same = before.iter().find(|before| before.server == self.server);
        same.and_then(|before| before.evictions)
            .is_some_and(|before| now.rejected > before.rejected && now.evicted == before.evicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_evicts_is_full_only_if_it_rejects_and_evicts_nothing() {
        let of = |server: &str, evictions: Option<(u64, u64)>| MemoryUse {
            server: server.to_owned(),
            used: 99,
            limit: 100,
            evictions: evictions.map(|(evicted, rejected)| Evictions { evicted, rejected }),
        };
        let table = [
            (None, None, true),
            (Some((5, 5)), Some((5, 6)), true),
            (Some((5, 5)), Some((5, 5)), false),
            (Some((5, 5)), Some((6, 6)), false),
            (Some((5, 5)), Some((0, 0)), false), // it has restarted
            (None, Some((0, 9)), false),         // the policy has changed
            (Some((0, 9)), None, true),
        ];
        for (before, now, full) in table {
            let before = [of("b", Some((0, 0))), of("a", before)];
            assert_eq!(of("a", now).is_full(&before), full, "{before:?}, {now:?}");
        }
        assert!(
            !of("a", Some((0, 9))).is_full(&[]),
            "there was no look before"
        );
    }
}
