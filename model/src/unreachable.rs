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

/// The limit of this process or machine that an error of the operating system names, with the way to
/// raise it.
///
/// ```
/// use storage_model::limit_of;
/// let limit = limit_of("Too many open files (os error 24)");
/// assert!(limit.is_some_and(|limit| limit.contains("ulimit -n")));
/// assert_eq!(limit_of("Connection refused (os error 111)"), None);
/// ```
#[must_use]
pub fn limit_of(error: &str) -> Option<&'static str> {
    const LIMITS: [(&str, &str); 3] = [
        (
            "(os error 24)",
            "; the limit of open files of this process is reached: raise it (ulimit -n)",
        ),
        (
            "(os error 23)",
            "; the limit of open files of this machine is reached: raise it (fs.file-max)",
        ),
        (
            "(os error 12)",
            "; the memory of this process or machine is used up: give it more",
        ),
    ];
    let known = LIMITS.iter().find(|(number, _)| error.contains(number));
    known.map(|(_, limit)| *limit)
}
