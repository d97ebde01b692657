//! A certificate authority and a server certificate for one server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The files of a server that speaks TLS.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The certificate that a client trusts.
    pub(crate) ca: PathBuf,
    /// The certificate of the server, for 127.0.0.1 and localhost.
    pub(crate) certificate: PathBuf,
    /// The server's key.
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Makes a new authority and a server certificate, and writes them into `folder`.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "storage test authority");
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;

        let mut server =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        server
            .distinguished_name
            .push(DnType::CommonName, "storage test server");
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            // Tests show it as a client's, too.
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let server_key = KeyPair::generate()?;
        let server_certificate =
            server.signed_by(&server_key, &Issuer::new(authority, authority_key))?;

        let files = Self {
            ca: folder.join("ca.pem"),
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
        };
        fs::write(&files.ca, authority_certificate.pem())?;
        fs::write(&files.certificate, server_certificate.pem())?;
        fs::write(&files.key, server_key.serialize_pem())?;
        Ok(files)
    }
}
