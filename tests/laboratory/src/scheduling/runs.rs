//! Runs: which crawls are made, on which webs.
//!
//! Breadth-first and performance do not look at what pages are worth: one crawl serves for all kinds of quality. The
//! whole time of a run is what breadth-first takes for the same web with as many connections.

use super::crawl::{Fetched, Setup, crawl};
use super::curves::{Curves, POLICIES, name};
use super::quality::Model;
use super::web::{Shape, Web};
use shared::config::Policy;
use std::rc::Rc;

/// Connections of the paper's comparison of policies.
pub(super) const CONNECTIONS: usize = 64;
/// Connections for which throughput is measured.
pub(super) const SWEEP: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 96, 128];
/// So few that there are always more servers with pages to fetch.
pub(super) const CONNECTIONS_FEW: usize = 16;
/// Schedulers among which the servers are shared out.
pub(super) const SCHEDULERS: [u16; 4] = [1, 2, 4, 8];

/// All crawls made so far.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) curves: Vec<Curves>,
}

impl Runs {
    /// The run of that setup on that web.
    pub(super) fn get(&self, shape: Shape, setup: Setup, model: Model) -> Option<&Curves> {
        self.curves.iter().find(|run| (run.shape, run.setup, run.model) == (shape, setup, model))
    }

    /// The runs of all policies and kinds of quality on that web.
    pub(super) fn comparison(&self, shape: Shape, connections: usize) -> Vec<&Curves> {
        comparison(connections).into_iter().filter_map(|(setup, model)| self.get(shape, setup, model)).collect()
    }

    /// Crawls a web in all ways that a claim or a table is about.
    pub(super) fn measure_all(&mut self, shape: Shape, progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
        let mut plan = comparison(CONNECTIONS);
        plan.push((Setup { keep_alive: false, ..setup(Policy::BreadthFirst, CONNECTIONS) }, Model::PageRank));
        plan.extend(SWEEP.map(|connections| (setup(Policy::BreadthFirst, connections), Model::PageRank)));
        plan.extend(comparison(CONNECTIONS_FEW));
        for connections in [CONNECTIONS, CONNECTIONS_FEW] {
            for schedulers in SCHEDULERS {
                let capacity = Setup { schedulers, ..setup(Policy::Capacity, connections) };
                plan.extend(Model::ALL.map(|model| (capacity, model)));
            }
        }
        self.measure(shape, &plan, progress)
    }

    /// Crawls a web by all policies, for all kinds of quality.
    pub(super) fn compare(&mut self, shape: Shape, progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
        self.measure(shape, &comparison(CONNECTIONS), progress)
    }

    fn measure(&mut self, shape: Shape, plan: &[(Setup, Model)], progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
        let web = Web::generate(shape);
        let qualities = Model::ALL.map(|model| (model, model.qualities(&web, shape.seed)));
        for &(setup, model) in plan {
            if self.get(shape, setup, model).is_some() {
                continue;
            }
            let Some((_, qualities)) = qualities.iter().find(|(known, _)| *known == model) else { continue };
            let fetched = match self.same_crawl(shape, setup) {
                Some(fetched) => fetched,
                None => crawl(&web, qualities, setup)?.into(),
            };
            let breadth_first = Setup { policy: Policy::BreadthFirst, schedulers: 1, ..setup };
            let whole = self.get(shape, breadth_first, model).map(Curves::seconds);
            let curves = Curves::new((shape, setup, model), fetched, qualities, whole);
            progress(&format!("{}: {:.0} s for {} pages", title(&curves), curves.seconds(), curves.fetched.len()));
            self.curves.push(curves);
        }
        Ok(())
    }

    /// A crawl that this one repeats, whatever pages are worth.
    fn same_crawl(&self, shape: Shape, setup: Setup) -> Option<Rc<[Fetched]>> {
        if !matches!(setup.policy, Policy::BreadthFirst | Policy::Performance) {
            return None;
        }
        self.curves.iter().find(|run| (run.shape, run.setup) == (shape, setup)).map(|run| Rc::clone(&run.fetched))
    }
}

/// One scheduler, and servers that keep connections alive.
pub(super) fn setup(policy: Policy, connections: usize) -> Setup {
    Setup { policy, connections, schedulers: 1, keep_alive: true }
}

/// All policies and kinds of quality; breadth-first before the others, whose whole time it gives.
fn comparison(connections: usize) -> Vec<(Setup, Model)> {
    Model::ALL.into_iter().flat_map(|model| POLICIES.map(|policy| (setup(policy, connections), model))).collect()
}

/// Which run it is.
fn title(run: &Curves) -> String {
    let Curves { shape, setup, model, .. } = run;
    let schedulers = if setup.schedulers == 1 { String::new() } else { format!(", {} schedulers", setup.schedulers) };
    let keep_alive = if setup.keep_alive { "" } else { ", one request per connection" };
    format!("{shape}: {}, {model}, {} connections{schedulers}{keep_alive}", name(setup.policy), setup.connections)
}
