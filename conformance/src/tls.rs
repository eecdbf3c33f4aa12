//! TLS settings of both sides of the proxy.

use std::sync::Arc;

use anyhow::Result;
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::servers::{Authority, Certificate};

/// The first certificate of a PEM text, in binary form.
pub fn der(pem: &str) -> Result<Vec<u8>> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?.to_vec())
}

pub fn acceptor(certificate: &Certificate) -> Result<TlsAcceptor> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.pem.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes())?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub fn connector(authority: &Authority) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes())?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
