//! Doors: the points of a URL's way at which features are asked, and in which order.
//!
//! The way itself (`dispatcher`, `intake`, `placement`, `grants`, `reports`) knows these points and
//! no feature; a feature does not know the way. Whoever adds a feature adds a column here, and a
//! line in each function whose point it needs. A number says when a feature is asked among those of
//! its point:
//!
//! ```text
//! point     when                                drops traps lifts yields topics budgets circles visits
//! ordered   operators give other orders           2     1     .     .      .       .       .       .
//! restored  a job of an earlier life is out       .     .     .     1      2       .       3       .
//! admitted  a URL is new                          1     .     .     .      .       .       .       .
//! queued    it is about to get a slot             .     1     .     .      2       .       .       .
//! waits     it has a slot                         .     .     1     .      .       .       .       .
//! tended    visits ended: which are next?         1     .     .     .      .       .       .       2
//! settling  servers are about to find places      .     .     .     .      1       2       .       .
//! placed    a server has its place                .     .     .     1      .       2       .       .
//! settled   all servers have their places         .     .     .     .      .       .       1       .
//! asked     a fetcher may have a job: of whom?    .     .     .     .      2       1       .       .
//! crowded   no fetcher may have one               .     .     .     1      .       .       .       .
//! taken     URLs are about to go into a job       .     1     .     .      .       .       .       .
//! granted   the job goes out                      .     .     .     1      2       .       3       .
//! answered  a request of a job has ended          .     .     .     .      1       .       .       .
//! ended     a report ends a URL of a job          .     1     .     .      3       2       .       .
//! spared    a report gives URLs back untried      .     .     .     .      1       .       .       .
//! renewed   a job has reported: may it go on?     .     .     .     .      .       .       1       .
//! closed    a job is over                         .     .     .     1      2       .       3       .
//! idle      what takes many steps may go on       1     2     .     .      .       .       .       .
//! saved     the step is over                      .     .     .     .      2       1       .       3
//! wakes     when must the next step be?           .     .     .     .      1       2       3       4
//! ```
//!
//! Drops, traps, lifts and yields are rooms of the core. Topics are turns and rates of the ready
//! queue. Budgets are the shares of pages. Circles limit jobs, of an address or of a group. Visits are
//! those of known pages ([`recrawl`](crate::core::recrawl)). What is
//! sent to one feature alone goes to it directly: boosts, signals, answers of ledgers, and the
//! questions of operators.

use crate::budget::shares::Pages;
use crate::core::drops::Drops;
use crate::core::lifts::{self, Lifts};
use crate::core::places::Places;
use crate::core::recrawl::Recrawl;
use crate::core::traps::Traps;
use crate::core::work::{At, Work};
use crate::core::yields::Yields;
use crate::frontier::rows::FrontierUrl;
use crate::frontier::url_end::UrlEnd;
use crate::keys::budget::Budgets;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, topic_of};
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::servers::in_play::Servers;
use crate::servers::lease::Lease;
use crate::servers::server::Server;
use crate::settings::Settings;
use rhumb_config::orders::Orders;
use rhumb_stage::store::StoreError;
use rhumb_url::shape_hash;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Origin, Outcome};

/// The features that keep something of their own from step to step.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    /// What operators want to be rid of.
    pub(crate) drops: Drops,
    pub(crate) traps: Traps,
    pub(crate) lifts: Lifts,
    pub(crate) yields: Yields,
    pub(crate) recrawl: Recrawl,
}

/// The server that may have a job, and for what.
pub(crate) struct Candidate {
    pub(crate) key: ServerKey,
    pub(crate) topic: TopicIndex,
    /// What is left for its pages.
    pub(crate) budgets: Budgets,
    /// Pages that the job may have.
    pub(crate) pages: u64,
}

impl Doors {
    /// Operators have given other orders.
    pub(crate) fn ordered(&mut self, servers: &mut Servers, orders: &Orders, settings: &Settings) {
        self.traps.heed(servers, &orders.released, settings);
        self.drops.heed(orders);
    }

    /// A job of an earlier life is out.
    pub(crate) fn restored(
        &mut self,
        places: &mut Places,
        key: ServerKey,
        server: &Server,
        lease: &Lease,
        settings: &Settings,
    ) {
        self.yields.granted(key, lease, &settings.topics);
        places.take_turn(lease);
        for circle in server.circles_of(lease, settings).into_iter().flatten() {
            places.circles.restore(circle, settings);
        }
    }

    /// A URL is new. Gives how it ends, if it does so at once.
    pub(crate) fn admitted(&self, url: &str, origin: &Origin) -> Option<UrlEnd> {
        self.drops.end_of(url, origin)
    }

    /// A new URL of a topic is about to get a slot at its server. Gives the lane of that.
    pub(crate) fn queued(
        &mut self,
        at: &mut At<'_, '_>,
        topic: TopicNumber,
        url: &FrontierUrl,
    ) -> Lane {
        let settings = at.staged.settings;
        let lane = self.traps.lane(at.key, at.server, url, settings);
        at.partition.count_new(at.staged, at.key.partition, topic);
        lane
    }

