//! Watchers: each looks at one crawl, once a second, for all pages that show it.
//!
//! In: a crawl, found as other commands find it, again and again. Out: its views, and why there are
//! none. Invariant: however many pages are open, the crawl is looked at once; when none is, seldom.

use super::Shared;
use super::curves::Curves;
use super::door::Door;
use super::events::Named as Event;
use super::refusal::Refusal;
use super::view::{Moment, View};
use crate::handle::{self, Handle, Running};
use crate::inspect::crawls::{self, Named};
use crate::inspect::look::look;
use crate::report::{Gathered, gather};
use crate::status::Snapshot;
use crate::status::rates::Looks;
use axum::http::StatusCode;
use futures::stream::{BoxStream, StreamExt as _};
use rhumb_config::{Layers, Pipeline};
use rhumb_wire::topology::StageName;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
/// How long schedulers may take to tell what was before the first look.
const BEGINNING_AT_MOST: Duration = Duration::from_millis(500);
/// After so many looks in vain a crawl counts as gone.
const IN_VAIN: u32 = 2;
/// Between two tries to find a crawl.
pub(super) const FIND_EVERY: Duration = Duration::from_secs(1);
/// What is said of a crawl that was looked at and runs no more.
const ENDED: &str = "the crawl has ended; `rhumb crawl --resume` goes on with it";

fn view(json: Arc<str>) -> Event {
    ("view", json.to_string())
}

fn gone(json: Arc<str>) -> Event {
    ("gone", json.to_string())
}

/// The crawls that pages show, by name; under the empty name the one that the configuration names.
pub(super) struct Watchers {
    layers: Layers,
    may_act: bool,
    by_crawl: Mutex<BTreeMap<String, Arc<Watcher>>>,
}

/// Why a page has no crawl to show.
pub(super) enum NoCrawl {
    /// There are several at the broker, or not the one that was named: their names.
    Choose(Vec<String>),
    /// There is none, or nobody tells.
    Unknown(String),
}

impl Watchers {
    pub(super) fn new(layers: Layers, door: &Door) -> Self {
        let watchers = Watchers {
            layers,
            may_act: door.may_act,
            by_crawl: Mutex::default(),
        };
        // A crawl that nobody has to choose is looked at before a page asks: its first page need
        // not wait for a look.
        let is_named = |pipeline: Pipeline| {
            pipeline.broker.url.is_empty() || pipeline.crawl != handle::UNNAMED
        };
        if handle::local(&watchers.layers).is_ok_and(is_named) {
            watchers.begin("", None);
        }
        watchers
    }

    /// The watcher of a crawl.
    ///
    /// # Errors
    /// It is not there, or not named and one of several.
    pub(super) async fn get(&self, crawl: Option<&str>) -> Result<Arc<Watcher>, NoCrawl> {
        let wanted = crawl.filter(|name| !name.is_empty());
        if let Some(known) = self.known(wanted.unwrap_or_default()) {
            return Ok(known);
        }
        let named = crawls::named(&self.layers)
            .await
            .map_err(|error| NoCrawl::Unknown(format!("{error:#}")))?;
        match (named, wanted) {
            (Named::One, _) => Ok(self.begin("", None)),
            (Named::OneOf(there), Some(name)) if there.iter().any(|known| known == name) => {
                Ok(self.begin(name, Some(name)))
            }
            (Named::OneOf(there), None) => match there.as_slice() {
                [] => Err(NoCrawl::Unknown(
                    "there is no crawl at this broker".to_owned(),
                )),
                // It may get company, and then a name is needed.
                [one] => Ok(self.begin(one, Some(one))),
                _ => Err(NoCrawl::Choose(there)),
            },
            (Named::OneOf(there), Some(_)) => Err(NoCrawl::Choose(there)),
        }
    }

    fn begin(&self, key: &str, crawl: Option<&str>) -> Arc<Watcher> {
        let mut layers = self.layers.clone();
        layers
            .set
            .extend(crawl.map(|crawl| handle::assignment("crawl", crawl)));
        let mut by_crawl = self.by_crawl.lock().unwrap_or_else(PoisonError::into_inner);
        by_crawl
            .entry(key.to_owned())
            .or_insert_with(|| Watcher::begin(layers, self.may_act))
            .clone()
    }

