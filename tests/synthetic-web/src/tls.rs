//! TLS: certificates for the names of the web, and what its connections are secured with.
//!
//! A crawler that is to verify them is given the root certificate. All of it is made anew in each
//! life of a web: it is not among the bytes that a profile determines.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use super::plan::Plan;

/// All names of the web.
const NAMES: &str = "*.web.test";
/// The certificate of hosts that sign it themselves: for another name.
const SELF_SIGNED: &[u8] = include_bytes!("../../../shared/bus/tests/certificate/certificate.der");
const SELF_SIGNED_KEY: &[u8] = include_bytes!("../../../shared/bus/tests/certificate/key.der");
/// A key of 2048 bits: nothing here makes one.
const RSA_KEY: &[u8] = include_bytes!("../certificate/rsa_key.der");

/// How a host secures its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// With a certificate for another name that is signed by itself, so a crawler has to take its
    /// identity on trust. It speaks HTTP/2 and nothing else.
    SelfSigned,
    /// With TLS 1.3 and a certificate for its name. An authority signed it, and the root signed the
    /// authority's.
    Trusted {
        /// Its key is one of RSA, not of ECDSA.
        has_rsa_key: bool,
        /// It speaks HTTP/2 beside HTTP/1.1.
        speaks_http2: bool,
    },
}

/// What all connections of a web are secured with.
#[derive(Debug)]
pub(crate) struct Tls {
    self_signed: Arc<ServerConfig>,
    trusted: Option<Trusted>,
}

#[derive(Debug)]
struct Trusted {
    root_pem: String,
    /// With a key of ECDSA and of RSA.
    configs: [Arc<ServerConfig>; 2],
    /// The same for hosts that speak HTTP/2, too.
    http2_configs: [Arc<ServerConfig>; 2],
}

impl Tls {
    pub(crate) fn new(plan: &Plan) -> Result<Self> {
        let key = PrivateKeyDer::try_from(SELF_SIGNED_KEY)
            .map_err(anyhow::Error::msg)
            .context("the key is none")?;
        let chain = vec![CertificateDer::from(SELF_SIGNED)];
        let self_signed = Arc::new(config(rustls::ALL_VERSIONS, chain, key, &[b"h2"])?);
        let trusted = plan.profile.secure.map(|_| Trusted::new()).transpose()?;
        Ok(Self {
            self_signed,
            trusted,
        })
    }

    /// The certificate that vouches for all others, in PEM; none where no host has one that is
    /// vouched for.
    pub(crate) fn root_certificate(&self) -> Option<&str> {
        self.trusted
            .as_ref()
            .map(|trusted| trusted.root_pem.as_str())
    }

    /// What takes the handshakes of such hosts.
    pub(crate) fn acceptor(&self, security: Security) -> Result<TlsAcceptor> {
        let config = match security {
            Security::SelfSigned => &self.self_signed,
            Security::Trusted {
                has_rsa_key,
                speaks_http2,
            } => {
                let trusted = self.trusted.as_ref().context("no certificates were made")?;
                let configs = if speaks_http2 {
                    &trusted.http2_configs
                } else {
                    &trusted.configs
                };
                &configs[usize::from(has_rsa_key)]
            }
        };
        Ok(TlsAcceptor::from(Arc::clone(config)))
    }
}

impl Trusted {
    fn new() -> Result<Self> {
        let root_key = KeyPair::generate()?;
        let authority_key = KeyPair::generate()?;
        let root = authority("Synthetic root")?;
        let root_pem = root.self_signed(&root_key)?.pem();
        let root = Issuer::new(root, root_key);
        let authority = authority("Synthetic authority")?;
        let authority_certificate = authority.signed_by(&authority_key, &root)?.der().clone();
        let authority = Issuer::new(authority, authority_key);

        let rsa_key = KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(RSA_KEY),
            &PKCS_RSA_SHA256,
        )?;
        let keys = [KeyPair::generate()?, rsa_key];
        let made = |key: &KeyPair, protocols: &[&[u8]]| {
            let certificate =
                CertificateParams::new([NAMES.to_owned()])?.signed_by(key, &authority)?;
            let chain = vec![certificate.der().clone(), authority_certificate.clone()];
            let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
            let mut config = config(&[&rustls::version::TLS13], chain, key, protocols)?;
            config.ticketer = rustls::crypto::ring::Ticketer::new()?;
            anyhow::Ok(Arc::new(config))
        };
        let (http1, http2): ([&[u8]; 1], [&[u8]; 2]) = ([b"http/1.1"], [b"h2", b"http/1.1"]);
        let configs = [made(&keys[0], &http1)?, made(&keys[1], &http1)?];
        let http2_configs = [made(&keys[0], &http2)?, made(&keys[1], &http2)?];
        Ok(Self {
            root_pem,
            configs,
            http2_configs,
        })
    }
}

/// What a certificate says that may sign others.
fn authority(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(params)
}

fn config(
    versions: &[&'static SupportedProtocolVersion],
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    protocols: &[&[u8]],
) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