    /// A new URL has a slot.
    pub(crate) fn waits(at: &mut At<'_, '_>, slot: u64, url: &FrontierUrl) {
        lifts::note(at.key, slot, url, at.staged);
    }

    /// Visits may have ended. Plans others, if any may be planned now.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn tended(&mut self, work: &mut Work<'_>, may_plan: bool) -> Result<(), StoreError> {
        let drops = &self.drops;
        self.recrawl.tend(work, drops, may_plan)
    }

    /// Servers are about to find places.
    pub(crate) fn settling(work: &mut Work<'_>) {
        work.places.queue.tend(work.staged.now);
        work.servers.look_after_topics(&mut work.staged);
        let budgets = work.servers.shares().of_topics();
        work.places.queue.limits.take_budgets(budgets);
    }

    /// A server has its place. `connections`: those of all servers.
    pub(crate) fn placed(&mut self, at: &mut At<'_, '_>, connections: u64) {
        self.yields.preempt_own(at, connections);
        let domain = Pages::Domain(at.server.domain);
        at.shares.want(at.staged.now, domain);
    }

    /// All servers have their places. Returns whether some are to be found others.
    pub(crate) fn settled(work: &mut Work<'_>) -> bool {
        work.places.tend_circles(&mut work.staged)
    }

    /// A fetcher may have a job. Gives the server whose job it is to be, if there is one.
    /// `connections`: of all fetchers, free ones too. `troubled_too`: it may be one in trouble.
    pub(crate) fn asked(
        work: &mut Work<'_>,
        connections: u64,
        troubled_too: bool,
    ) -> Option<Candidate> {
        let now = work.staged.now;
        let left = work.servers.shares().budget(Pages::Crawl).left();
        let next = match left {
            0 => next_with_errands(work, troubled_too),
            _ => work.places.queue.next(now, connections, troubled_too),
        };
        if next.is_none() && left == 0 && work.places.queue.ready() > 0 {
            work.servers.shares_mut().want(now, Pages::Crawl);
        }
        let (key, topic) = next?;
        let of_topic = work.places.queue.limits.pages_max(topic) as u64;
        let budgets = work.servers.budgets(key);
        Some(Candidate {
            key,
            topic,
            budgets,
            pages: left.min(of_topic).min(budgets.left()),
        })
    }

    /// No fetcher may have a job, though servers may be waiting for one.
    pub(crate) fn crowded(&mut self, work: &mut Work<'_>) {
        self.yields.preempt(work);
    }

    /// URLs of a server are to go into a job. Gives those that do.
    pub(crate) fn taken(
        at: &mut At<'_, '_>,
        urls: Vec<(u64, FrontierUrl)>,
    ) -> Vec<(u64, FrontierUrl)> {
        at.server.sort_out(at.key, urls, at.staged)
    }

    /// A job goes out.
    pub(crate) fn granted(&mut self, work: &mut Work<'_>, key: ServerKey, lease: &mut Lease) {
        let Work {
            servers,
            places,
            staged,
            ..
        } = work;
        self.yields.granted(key, lease, &staged.settings.topics);
        places.take_turn(lease);
        places.take_rate(lease, staged);
        let circles = servers.circles_of(key, lease);
        for circle in circles.into_iter().flatten() {
            places.circles.connect(circle, staged.settings);
        }
    }

    /// A request of a job has ended, and brought so many bytes.
    pub(crate) fn answered(at: &mut At<'_, '_>, lease: &Lease, bytes: u64) {
        let limits = &mut at.places.queue.limits;
        limits.brought(lease.topic, at.staged.now, bytes, lease.page_bytes);
    }

    /// A report ends a URL of a job.
    pub(crate) fn ended(
        at: &mut At<'_, '_>,
        lease: &Lease,
        (slot, url): (u64, &str),
        outcome: Outcome,
    ) {
        if outcome != Outcome::Fetched {
            return;
        }
        at.server.shapes.fetched(|| shape_hash(url));
        let topic = at.partition.topics.index_of(topic_of(slot));
        at.shares.fetched(at.staged, at.server.domain, topic);
        at.places.queue.turns.fetched(lease.topic);
    }

    /// A report gives so many URLs of a job back untried. Those that are left when a job is over come
    /// back with [`closed`](Self::closed).
    pub(crate) fn spared(at: &mut At<'_, '_>, lease: &Lease, urls: usize) {
        at.places.give_rate_back(lease, urls, at.staged.now);
    }

    /// A job has reported, and is not over. Returns whether it may be renewed: not before the ledgers
    /// of its circles know of it, since others may not leave it room. Its next report asks again.
    pub(crate) fn renewed(work: &Work<'_>, key: ServerKey, lease: &Lease) -> bool {
        let circles = work.servers.circles_of(key, lease);
        let mut circles = circles.into_iter().flatten();
        circles.all(|circle| work.places.circles.are_entered(circle, work.staged.now))
    }

    /// A job is over: its connection is closed.
    pub(crate) fn closed(&mut self, work: &mut Work<'_>, key: ServerKey, lease: &Lease) {
        let Work {
            servers,
            places,
            staged,
            ..
        } = work;
        self.yields.closed(key, lease, &staged.settings.topics);
        places.end_turn(lease, staged);
        places.leave_circles(servers.circles_of(key, lease), staged);
    }

    /// What takes many steps may go on: at once in a step that has nothing else to do. Returns
    /// whether there is more to do.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn idle(&mut self, work: &mut Work<'_>, is_free: bool) -> Result<bool, StoreError> {
        let drops_go_on = self.drops.look(work, is_free)?;
        let traps_go_on = self.traps.free(work, &self.drops, is_free)?;
        Ok(drops_go_on || traps_go_on)
    }

    /// The step is over: what changed becomes rows and claims.
    pub(crate) fn saved(&mut self, work: &mut Work<'_>) {
        let staged = &mut work.staged;
        work.servers.take_topic_urls(staged);
        work.servers.shares_mut().ask(staged);
        work.places.save(staged);
        self.recrawl.enter_stakes(work);
    }

    /// When there has to be a step, at the latest.
    pub(crate) fn wakes(
        &self,
        settings: &Settings,
        servers: &Servers,
        places: &Places,
    ) -> Option<Timestamp> {
        let dues = [
            places.queue.unlimited_at(),
            servers.shares().requests.look_at(),
            places.circles.requests.look_at(),
            self.recrawl.wakes(settings),
        ];
        dues.into_iter().flatten().min()
    }
}

