//! The decisions of servers and clients, as pure functions.

/// The holder of a row of claims, as one server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// The server itself, by name. It does not know of the claim, because its answer was lost.
    Itself,
    Another,
}

/// How often in a row a server has read a row as it is, after one more read. More than `reads` are
/// not counted.
pub(super) fn equal_reads(before: u8, is_changed: bool, reads: u8) -> u8 {
    if is_changed {
        1
    } else {
        before.saturating_add(1).min(reads)
    }
}

/// Whether a server may take a row that it has read as it is `equal` times in a row.
pub(super) fn may_take(holder: Holder, equal: u8, reads: u8) -> bool {
    match holder {
        Holder::Nobody | Holder::Itself => true,
        Holder::Another => equal >= reads,
    }
}

/// A position in the feed of a database: how many events are before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Position {
    /// The identity of the database.
    pub(super) database: u8,
    pub(super) number: usize,
}

/// Whether the end of the feed is that of another database than the cursor, or of an older copy.
pub(super) fn is_replaced(cursor: Position, end: Position) -> bool {
    end.database != cursor.database || end.number < cursor.number
}

/// Whether a server with this cursor has heard all events before a position.
pub(super) fn has_heard(cursor: Position, position: Position) -> bool {
    position.database == cursor.database && position.number <= cursor.number
}

/// Whether a row is of the database whose feed the server follows. Before the first cursor, each row
/// is.
pub(super) fn is_followed(cursor: Option<Position>, database: u8) -> bool {
    cursor.is_none_or(|cursor| cursor.database == database)
}

/// Whether a reply replaces the known reply of its server. Requests are numbered as they are sent.
pub(super) fn replaces(known: u8, request: u8) -> bool {
    request > known
}

/// Whether a reply may have values: the server's range has not changed since the call began, not
/// even to another one and back.
pub(super) fn may_answer(begun: u8, present: u8) -> bool {
    begun == present
}
