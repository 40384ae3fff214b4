//! Tests of a web whose pages change, over HTTP/2 and TLS.

use super::*;
use ::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use h2::client::SendRequest;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection to the first host.
async fn connect(web: &SyntheticWeb) -> SendRequest<Bytes> {
    let pem = web.root_certificate().unwrap();
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(web.host_address(0)).await.unwrap();
    let name = ServerName::try_from(web.host_name(0)).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        // It ends with the web.
        let _ = connection.await;
    });
    sender
}

async fn get(
    web: &SyntheticWeb,
    sender: SendRequest<Bytes>,
    if_none_match: &str,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let request = Request::get(web.seed_urls()[0].as_str())
        .header("if-none-match", if_none_match)
        .body(())
        .unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    (head.status, head.headers, bytes)
}

#[tokio::test]
async fn validators_of_a_page_that_changes_hold_over_http2_too() {
    let web = SyntheticWeb::start(Profile {
        hosts: 1,
        secure: Some(SecureShares {
            http2: 1.0,
            rsa: 0.0,
        }),
        change: Some(Change {
            sigma: 0.0,
            never: 0.0,
            ..Change::new(Duration::from_millis(300))
        }),
        request_caps: Vec::new(),
        ..small()
    })
    .unwrap();
    let sender = connect(&web).await;
    let mut tag = "\"none\"".to_owned();
    let mut pages = BTreeMap::new();
    let mut unchanged = 0;
    for _ in 0..30 {
        let (status, fields, body) = get(&web, sender.clone(), &tag).await;
        let now = fields["etag"].to_str().unwrap();
        assert_eq!(status == StatusCode::NOT_MODIFIED, now == tag);
        assert!(fields.contains_key("last-modified"));
        if status == StatusCode::OK {
            tag = now.to_owned();
            pages.insert(tag.clone(), body);
        } else {
            assert!(body.is_empty() && !fields.contains_key("content-type"));
            unchanged += 1;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert!(pages.len() > 1 && unchanged > 0, "{:?}", pages.keys());
    let bodies: BTreeSet<&Vec<u8>> = pages.values().collect();
    assert_eq!(bodies.len(), pages.len());
    let freshness = web.freshness(Duration::ZERO, web.began().elapsed());
    assert_eq!(freshness.unwrap().visits, 29);
}
