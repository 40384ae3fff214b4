//! Known URLs: the loop that the pipeline is compared with. It is given every URL, keeps nothing,
//! and does in one thread what cannot be left out: fetch each page over one kept connection a host,
//! and find its links.

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use parser::page::{Limits, Response, links};
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::SocketAddr;
use std::time::Duration;

/// What the loop did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetched {
    /// Pages.
    pub pages: u64,
    /// Links found on them.
    pub links: u64,
    /// Largest resident memory of the process, in bytes.
    pub peak_rss_bytes: u64,
}

/// What the link extraction can undo.
const ENCODINGS: &str = "gzip, deflate, br, zstd";
const LIMITS: Limits = Limits {
    decoded_bytes_max: 16 << 20,
    sitemap_bytes_max: 16 << 20,
    links_per_page_max: 5_000,
    links_per_sitemap_max: 5_000,
    url_bytes_max: 2_048,
};

/// Reads lines `HOST ADDRESS` and then URLs, and fetches them, hosts side by side.
///
/// # Errors
/// When a line makes no sense or a page cannot be fetched.
pub fn fetch_all(input: impl BufRead) -> anyhow::Result<Fetched> {
    let mut hosts: BTreeMap<String, (SocketAddr, Vec<String>)> = BTreeMap::new();
    for line in input.lines() {
        let line = line?;
        match line.split_once(' ') {
            Some((host, address)) => {
                hosts.insert(host.to_owned(), (address.parse()?, Vec::new()));
            }
            None => {
                let host = rhumb_url::host_of(&line);
                hosts
                    .get_mut(host)
                    .with_context(|| format!("no address for {line}"))?
                    .1
                    .push(line);
            }
        }
    }
    let mut tls = rhumb_bus::tls::client_config(false)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fetched = runtime.block_on(try_join_all(
        hosts
            .iter()
            .map(|(host, (address, urls))| fetch_host(&tls, host, *address, urls)),
    ))?;
    Ok(Fetched {
        pages: fetched.iter().map(|(pages, _)| pages).sum(),
        links: fetched.iter().map(|(_, links)| links).sum(),
        peak_rss_bytes: rhumb_telemetry::process::memory(std::process::id())
            .context("no memory in /proc")?
            .peak,
    })
}

/// Pages and links of one host.
async fn fetch_host(
    tls: &rustls::ClientConfig,
    host: &str,
    address: SocketAddr,
    urls: &[String],
) -> anyhow::Result<(u64, u64)> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls.clone())
        .default_headers(
            [(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS))]
                .into_iter()
                .collect(),
        )
        .redirect(reqwest::redirect::Policy::none())
        .resolve(host, address)
        .pool_max_idle_per_host(1)
        .timeout(Duration::from_secs(60))
        .build()?;
    let mut pages = 0;
    let mut found = 0;
    for url in urls {
        let response = client.get(url).send().await?;
        let status = response.status().as_u16();
        ensure!(status == 200, "{url} answered {status}");
        let headers = response.headers().clone();
        let headers: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let body = response.bytes().await?;
        let response = Response {
            url,
            status,
            headers: &headers,
            body: &body,
        };
        found += links(&response, &LIMITS, "rhumb").urls.len() as u64;
        pages += 1;
    }
    Ok((pages, found))
}
