//! Watchers: each looks at one crawl, once a second, for all pages that show it.
//!
//! In: a crawl, found as other commands find it, again and again. Out: its views, and why there are none. Invariant: however many
//! pages are open, the crawl is looked at once; when none is, seldom.

use super::Shared;
use super::curves::Curves;
use super::door::Door;
use super::events::{Events, Named};
use super::refusal::Refusal;
use super::view::{Moment, View};
use crate::handle::{self, Running};
use crate::inspect::crawls;
use crate::inspect::look::look;
use crate::status::rates::Looks;
use axum::http::StatusCode;
use shared::config::Layers;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Between two looks while a page is open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And while none is: the curves go on.
const LOOK_SELDOM: Duration = Duration::from_secs(10);
/// How often it is looked whether a page is open.
const PAGES_EVERY: Duration = Duration::from_millis(50);
/// How long a look may take.
const LOOK_AT_MOST: Duration = Duration::from_secs(5);
/// After so many looks in vain a crawl counts as gone.
const IN_VAIN: u32 = 2;
/// Between two tries to find a crawl.
const FIND_EVERY: Duration = Duration::from_secs(1);

/// The crawls that pages show, by name; under the empty name the one that was configured.
pub(super) struct Watchers {
    layers: Layers,
    may_act: bool,
    by_crawl: Mutex<BTreeMap<String, Arc<Watcher>>>,
}

impl Watchers {
    pub(super) fn new(layers: Layers, door: &Door) -> Self {
        Watchers { layers, may_act: door.may_act, by_crawl: Mutex::default() }
    }

    /// The watcher of a crawl.
    ///
    /// # Errors
    /// There are several at the broker, and none was named: their names.
    pub(super) async fn get(&self, crawl: Option<&str>) -> Result<Arc<Watcher>, Vec<String>> {
        let name = crawl.unwrap_or_default();
        if let Some(known) = self.known(name) {
            return Ok(known);
        }
        let there = crawls::at_broker(&self.layers).await;
        let is_there = there.iter().any(|known| known == name);
        if !is_there && (there.len() > 1 || !name.is_empty() && !there.is_empty()) {
            return Err(there);
        }
        let mut layers = self.layers.clone();
        if is_there {
            layers.set.push(handle::assignment("crawl", name));
        }
        let mut by_crawl = self.by_crawl.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if is_there { name } else { "" };
        let watcher = by_crawl.entry(name.to_owned()).or_insert_with(|| Watcher::begin(layers, self.may_act));
        Ok(watcher.clone())
    }

    /// The arguments by which another command of this program finds the same crawl.
    pub(super) fn arguments(&self, crawl: Option<&str>) -> Vec<String> {
        let file = self.layers.file.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        let crawl = crawl.filter(|crawl| self.known(crawl).is_some()).map(|crawl| handle::assignment("crawl", crawl));
        let set = self.layers.set.iter().cloned().chain(crawl);
        file.chain(set.flat_map(|set| ["--set".to_owned(), set])).collect()
    }

