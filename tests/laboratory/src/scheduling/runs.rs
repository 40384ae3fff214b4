//! Runs: which crawls are made, on which webs.
//!
//! Only quality and capacity look at what pages are worth, so one crawl of another policy serves
//! for all kinds of quality. The whole time of a run is what breadth-first takes for the same web
//! in the same way.

use super::crawl::{Fetched, crawl};
use super::curves::Curves;
use super::policy::Policy;
use super::quality::Model;
use super::setup::{Seeds, Setup};
use super::web::{Shape, Web};
use std::rc::Rc;

/// Connections of the paper's comparison of policies.
pub(super) const CONNECTIONS: usize = 64;
/// Connections so few that there are always more servers with pages to fetch.
pub(super) const CONNECTIONS_FEW: usize = 16;
/// Connections for which throughput is measured on the whole web, and on fast servers.
pub(super) const SWEEP: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 96, 128];
pub(super) const FAST_SWEEP: [usize; 11] = [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20];
/// The part of the sweep that a claim is about.
const SWEPT_FOR_CLAIM: [usize; 3] = [64, 96, 128];
/// Schedulers among which the servers are shared out.
pub(super) const SCHEDULERS: [u16; 4] = [1, 2, 4, 8];

/// Connections that keep the CPU busy all the time where pages cost CPU time.
const BUSY: usize = 96;

/// All crawls made so far.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) curves: Vec<Curves>,
}

impl Runs {
    /// The run of that setup on that web.
    pub(super) fn get(&self, shape: Shape, setup: Setup, model: Model) -> Option<&Curves> {
        self.curves
            .iter()
            .find(|run| (run.shape, run.setup, run.model) == (shape, setup, model))
    }

    /// Pages a second of a run, whatever its pages are worth.
    pub(super) fn throughput(&self, shape: Shape, setup: Setup) -> Option<f64> {
        self.get(shape, setup, Model::PageRank)
            .map(Curves::throughput)
    }

    /// The runs of all policies and kinds of quality on that web.
    pub(super) fn comparison(&self, shape: Shape, setup: Setup) -> Vec<&Curves> {
        comparison(setup)
            .into_iter()
            .filter_map(|(setup, model)| self.get(shape, setup, model))
            .collect()
    }

    /// Crawls a web in all ways that claims are about.
    pub(super) fn measure_claims(
        &mut self,
        shape: Shape,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let one_by_one = Setup {
            keep_alive: false,
            ..breadth_first(CONNECTIONS)
        };
        let mut plan = comparison(breadth_first(CONNECTIONS));
        plan.extend([one_by_one, breadth_first(BUSY)].map(|setup| (setup, Model::PageRank)));
        self.measure(shape, &plan, progress)?;
        let cpu = self.page_cpu_us(shape).unwrap_or_default();
        let plan = SWEPT_FOR_CLAIM.map(|connections| (with_cpu(connections, cpu), Model::PageRank));
        self.measure(shape, &plan, progress)?;
        let plan = FAST_SWEEP.map(|connections| (with_cpu(connections, cpu), Model::PageRank));
        self.measure(shape.of_fast_servers(), &plan, progress)
    }

    /// Crawls a web in all ways that only tables are about.
    pub(super) fn measure_tables(
        &mut self,
        shape: Shape,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let cpu = self.page_cpu_us(shape).unwrap_or_default();
        let mut plan = Vec::new();
        for connections in SWEEP {
            plan.extend(
                [breadth_first(connections), with_cpu(connections, cpu)]
                    .map(|setup| (setup, Model::PageRank)),
            );
        }
        for connections in [CONNECTIONS, CONNECTIONS_FEW] {
            for schedulers in SCHEDULERS {
                let capacity = Setup {
                    policy: Policy::Capacity,
                    schedulers,
                    ..breadth_first(connections)
                };
                plan.extend(Model::ALL.map(|model| (capacity, model)));
            }
        }
        self.measure(shape, &plan, progress)
    }