    fn known(&self, name: &str) -> Option<Arc<Watcher>> {
        self.by_crawl
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }
}

impl Shared {
    /// The crawl that a page shows, and who watches it.
    ///
    /// # Errors
    /// It is not there now, or not named.
    pub(super) async fn running(
        &self,
        crawl: Option<&str>,
    ) -> Result<(Arc<Watcher>, Arc<Running>), Refusal> {
        let watcher = self.watchers.get(crawl).await.map_err(|why| match why {
            NoCrawl::Choose(crawls) => {
                Refusal::bad(format!("which crawl? There are {}", crawls.join(", ")))
            }
            NoCrawl::Unknown(why) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why),
        })?;
        let running = watcher
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let running = running.ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the crawl is not there now",
            )
        })?;
        Ok((watcher, running))
    }
}

/// What was seen last.
#[derive(Clone, Debug, Default)]
struct Seen {
    view: Option<Arc<str>>,
    /// Why there is nothing newer.
    gone: Option<Arc<str>>,
    /// What was remembered before the first look: pages that were there before have none of it.
    history: Option<Arc<str>>,
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
        let running = Mutex::default();
        let curves = Mutex::default();
        let seen = watch::Sender::new(Seen::default());
        let is_deployed = AtomicBool::new(false);
        let watcher = Arc::new(Watcher {
            layers,
            may_act,
            running,
            is_deployed,
            curves,
            seen,
        });
        tokio::spawn(watcher.clone().watch());
        watcher
    }

    /// Returns whether the stages of the crawl are deployed one by one.
    pub(super) fn is_deployed(&self) -> bool {
        self.is_deployed.load(Ordering::Relaxed)
    }

    /// Returns whether it still looks at this crawl.
    pub(super) fn has(&self, running: &Arc<Running>) -> bool {
        let has = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        has.as_ref().is_some_and(|has| Arc::ptr_eq(has, running))
    }

    /// The arguments by which another command of this program finds the same crawl.
    pub(super) fn arguments(&self) -> Vec<String> {
        let file = self
            .layers
            .file
            .iter()
            .flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        file.chain(
            self.layers
                .set
                .iter()
                .flat_map(|set| ["--set".to_owned(), set.clone()]),
        )
        .collect()
    }

    /// What was seen last, what is remembered, and all looks from now on.
    pub(super) fn follow(self: Arc<Self>) -> BoxStream<'static, Event> {
        let mut seen = self.seen.subscribe();
        let last = seen.borrow_and_update().clone();
        let has_history = last.history.is_some();
        let first = [last.view.map(view), last.gone.map(gone)];
        let history = futures::stream::once(async move {
            // What was seen is on its way before the curves are written: they are long.
            tokio::task::yield_now().await;
            Some(("history", self.curves().json()))
        });
        let later =
            futures::stream::unfold((seen, has_history), |(mut seen, has_history)| async move {
                seen.changed().await.ok()?;
                let Seen {
                    view: last,
                    gone: why,
                    history,
                } = seen.borrow_and_update().clone();
                let has_it = has_history || history.is_some();
                let history = history
                    .filter(|_| !has_history)
                    .map(|json| ("history", json.to_string()));
                let named = [history, why.map(gone).or_else(|| last.map(view))];
                Some((futures::stream::iter(named), (seen, has_it)))
            });
        futures::stream::iter(first)
            .chain(history)
            .chain(later.flatten())
            .filter_map(std::future::ready)
            .boxed()
    }

    async fn watch(self: Arc<Self>) {
        let mut was_there = false;
        loop {
            let why = match handle::find(&self.layers).await {
                Ok(running) => {
                    was_there = true;
                    self.look_while_there(Arc::new(running)).await
                }
                Err(error) => format!("{error:#}"),
            };
            *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let has_ended = was_there && self.has_no_handle();
            let why = if has_ended { ENDED.to_owned() } else { why };
            self.say(|seen| {
                let gone = serde_json::json!({ "reason": why, "ended": has_ended }).to_string();
                seen.gone = Some(gone.into());
            });
            tokio::time::sleep(FIND_EVERY).await;
        }
    }

    /// Returns whether the crawl is named by its data directory, and none runs there.
    fn has_no_handle(&self) -> bool {
        let pipeline = handle::local(&self.layers)
            .ok()
            .filter(|pipeline| pipeline.broker.url.is_empty());
        pipeline.is_some_and(|pipeline| matches!(Handle::read(&pipeline.data), Ok(None)))
    }

    /// Changes what was seen, and tells it where that is news.
    fn say(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_if_modified(|seen| {
            let before = seen.clone();
            change(seen);
            (&before.view, &before.gone) != (&seen.view, &seen.gone)
        });
    }

    /// Looks at a crawl until it is gone. Says why that is so.
    async fn look_while_there(&self, running: Arc<Running>) -> String {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.clone());
        let mut looks = Looks::default();
        let mut in_vain = 0;
        loop {
            let began = Instant::now();
            match self.look_once(&running, &mut looks).await {
                Ok((view, snapshot, now)) => {
                    in_vain = 0;
                    self.say(|seen| (seen.view, seen.gone) = (Some(view.into()), None));
                    self.remember_beginning(&running, &snapshot, now).await;
                }
                Err(error) => {
                    in_vain += 1;
                    if in_vain >= IN_VAIN || running.has_stopped().unwrap_or(false) {
                        return format!("{error:#}");
                    }
                }
            }
            // A page that is opened meanwhile is not kept waiting.
            while began.elapsed()
                < if self.seen.receiver_count() > 0 {
                    LOOK_EVERY
                } else {
                    LOOK_SELDOM
                }
            {
                tokio::time::sleep(PAGES_EVERY).await;
            }
        }
    }

    /// Gives the view, and what it was made from and when.
    async fn look_once(
        &self,
        running: &Running,
        looks: &mut Looks,
    ) -> anyhow::Result<(String, Snapshot, Duration)> {
        let looked = tokio::time::timeout(LOOK_AT_MOST, look(running)).await;
        let (snapshot, summary) = looked.map_err(|_| {
            anyhow::anyhow!("the broker or the processes of the crawl do not answer")
        })??;
        anyhow::ensure!(
            !snapshot.processes.is_empty(),
            "no process of the crawl answers"
        );
        self.is_deployed.store(summary.deployed, Ordering::Relaxed);
        let is_whole = snapshot.unknown(&running.pipeline).is_none();
        let rates = looks.take(Instant::now(), (&snapshot, &summary), is_whole);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let point = Curves::point(now.as_secs(), &snapshot, &summary, &rates);
        self.curves().push(point.clone());
        let moment = Moment {
            now,
            allow_actions: self.may_act,
        };
        let view = View::of(running, (&snapshot, &summary), &rates, point, &moment).json();
        Ok((view, snapshot, now))
    }

    /// Remembers the pace from before the first look, once all schedulers tell it.
    async fn remember_beginning(&self, running: &Running, snapshot: &Snapshot, now: Duration) {
        let schedulers = || {
            snapshot
                .processes
                .iter()
                .filter(|process| process.stage == StageName::Scheduler.name())
        };
        let all_ready = schedulers().count() > 0 && schedulers().all(|scheduler| scheduler.ready);
        if self.curves().has_beginning() || !all_ready {
            return;
        }
        let instances = schedulers().map(|scheduler| scheduler.instance).collect();
        let gathered = tokio::time::timeout(
            BEGINNING_AT_MOST,
            gather(&running.bus, instances, 1, Duration::ZERO),
        )
        .await;
        let Ok(Ok(Gathered { tallied, ran, .. })) = gathered else {
            return;
        };
        let mut curves = self.curves();
        curves.begin_with(now.as_secs(), ran, &tallied.pace);
        let history = curves.json().into();
        self.say(|seen| seen.history = Some(history));
    }

    fn curves(&self) -> MutexGuard<'_, Curves> {
        self.curves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
