//! `rhumb console`: a page that shows a running crawl, served by the program itself.
//!
//! ```text
//!  crawl ◀─looks─ Watcher ──views──▶ page: picture, curves, figures
//!    ▲                │
//!    ├──────── tap, story, servers ──▶ page, when it asks
//!    └──────── hands ◀── page, with a token
//! ```
//!
//! - `watcher`: looks at the crawl once a second for all pages together; `view`: what a look
//!   becomes; `curves`: what is remembered of the looks;
//! - `tap`, `story`, `servers`: what a page asks beside that; `hands`: what it may do; `door`: who
//!   may come in; `refusal`: why not; `events`: an answer that goes on; `assets`: the files of the
//!   page.
//!
//! Invariants: looking changes nothing, and makes no consumer (P8); what is remembered is bounded,
//! whatever the crawl's size; a page from elsewhere can neither read nor do anything.

mod assets;
mod curves;
mod door;
mod events;
mod hands;
mod refusal;
mod servers;
mod story;
mod tap;
mod view;
mod watcher;

pub(crate) use door::Door;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use events::Events;
use futures::StreamExt as _;
use rhumb_config::Layers;
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use watcher::{FIND_EVERY, NoCrawl, Watchers};

/// What a console shows, and to whom.
pub(crate) struct Console {
    /// Which crawl, as for other commands.
    pub(crate) layers: Layers,
    /// Who may come in, and do something.
    pub(crate) door: Door,
}

/// What the answers to pages share.
struct Shared {
    watchers: Watchers,
    door: Door,
}

/// Which crawl a page means, where there are several.
#[derive(Deserialize)]
struct Which {
    crawl: Option<String>,
}

impl Console {
    /// Listens, and serves pages until the program ends, on a thread of its own: what a page asks
    /// for delays nothing else of the process. Gives the address to open.
    ///
    /// # Errors
    /// The address cannot be listened on, or the system gives no thread.
    pub(crate) fn begin(self, listen: SocketAddr) -> anyhow::Result<String> {
        let listener = std::net::TcpListener::bind(listen).with_context(|| {
            format!(
                "the console cannot listen on {listen}: choose another address with --listen or \
                 --console=…"
            )
        })?;
        listener.set_nonblocking(true)?;
        let address = self.door.address(listener.local_addr()?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("console".into())
            .spawn(move || {
                runtime.block_on(async {
                    let shared = Arc::new(Shared {
                        watchers: Watchers::new(self.layers, &self.door),
                        door: self.door,
                    });
                    let served = async {
                        axum::serve(tokio::net::TcpListener::from_std(listener)?, router(shared))
                            .await
                    };
                    if let Err(error) = served.await {
                        tracing::warn!("the console has ended: {error}");
                    }
                });
            })?;
        Ok(address)
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let page = Router::new()
        .route("/events", get(events))
        .route("/tap", get(tap::tap))
        .route("/story", get(story::story))
        .route("/servers", get(servers::servers))
        .route("/server", get(servers::server))
        .route("/act/{what}", post(hands::act))
        .layer(axum::middleware::from_fn_with_state(
            shared.clone(),
            door::check,
        ));
    // The page itself tells nothing, and has to come before it can show a token.
    page.fallback(get(assets::file))
        .layer(axum::middleware::from_fn_with_state(
            shared.clone(),
            door::guard,
        ))
        .with_state(shared)
}

/// All looks at the crawl from now on. Until there is one, why there is none.
async fn events(State(shared): State<Arc<Shared>>, Query(which): Query<Which>) -> Response {
    let events = futures::stream::unfold(Some((shared, which)), |asked| async move {
        let (shared, which) = asked?;
        let named = match shared.watchers.get(which.crawl.as_deref()).await {
            Ok(watcher) => return Some((watcher.follow(), None)),
            Err(NoCrawl::Choose(crawls)) => ("choose", json!({ "crawls": crawls })),
            Err(NoCrawl::Unknown(why)) => ("gone", json!({ "reason": why })),
        };
        let said = futures::stream::iter([(named.0, named.1.to_string())]);
        let waited = futures::stream::once(tokio::time::sleep(FIND_EVERY))
            .filter_map(|()| std::future::ready(None));
        Some((said.chain(waited).boxed(), Some((shared, which))))
    });
    Events::of(events.flatten()).answer()
}