    /// Time of a page on the CPU, in microseconds. The paper does not say it. It says when its CPU
    /// is busy: with 96 connections to the whole web. So the CPU is taken to manage as many pages a
    /// second as these bring where pages cost nothing.
    pub(super) fn page_cpu_us(&self, shape: Shape) -> Option<u64> {
        let busy = self.get(shape, breadth_first(BUSY), Model::PageRank)?;
        Some((1e6 / busy.throughput()).round() as u64)
    }

    /// Crawls a web by all policies, for all kinds of quality.
    pub(super) fn compare(
        &mut self,
        shape: Shape,
        setup: Setup,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        self.measure(shape, &comparison(setup), progress)
    }

    /// Crawls a web in all ways by which a search judges its conditions: as [`Runs::compare`] does
    /// but for capacity by depth, and with one request per connection.
    pub(super) fn measure_condition(&mut self, shape: Shape, setup: Setup) -> anyhow::Result<()> {
        let mut plan = comparison(setup);
        plan.retain(|(setup, _)| setup.policy != Policy::CapacityByDepth);
        plan.push((
            Setup {
                keep_alive: false,
                ..setup
            },
            Model::PageRank,
        ));
        self.measure(shape, &plan, &mut |_| ())
    }

    fn measure(
        &mut self,
        shape: Shape,
        plan: &[(Setup, Model)],
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let web = Web::generate(shape);
        let qualities = Model::ALL.map(|model| (model, model.qualities(&web, shape)));
        for &(setup, model) in plan {
            if self.get(shape, setup, model).is_some() {
                continue;
            }
            let Some((_, qualities)) = qualities.iter().find(|(known, _)| *known == model) else {
                continue;
            };
            let fetched = match self.same_crawl(shape, setup) {
                Some(fetched) => fetched,
                None => crawl(&web, qualities, setup)?.into(),
            };
            let breadth_first = Setup {
                policy: Policy::BreadthFirst,
                schedulers: 1,
                ..setup
            };
            let whole = self.get(shape, breadth_first, model).map(Curves::seconds);
            let curves = Curves::new((shape, setup, model), fetched, qualities, whole);
            progress(&format!(
                "{}: {:.0} s for {} pages",
                title(&curves),
                curves.seconds(),
                curves.fetched.len()
            ));
            self.curves.push(curves);
        }
        Ok(())
    }

    /// A crawl that this one would repeat, because it does not look at what pages are worth.
    fn same_crawl(&self, shape: Shape, setup: Setup) -> Option<Rc<[Fetched]>> {
        if setup.policy.by_quality() {
            return None;
        }
        self.curves
            .iter()
            .find(|run| (run.shape, run.setup) == (shape, setup))
            .map(|run| Rc::clone(&run.fetched))
    }
}

/// Breadth-first from the first page, with one scheduler, servers that keep connections alive, and
/// a CPU that is never short.
pub(super) fn breadth_first(connections: usize) -> Setup {
    Setup {
        policy: Policy::BreadthFirst,
        connections,
        schedulers: 1,
        keep_alive: true,
        seeds: Seeds::FirstPage,
        pages_max: usize::MAX,
        page_cpu_us: 0,
    }
}

/// The same, where pages cost time on the CPU.
pub(super) fn with_cpu(connections: usize, page_cpu_us: u64) -> Setup {
    Setup {
        page_cpu_us,
        ..breadth_first(connections)
    }
}

/// All policies and kinds of quality. Breadth-first comes before the others, because it gives their
/// whole time.
fn comparison(setup: Setup) -> Vec<(Setup, Model)> {
    let of = |model| Policy::ALL.map(|policy| (Setup { policy, ..setup }, model));
    Model::ALL.into_iter().flat_map(of).collect()
}

/// Which run it is.
fn title(run: &Curves) -> String {
    format!(
        "{}: {}, {}, {}",
        run.shape, run.setup.policy, run.model, run.setup
    )
}
