//! What may be broken, and which bounds show it.

/// How the model does something other than the storage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Nothing is broken.
    Nothing,
    /// A new snapshot takes the place of one that is left over (R4).
    Overwritten,
    /// A settle takes the whole snapshot (R4).
    WholeSnapshot,
    /// Marks are settled whatever their version (R5).
    ByName,
    /// Marks are settled before the commit (R5).
    SettledEarly,
    /// An older row replaces a newer one (R3).
    Unguarded,
    /// Value and version are read one after the other (R3).
    ReadApart,
    /// A row carries its mark's version (R3).
    MarkVersion,
    /// A marked field that the hash lacks lands as removed (R6).
    MissingIsNull,
    /// A load is believed as if it had been observed just now (R7).
    Unproven,
    /// An owner without a marker is taken for absent (R8).
    AbsenceTrusted,
    /// A write whose reply was lost is repeated under a new id (R11).
    NewId,
    /// A landing commits whatever the epoch (R14).
    Unfenced,
    /// A hash from before a failover is believed (R14).
    NeverSuspect,
    /// A worker lands a suspect hash as it is (R14).
    Trusting,
    /// A settle does not say how far its commit reached (R14).
    Unraised,
    /// A flush settles the marks that it finds.
    FlushSettles,
}
