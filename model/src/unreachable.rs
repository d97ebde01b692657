//! Why a server can't be reached, by the words of the system: lasting reasons and passing ones.

/// Whether no name server knows the name of a host.
///
/// A name server that did not answer ("temporary failure") tells nothing about the name. Every
/// other error is an outage.
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

/// Whether a TLS handshake failed for a lasting reason, such as a certificate. In that case the
/// other side was reached and answered.
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
