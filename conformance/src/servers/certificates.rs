//! Certificates for servers on 127.0.0.1.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate for 127.0.0.1, and its key.
pub struct Certificate {
    pub pem: String,
    pub key_pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    pub fn issue(&self) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let pem = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Certificate { pem, key_pem: key.serialize_pem() })
    }
}
