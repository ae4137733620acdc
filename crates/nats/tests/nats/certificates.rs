//! Creates a CA for the tests, and the certificates that the CA signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tempfile::TempDir;

/// The number of CAs created so far, which is used to give each CA a unique name.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A CA, with certificates for a server on this machine and for a client, stored in files.
pub(crate) struct Authority {
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = named(&format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed)), Vec::new());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let mut params = named(name, vec!["127.0.0.1".to_owned()]);
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    /// Returns the path of `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the lines of a server's configuration, with or without a request for a client
    /// certificate.
    pub(crate) fn settings(&self, asks_client: bool) -> String {
        let quoted = |path: &Path| serde_json::to_string(path).unwrap();
        let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| quoted(&self.file(name)));
        let verify = if asks_client { format!("ca_file: {ca}, verify: true") } else { String::new() };
        format!("tls {{ cert_file: {cert}, key_file: {key}, {verify} }}\n")
    }
}

fn named(name: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