    fn known(&self, name: &str) -> Option<Arc<Watcher>> {
        self.by_crawl.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl Shared {
    /// The crawl that a page shows.
    ///
    /// # Errors
    /// It is not there now, or not named.
    pub(super) async fn running(&self, crawl: Option<&str>) -> Result<Arc<Running>, Refusal> {
        let not_named = |crawls: Vec<String>| Refusal::bad(format!("which crawl? There are {}", crawls.join(", ")));
        let watcher = self.watchers.get(crawl).await.map_err(not_named)?;
        let running = watcher.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the crawl is not there now"))
    }
}

impl Shared {
    /// Says whether the stages of the crawl that a page shows are deployed one by one.
    pub(super) async fn is_deployed(&self, crawl: Option<&str>) -> bool {
        self.watchers.get(crawl).await.is_ok_and(|watcher| watcher.is_deployed.load(Ordering::Relaxed))
    }
}

/// What was seen last.
#[derive(Clone, Debug)]
enum Seen {
    Nothing,
    View(Arc<str>),
    Gone(Arc<str>),
}

/// Looks at one crawl.
pub(super) struct Watcher {
    layers: Layers,
    may_act: bool,
    running: Mutex<Option<Arc<Running>>>,
    is_deployed: AtomicBool,
    curves: Mutex<Curves>,
    seen: watch::Sender<Seen>,
}

impl Watcher {
    fn begin(layers: Layers, may_act: bool) -> Arc<Self> {
        let (running, curves, seen) = (Mutex::default(), Mutex::default(), watch::Sender::new(Seen::Nothing));
        let is_deployed = AtomicBool::new(false);
        let watcher = Arc::new(Watcher { layers, may_act, running, is_deployed, curves, seen });
        tokio::spawn(watcher.clone().watch());
        watcher
    }

    /// What was remembered, and all looks from now on.
    pub(super) fn follow(&self) -> Events {
        let history = self.curves.lock().unwrap_or_else(PoisonError::into_inner).json();
        let mut seen = self.seen.subscribe();
        seen.mark_changed();
        let views = futures::stream::unfold(seen, |mut seen| async move {
            loop {
                seen.changed().await.ok()?;
                let named = match &*seen.borrow_and_update() {
                    Seen::Nothing => None,
                    Seen::View(view) => Some(("view", view.to_string())),
                    Seen::Gone(reason) => Some(("gone", reason.to_string())),
                };
                if let Some(named) = named {
                    return Some((named, seen));
                }
            }
        });
        let first: Named = ("history", history);
        Events::of(futures::StreamExt::chain(futures::stream::iter([first]), views))
    }

    async fn watch(self: Arc<Self>) {
        loop {
            let why = match handle::find(&self.layers).await {
                Ok(running) => self.look_while_there(Arc::new(running)).await,
                Err(error) => format!("{error:#}"),
            };
            *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.seen.send_replace(Seen::Gone(serde_json::json!({ "reason": why }).to_string().into()));
            tokio::time::sleep(FIND_EVERY).await;
        }
    }

    /// Looks at a crawl until it is gone. Says why that is so.
    async fn look_while_there(&self, running: Arc<Running>) -> String {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.clone());
        let (mut looks, mut in_vain) = (Looks::default(), 0);
        loop {
            let began = Instant::now();
            match self.look_once(&running, &mut looks).await {
                Ok(view) => {
                    in_vain = 0;
                    self.seen.send_replace(Seen::View(view.into()));
                }
                Err(error) => {
                    in_vain += 1;
                    match running.has_stopped() {
                        Ok(true) => return "the crawl has ended; `rhumb crawl --resume` goes on with it".to_owned(),
                        _ if in_vain >= IN_VAIN => return format!("{error:#}"),
                        _ => {}
                    }
                }
            }
            // A page that is opened meanwhile is not kept waiting.
            while began.elapsed() < if self.seen.receiver_count() > 0 { LOOK_EVERY } else { LOOK_SELDOM } {
                tokio::time::sleep(PAGES_EVERY).await;
            }
        }
    }

    async fn look_once(&self, running: &Running, looks: &mut Looks) -> anyhow::Result<String> {
        let looked = tokio::time::timeout(LOOK_AT_MOST, look(running)).await;
        let (snapshot, summary) =
            looked.map_err(|_| anyhow::anyhow!("the broker or the processes of the crawl do not answer"))??;
        anyhow::ensure!(!snapshot.processes.is_empty(), "no process of the crawl answers");
        self.is_deployed.store(summary.deployed, Ordering::Relaxed);
        let rates = looks.take(Instant::now(), &snapshot, &summary);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let point = Curves::point(now.as_secs(), &snapshot, &summary, &rates);
        self.curves.lock().unwrap_or_else(PoisonError::into_inner).push(point.clone());
        let moment = Moment { now, allow_actions: self.may_act };
        Ok(View::of(running, (&snapshot, &summary), &rates, point, &moment).json())
    }
}
