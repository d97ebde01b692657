//! Why a server can't be reached, by the system's words: what lasts is told from what passes.

/// Whether the name of a host is known to no name server.
///
/// A name server that did not answer ("temporary failure") says nothing of the name, and everything
/// else is an outage.
///
/// ```
/// use storage_model::is_unknown_host;
/// assert!(is_unknown_host("failed to lookup address information: Name or service not known"));
/// assert!(!is_unknown_host("failed to lookup address information: Temporary failure in name resolution"));
/// ```
#[must_use]
pub fn is_unknown_host(error: &str) -> bool {
    // glibc, musl, macOS and Windows.
    const WORDS: [&str; 5] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "nodename nor servname provided",
        "No such host is known",
    ];
    WORDS.iter().any(|words| error.contains(words))
}

/// Whether a TLS handshake failed for a reason that lasts, such as a certificate: the other side
/// was reached, and answered.
///
/// ```
/// use storage_model::is_failed_handshake;
/// assert!(is_failed_handshake("invalid peer certificate: UnknownIssuer"));
/// assert!(!is_failed_handshake("Connection reset by peer (os error 104)"));
/// ```
#[must_use]
pub fn is_failed_handshake(error: &str) -> bool {
    const WORDS: [&str; 4] = [
        "invalid peer certificate",
        "received fatal alert",
        "received corrupt message",
        "peer is incompatible",
    ];
    WORDS.iter().any(|words| error.contains(words))
}
