//! Load: how fast the web serves. Clients that do nothing with what they get measure it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::SyntheticWeb;
use super::client::Client;
use super::resource::Resource;

/// What was served in how long.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Pages served.
    pub pages: u64,
    /// Body bytes of them.
    pub bytes: u64,
    /// Wall time in seconds, clients included.
    pub wall_s: f64,
    /// CPU time of the serving thread in seconds.
    pub server_cpu_s: f64,
    /// Pages per second of wall time.
    pub pages_per_s: f64,
    /// Pages per second of CPU time of the serving thread: what one core serves.
    pub pages_per_core_s: f64,
    /// Mean body size.
    pub page_bytes_mean: f64,
}

/// Fetches pages over `connections` keep-alive connections, all from this thread, for about
/// `duration`.
///
/// # Errors
/// If a page cannot be fetched or the system does not tell CPU times.
pub async fn measure(web: &SyntheticWeb, connections: u32, duration: Duration) -> Result<Load> {
    let cpu_before = web
        .cpu_time()
        .context("the system does not tell the CPU time of a thread")?;
    let begin = Instant::now();
    let end = begin + duration;
    let clients = (0..connections).map(|number| fetch_until(web, number, end));
    let counts = futures::future::try_join_all(clients).await?;
    let wall_s = begin.elapsed().as_secs_f64();
    let cpu_after = web
        .cpu_time()
        .context("the system does not tell the CPU time of a thread")?;
    let server_cpu_s = cpu_after.saturating_sub(cpu_before).as_secs_f64();
    let pages: u64 = counts.iter().map(|(pages, _)| pages).sum();
    let bytes: u64 = counts.iter().map(|(_, bytes)| bytes).sum();
    Ok(Load {
        pages,
        bytes,
        wall_s,
        server_cpu_s,
        pages_per_s: pages as f64 / wall_s,
        pages_per_core_s: pages as f64 / server_cpu_s,
        page_bytes_mean: bytes as f64 / pages as f64,
    })
}

/// Fetches the pages of one host in turn; returns their number and bytes.
async fn fetch_until(web: &SyntheticWeb, number: u32, end: Instant) -> Result<(u64, u64)> {
    let plan = &web.web.plan;
    let host = number % plan.profile.hosts;
    let address: SocketAddr = web.host_address(host);
    let mut client = Client::connect(address, &plan.authority(host)).await?;
    let mut pages = 0;
    let mut bytes = 0;
    let mut path = String::new();
    while Instant::now() < end {
        path.clear();
        let page = (number + pages as u32) % plan.site(host).pages;
        Resource::Page(page).write_path(plan, host, "&", &mut path);
        let response = client.get(&path).await?;
        ensure!(response.status < 400, "{path} answered {}", response.status);
        pages += 1;
        bytes += response.body.len() as u64;
        if response.closes() {
            drop(client);
            client = Client::connect(address, &plan.authority(host)).await?;
        }
    }
    Ok((pages, bytes))
}
