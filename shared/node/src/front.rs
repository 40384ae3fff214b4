//! The front of a stage: its health and metrics, from before it is connected until it has ended.
//!
//! In: what its process says of itself, and [`Vitals`] that its loop renews. Out: `/healthz`,
//! `/readyz` and `/metrics` on `stages.<stage>.listen`; a stage that the configuration does not
//! name has them on a free port of the loopback interface.

use super::context::Stage;
use super::metrics::{LATENCIES, METRICS, SPENT, STEPS, WAYS};
use crate::health::{Health, Pages, Readiness};
use rhumb_bus::Bus;
use rhumb_config::Pipeline;
use rhumb_stage::TimeSpent;
use rhumb_stage::settlement::Took;
use rhumb_stage::{Count, LabelledCount};
use rhumb_telemetry::metrics::{Exposition, Histogram, Row, Source, tell_process};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a loop tells of itself, beside its health.
#[derive(Clone, Debug, Default)]
pub(super) struct Vitals {
    /// Numbers of the core and of the loop.
    pub(super) counts: Vec<Count>,
    /// Numbers of the core by topic.
    pub(super) labelled_counts: Vec<LabelledCount>,
    /// What the time of the process was spent on.
    pub(super) spent: TimeSpent,
    /// How long the turns of the loop were.
    pub(super) steps: Histogram,
    /// How long inputs took until they were settled, by edge.
    pub(super) latencies: Vec<Took>,
    /// How long what the core waits for took.
    pub(super) histograms: Vec<(&'static str, Histogram)>,
}

/// Health and metrics of a stage.
pub(super) struct Front {
    pub(super) health: Health,
    vitals: Arc<Mutex<Vitals>>,
}

impl Front {
    /// Begins to serve.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(super) fn open(stage: &Stage, pipeline: &Pipeline) -> anyhow::Result<Self> {
        let rows = stage.metrics;
        let stage = stage.name;
        let common = pipeline
            .stages
            .common()
            .into_iter()
            .find(|(name, _)| *name == stage);
        let listen = common.map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |(_, common)| {
            common.listen
        });
        let vitals = Arc::<Mutex<Vitals>>::default();
        let shown = vitals.clone();
        let prefix = format!("rhumb_{}", stage.replace('-', "_"));
        let pages = |readiness| {
            Pages::default().metrics(StageMetrics {
                prefix,
                rows,
                vitals: shown,
                readiness,
            })
        };
        let health = Health::begin(listen, pages).map_err(|error| {
            anyhow::anyhow!("cannot listen on stages.{stage}.listen = {listen}: {error}")
        })?;
        Ok(Front { health, vitals })
    }

    /// The process has a connection to the broker.
    pub(super) fn connected(&self, bus: &Bus) {
        let bus = bus.clone();
        self.health.connected(move || bus.is_connected());
    }

    /// Renews what metrics show.
    pub(super) fn renew(&self, vitals: Vitals) {
        *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }
}

/// The metrics of a stage.
struct StageMetrics {
    prefix: String,
    rows: &'static [Row],
    vitals: Arc<Mutex<Vitals>>,
    readiness: Readiness,
}

impl Source for StageMetrics {
    fn tell(&self, to: &mut Exposition) {
        let StageMetrics {
            prefix,
            rows,
            vitals,
            readiness,
        } = self;
        let vitals = vitals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        tell_process(prefix, readiness.now().is_ok(), to);
        // Before the first turn of the loop there is nothing to tell of it.
        if vitals.counts.is_empty() {
            return;
        }
        tell_spent(prefix, &vitals.spent, to);
        to.family(prefix, &STEPS).histogram(&[], &vitals.steps);
        for (row, of) in [
            (&LATENCIES, (|took| &took.here) as fn(&Took) -> &Histogram),
            (&WAYS, |took| &took.so_far),
        ] {
            let mut family = to.family(prefix, row);
            vitals
                .latencies
                .iter()
                .for_each(|took| family.histogram(&[("edge", took.edge.name())], of(took)));
        }
        for row in METRICS.iter().chain(*rows) {
            let mut family = to.family(prefix, row);
            let counts = vitals.counts.iter().filter(|(name, _)| *name == row.name);
            counts.for_each(|(_, value)| family.value(&[], value));
            let labelled = vitals.labelled_counts.iter();
            for one in labelled.filter(|one| one.count == row.name) {
                family.value(&[(one.label, &one.label_value)], one.value);
            }
            let histograms = vitals
                .histograms
                .iter()
                .filter(|(name, _)| *name == row.name);
            histograms.for_each(|(_, histogram)| family.histogram(&[], histogram));
        }
    }
}

fn tell_spent(prefix: &str, spent: &TimeSpent, to: &mut Exposition) {
    let seconds = |time: &Duration| time.as_secs_f64();
    let mut family = to.family(prefix, &SPENT);
    family.value(&[("state", "busy")], seconds(&spent.busy));
    family.value(&[("state", "waiting")], seconds(&spent.waiting));
    for (edge, time) in &spent.held_back {
        family.value(&[("state", "held_back"), ("edge", edge)], seconds(time));
    }
}
