//! Metrics and health: one home for all stages.
//!
//! Metrics are the counts of the core and of the loop, and the time that the loop spent; no URL or host is ever a label.

use crate::stage::TimeSpent;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// What a process tells of itself; the loop renews it, health and metrics read it.
#[derive(Clone, Debug, Default)]
pub struct Vitals {
    /// Numbers of the core and of the loop.
    pub counts: Vec<(&'static str, u64)>,
    /// What the time of the process was spent on.
    pub spent: TimeSpent,
    /// Connected, owner of its partitions, and what it publishes arrives.
    pub ready: bool,
    /// Why it is not.
    pub reason: String,
}

/// Vitals shared between the loop and the server of health and metrics.
pub type SharedVitals = Arc<Mutex<Vitals>>;

#[derive(Debug)]
struct Counts(SharedVitals);

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let vitals = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        encode_time_spent(&mut encoder, &vitals.spent)?;
        for (name, value) in vitals.counts {
            if let Some(name) = name.strip_suffix("_total") {
                let counter = ConstCounter::new(value);
                let metric = encoder.encode_descriptor(
                    name,
                    "Total since the stage's state began.",
                    None,
                    counter.metric_type(),
                )?;
                counter.encode(metric)?;
            } else {
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                let metric = encoder.encode_descriptor(name, "Level right now.", None, gauge.metric_type())?;
                gauge.encode(metric)?;
            }
        }
        Ok(())
    }
}

fn encode_time_spent(encoder: &mut DescriptorEncoder<'_>, spent: &TimeSpent) -> Result<(), std::fmt::Error> {
    let help = "Time of this process, by what it was spent on; held_back by the edge that did.";
    let mut metric = encoder.encode_descriptor("loop_seconds", help, None, MetricType::Counter)?;
    let counter = |time: &Duration| ConstCounter::new(time.as_secs_f64());
    for (state, time) in [("busy", &spent.busy), ("waiting", &spent.waiting)] {
        counter(time).encode(metric.encode_family(&[("state", state)])?)?;
    }
    for (edge, time) in &spent.held_back {
        counter(time).encode(metric.encode_family(&[("state", "held_back"), ("edge", edge.as_str())])?)?;
    }
    Ok(())
}

/// Serves `/healthz`, `/readyz` and `/metrics` until the runtime ends; gives the address listened on.
pub async fn serve(listen: SocketAddr, stage: &str, vitals: SharedVitals) -> std::io::Result<SocketAddr> {
    let mut registry = Registry::with_prefix(format!("rhumb_{}", stage.replace('-', "_")));
    registry.register_collector(Box::new(Counts(vitals.clone())));
    let registry = Arc::new(registry);
    let router = Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(move || ready(vitals.clone())))
        .route("/metrics", get(move || metrics(registry.clone())));
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn ready(vitals: SharedVitals) -> (StatusCode, String) {
    let vitals = vitals.lock().unwrap_or_else(PoisonError::into_inner);
    if vitals.ready {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", vitals.reason))
    }
}

async fn metrics(registry: Arc<Registry>) -> (StatusCode, String) {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => (StatusCode::OK, text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
    }
}