/// The server that has errands and goes first: these need no budget, and stand for the first
/// preparation.
fn next_with_errands(work: &Work<'_>, troubled_too: bool) -> Option<(ServerKey, TopicIndex)> {
    let preparation = work.staged.settings.topics.first_preparation();
    let has_errands = |key| {
        work.servers
            .get(key)
            .is_some_and(|server| !server.errands.is_empty())
    };
    work.places
        .queue
        .first_of(preparation, troubled_too)
        .filter(|(key, _)| has_errands(*key))
}

#[cfg(test)]
mod tests {
    //! The table is true.

    const SOURCE: &str = include_str!("doors.rs");
    /// How the code calls each feature, in the order of the columns.
    const FEATURES: [&[&str]; 8] = [
        &["self.drops"],
        &["self.traps.", ".sort_out(", ".shapes."],
        &["lifts::"],
        &["self.yields."],
        &[
            ".count_new(",
            ".queue.tend(",
            ".queue.next(",
            ".take_turn(",
            ".end_turn(",
            ".give_rate_back(",
            ".brought(",
            ".turns.",
            "places.save(",
            ".unlimited_at(",
        ],
        &["shares", ".take_topic_urls(", ".look_after_topics("],
        &["circles"],
        &["self.recrawl."],
    ];

    /// The features that a point asks, by the table.
    fn by_table(row: &str) -> (&str, Vec<usize>) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let columns = &words[words.len() - FEATURES.len()..];
        let mut asked: Vec<(&str, usize)> = columns.iter().copied().zip(0..).collect();
        asked.retain(|(number, _)| *number != ".");
        asked.sort_unstable();
        let asked = asked.into_iter().map(|(_, feature)| feature);
        (words[0], asked.collect())
    }

    /// The features that a point asks, by its function.
    fn by_code(point: &str) -> Vec<usize> {
        let begin = SOURCE.find(&format!("    pub(crate) fn {point}("));
        let text = &SOURCE[begin.expect("a function")..];
        let body =
            &text[text.find(" {\n").expect("a body")..text.find("\n    }\n").expect("an end")];
        let first = |calls: &[&str]| calls.iter().filter_map(|call| body.find(call)).min();
        let mut asked: Vec<(usize, usize)> = FEATURES
            .iter()
            .zip(0..)
            .filter_map(|(calls, feature)| Some((first(calls)?, feature)))
            .collect();
        asked.sort_unstable();
        asked.into_iter().map(|(_, feature)| feature).collect()
    }

    #[test]
    fn the_table_says_what_each_point_asks_and_in_which_order() {
        let rows = SOURCE
            .lines()
            .skip_while(|line| !line.starts_with("//! point "))
            .skip(1)
            .map_while(|line| line.strip_prefix("//! "))
            .take_while(|line| !line.starts_with("```"));
        let mut points = 0;
        for row in rows {
            let (point, asked) = by_table(row);
            assert_eq!(by_code(point), asked, "{point}");
            points += 1;
        }
        let (doors, _) = SOURCE
            .split_once("/// The server that has errands")
            .expect("code");
        let functions = doors.matches("    pub(crate) fn ").count();
        assert_eq!(points, functions, "each point has a row");
    }
}
