//! Health of a process: `/healthz`, `/readyz`, `/metrics` and further pages, answered by a thread
//! of their own.
//!
//! ```text
//!  waits, prepares ─▶ Health ◀── the loop turns, and says whether it is ready
//!                       │
//!       own thread: /healthz  alive: the process does what it should, or waits for what it should
//!                   /readyz   ready: it can do its work; else why not
//! ```
//!
//! In: what the process says of itself, from its first moment on. Out: answers over HTTP.
//! Invariant: whatever the process is busy with, a probe is answered at once; nothing of the
//! process waits for a probe.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use rhumb_telemetry::metrics::{Exposition, Source};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A process that has not turned for longer is not alive: longer than any step or request to the
/// broker may take.
pub const STANDS_STILL_MAX: Duration = Duration::from_secs(60);
/// A process that opens its state or takes partitions may be busy with that for so long.
pub const PREPARES_MAX: Duration = Duration::from_secs(1800);
/// What a loop said of itself is believed for so long.
pub const BELIEVED_FOR: Duration = Duration::from_secs(20);
/// How often the runtime of the process shows that it turns.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A page of JSON.
type Json = Box<dyn Fn() -> String + Send + Sync>;

/// What is served beside health.
#[derive(Default)]
pub struct Pages {
    sources: Vec<Box<dyn Source>>,
    json: Vec<(&'static str, Json)>,
}

impl Pages {
    /// Adds metrics.
    pub fn metrics(mut self, source: impl Source + 'static) -> Self {
        self.sources.push(Box::new(source));
        self
    }

    /// Adds a page of JSON, such as `/scale`.
    pub fn json(
        mut self,
        path: &'static str,
        page: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        self.json.push((path, Box::new(page)));
        self
    }
}

/// What a process does, as far as its health is concerned.
#[derive(Clone, Debug)]
enum Standing {
    /// It waits for something outside.
    Waits(String),
    /// It is busy with something that may take long, since then.
    Prepares(String, Instant),
    /// Its loop runs, and is ready or not.
    Runs(Result<(), String>),
}

/// Returns whether the connection to the broker stands.
type IsConnected = Box<dyn Fn() -> bool + Send + Sync>;

struct Shared {
    origin: Instant,
    /// When the loop turned last, and when the runtime did; in milliseconds since `origin`.
    turned_ms: AtomicU64,
    beat_ms: AtomicU64,
    standing: Mutex<Standing>,
    is_connected: OnceLock<IsConnected>,
}

impl Shared {
    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, of: &AtomicU64) -> Duration {
        Duration::from_millis(
            self.millis(Instant::now())
                .saturating_sub(of.load(Ordering::Relaxed)),
        )
    }

    fn standing(&self) -> Standing {
        self.standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn stands(&self, standing: Standing) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    fn is_cut_off(&self) -> bool {
        self.is_connected
            .get()
            .is_some_and(|is_connected| !is_connected())
    }

    /// Without the broker a loop may have to wait in the middle of a turn: the runtime alone must
    /// turn then.
    fn alive(&self) -> Result<(), String> {
        let (still, what) = match self.standing() {
            Standing::Prepares(_, since) if since.elapsed() <= PREPARES_MAX => return Ok(()),
            Standing::Runs(_) if !self.is_cut_off() => {
                (self.since(&self.turned_ms), "the loop".to_owned())
            }
            Standing::Runs(_) => (
                self.since(&self.beat_ms),
                "the loop, which waits for the broker,".to_owned(),
            ),
            Standing::Waits(what) | Standing::Prepares(what, _) => {
                (self.since(&self.beat_ms), format!("the process ({what})"))
            }
        };
        if still <= STANDS_STILL_MAX {
            return Ok(());
        }
        Err(format!(
            "{what} has not turned for {} s: it is busy with one thing, or hangs",
            still.as_secs()
        ))
    }

    fn ready(&self) -> Result<(), String> {
        match self.standing() {
            Standing::Waits(what) | Standing::Prepares(what, _) => Err(what),
            Standing::Runs(_) if self.is_cut_off() => Err(NOT_CONNECTED.to_owned()),
            Standing::Runs(_) if self.since(&self.turned_ms) > BELIEVED_FOR => Err(format!(
                "the loop has not turned for {} s",
                self.since(&self.turned_ms).as_secs()
            )),
            Standing::Runs(readiness) => readiness,
        }
    }
}

/// Why a process is not ready that has no broker.
pub const NOT_CONNECTED: &str = "not connected to the broker";

/// Returns whether a process is ready; for its metrics.
#[derive(Clone)]
pub struct Readiness(Arc<Shared>);

impl Readiness {
    /// Whether it is ready, or why not.
    ///
    /// # Errors
    /// The reason, for an operator.
    pub fn now(&self) -> Result<(), String> {
        self.0.ready()
    }
}

/// The health of a process; it is served for as long as this lives.
pub struct Health {
    shared: Arc<Shared>,
    listen: SocketAddr,
    heart: tokio::task::JoinHandle<()>,
    /// Ends the server when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Health {
    /// Begins to serve health, metrics and `pages`, which may tell how ready the process is. To be
    /// called on the runtime of the process: that must turn for the process to be alive.
    ///
    /// # Errors
    /// The address cannot be listened on, or the system gives no thread.
    pub fn begin(
        listen: SocketAddr,
        pages: impl FnOnce(Readiness) -> Pages,
    ) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let listen = listener.local_addr()?;
        let shared = Arc::new(Shared {
            origin: Instant::now(),
            turned_ms: AtomicU64::new(0),
            beat_ms: AtomicU64::new(0),
            standing: Mutex::new(Standing::Waits("it has just begun".into())),
            is_connected: OnceLock::new(),
        });
        let router = router(&shared, pages(Readiness(shared.clone())));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("health".into())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        _ = axum::serve(listener, router) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        let heart = tokio::spawn(beat(shared.clone()));
        Ok(Health {
            shared,
            listen,
            heart,
            _stop: stop,
        })
    }

