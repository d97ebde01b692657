//! TLS by the gateway itself, with a certificate that can be renewed while it serves.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use storage_coalesce::locked;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at, if there are connections.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// The files of the certificate and its key, and what they said.
#[derive(Debug)]
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    known: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    files: Files,
    acceptor: TlsAcceptor,
    looked: Instant,
}

/// It holds the key.
impl std::fmt::Debug for LoadedCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoadedCertificate")
    }
}

/// The certificate and its chain, and the key.
type Files = (Vec<u8>, Vec<u8>);

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file can't be read or used. The message names it.
    pub(crate) fn open(certificate: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let files = read(&certificate, &key)?;
        let known = LoadedCertificate {
            acceptor: acceptor(&files)?,
            files,
            looked: Instant::now(),
        };
        Ok(Self {
            certificate,
            key,
            known: Mutex::new(known),
        })
    }

    /// What takes the next connection. If the files have changed, it has the new certificate.
    pub(crate) fn acceptor(&self, now: Instant) -> TlsAcceptor {
        let mut known = locked(&self.known);
        if now.duration_since(known.looked) >= LOOK_EVERY {
            known.looked = now;
            match self.renewed(&known.files) {
                Ok(None) => {}
                Ok(Some((files, acceptor))) => {
                    tracing::info!("the certificate was read again");
                    (known.files, known.acceptor) = (files, acceptor);
                }
                // A program that renews the certificate may be between its two files.
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(
                        error,
                        "the new certificate can't be used; the old one stays"
                    );
                }
            }
        }
        known.acceptor.clone()
    }

    fn renewed(&self, known: &Files) -> anyhow::Result<Option<(Files, TlsAcceptor)>> {
        let files = read(&self.certificate, &self.key)?;
        if files == *known {
            return Ok(None);
        }
        let acceptor = acceptor(&files)?;
        Ok(Some((files, acceptor)))
    }
}

fn read(certificate: &PathBuf, key: &PathBuf) -> anyhow::Result<Files> {
    let certificate_text = std::fs::read(certificate)
        .with_context(|| format!("--tls-cert {}", certificate.display()))?;
    let key_text = std::fs::read(key).with_context(|| format!("--tls-key {}", key.display()))?;
    Ok((certificate_text, key_text))
}

fn acceptor((certificate, key): &Files) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .context("--tls-cert: send certificates as PEM, the server's first")?;
    anyhow::ensure!(!chain.is_empty(), "--tls-cert has no certificate");
    let key = PrivateKeyDer::from_pem_slice(key).context("--tls-key: send a key as PEM")?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("--tls-cert and --tls-key do not belong together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_was_renewed_is_used_within_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (first, second) = (made(), made());
        std::fs::write(&certificate, first.cert.pem()).unwrap();
        std::fs::write(&key, second.signing_key.serialize_pem()).unwrap();
        let refusal = Tls::open(certificate.clone(), key.clone()).unwrap_err();
        assert!(refusal.to_string().contains("do not belong together"));
        std::fs::write(&key, first.signing_key.serialize_pem()).unwrap();
        let tls = Tls::open(certificate.clone(), key.clone()).unwrap();

        let config = |now| Arc::clone(tls.acceptor(now).config());
        let begin = Instant::now();
        let old = config(begin);
        std::fs::write(&certificate, second.cert.pem()).unwrap();
        let minute = |count| begin + LOOK_EVERY * count + Duration::from_secs(1);
        assert!(
            Arc::ptr_eq(&old, &config(minute(1))),
            "one file is not enough"
        );
        std::fs::write(&key, second.signing_key.serialize_pem()).unwrap();
        assert!(Arc::ptr_eq(&old, &config(minute(1))), "not looked at again");
        assert!(!Arc::ptr_eq(&old, &config(minute(2))));
    }
}
