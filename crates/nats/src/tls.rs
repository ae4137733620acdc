//! Selects the TLS provider, and reads the certificates before the first connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::rustls::crypto::CryptoProvider;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{ClientConfig, RootCertStore};

/// Returns the provider that the program has installed, or the provider of the `tls-ring` feature.
pub(crate) fn provider() -> Option<Arc<CryptoProvider>> {
    let installed = CryptoProvider::get_default().cloned();
    #[cfg(feature = "tls-ring")]
    let installed =
        installed.or_else(|| Some(Arc::new(async_nats::rustls::crypto::ring::default_provider())));
    installed
}

/// Reads the CA certificates, and the client's certificate and key.
///
/// # Errors
///
/// Returns an error if a file cannot be read or does not have the expected contents. The error
/// names the file.
pub(crate) fn config(
    provider: Arc<CryptoProvider>,
    ca: Option<&Path>,
    client: Option<&(PathBuf, PathBuf)>,
) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots(ca)?);
    let Some((certificate, key)) = client else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate)?;
    let wrong = |error: &dyn std::fmt::Display| format!("cannot read a key from {}: {error}", key.display());
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(&error))?;
    builder.with_client_auth_cert(chain, private).map_err(|error| {
        format!("the key in {} does not belong to {}: {error}", key.display(), certificate.display())
    })
}

/// Returns the CA certificates in a file, or the system's CA certificates.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        // Errors are ignored here, because the program may not need these certificates. If the
        // program does need them, the connection to a server fails and shows that the certificates
        // are missing.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("cannot use a certificate in {}: {error}", ca.display()))?;
    }
    Ok(roots)
}

/// Reads the certificates in a file, which must contain at least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot read certificates from {}: {error}", path.display());
    let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    if found.is_empty() { Err(failed(&"it contains none in PEM format")) } else { Ok(found) }
}