    /// Where it is served.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The process waits for something outside: it is alive and not ready.
    pub fn waits(&self, what: impl Into<String>) {
        self.shared.stands(Standing::Waits(what.into()));
    }

    /// The process is busy with something that may take long, such as its state: it is alive and
    /// not ready.
    pub fn prepares(&self, what: impl Into<String>) {
        self.shared
            .stands(Standing::Prepares(what.into(), Instant::now()));
    }

    /// The loop turns: to be called in every turn.
    pub fn turned(&self, at: Instant) {
        self.shared
            .turned_ms
            .store(self.shared.millis(at), Ordering::Relaxed);
    }

    /// The loop runs, and is ready or says why not: to be called at least every [`BELIEVED_FOR`].
    pub fn runs(&self, readiness: Result<(), String>) {
        self.turned(Instant::now());
        self.shared.stands(Standing::Runs(readiness));
    }

    /// From now on the process has a connection to the broker, of which this tells whether it
    /// stands. Only the first one counts.
    pub fn connected(&self, is_connected: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.shared.is_connected.set(Box::new(is_connected));
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.heart.abort();
    }
}

/// Shows that the runtime of the process turns.
async fn beat(shared: Arc<Shared>) {
    loop {
        shared
            .beat_ms
            .store(shared.millis(Instant::now()), Ordering::Relaxed);
        tokio::time::sleep(BEAT_EVERY).await;
    }
}

fn router(shared: &Arc<Shared>, pages: Pages) -> Router {
    let Pages { sources, json } = pages;
    let alive = shared.clone();
    let ready = shared.clone();
    let sources = Arc::new(sources);
    let mut router = Router::new()
        .route(
            "/healthz",
            get(move || async move { told("alive", alive.alive()) }),
        )
        .route(
            "/readyz",
            get(move || async move { told("ready", ready.ready()) }),
        )
        .route("/metrics", get(move || async move { metrics(&sources) }));
    for (path, page) in json {
        let page = Arc::new(page);
        let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], page()) };
        router = router.route(path, get(answer));
    }
    router
}

fn told(word: &str, said: Result<(), String>) -> (StatusCode, String) {
    match said {
        Ok(()) => (StatusCode::OK, format!("{word}\n")),
        Err(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not {word}: {reason}\n"),
        ),
    }
}

fn metrics(sources: &[Box<dyn Source>]) -> axum::response::Response {
    let mut exposition = Exposition::default();
    sources
        .iter()
        .for_each(|source| source.tell(&mut exposition));
    (
        [(header::CONTENT_TYPE, Exposition::CONTENT_TYPE)],
        exposition.into_text(),
    )
        .into_response()
}

#[cfg(test)]
mod tests;
