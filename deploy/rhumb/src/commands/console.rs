//! `rhumb console`: a page in the browser that shows a running crawl.

use super::arguments::{BadArguments, Which};
use crate::console::{Console, Door};
use crate::handle;
use crate::output::line;
use clap::Args;
use rhumb_config::{Layers, Pipeline};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Serves a page that shows a running crawl: the dataflow, curves, messages, servers, the story of
/// a URL
///
/// The page may be opened before the crawl begins, and stays when it ends. It changes nothing,
/// unless --allow-actions lets whoever has the token scale, pause, drop and inject. Beyond
/// loopback, and with --token-file, every look needs the token, and nothing is encrypted: put a
/// proxy with TLS before it.
#[derive(Args)]
#[command(after_help = "Examples:
  rhumb console --data rhumb-data
  rhumb console --allow-actions
  rhumb console --set broker.url=nats://broker.example:4222 --set crawl=news
  rhumb crawl https://example.org/ --console            the same page, from the crawl itself")]
pub(super) struct ConsoleCommand {
    /// Where to listen; port 0: a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,
    #[command(flatten)]
    hands: Hands,
    #[command(flatten)]
    which: Which,
}

/// Where a console listens.
const DEFAULT_LISTEN: &str = "127.0.0.1:7070";

/// What a console may do, and for whom.
#[derive(Args)]
pub(super) struct Hands {
    /// Let whoever has the token scale, pause, drop and inject
    #[arg(long)]
    allow_actions: bool,
    /// File that holds the token, a line; then every look needs it [default: a new token at each
    /// start]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The console of a command that runs a crawl.
#[derive(Args)]
pub(super) struct OwnConsole {
    /// Serve the page that `rhumb console` serves, here or at =ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_LISTEN)]
    console: Option<SocketAddr>,
    #[command(flatten)]
    hands: Hands,
}

impl ConsoleCommand {
    /// Serves the page until it is told to end.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let layers = self.which.layers();
        // What is wrong with the configuration is said at once.
        rhumb_node::log::begin(&handle::local(&layers)?.log, handle::PROGRAM);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        begin(self.listen, self.hands, layers)?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    }
}

impl OwnConsole {
    /// Begins to serve the page, if it is wanted.
    ///
    /// # Errors
    /// The address cannot be listened on, or the arguments make no sense.
    pub(super) fn begin(self, pipeline: &Pipeline) -> anyhow::Result<()> {
        match self.console {
            // The crawl of this data directory, whatever else a configuration in the current
            // directory names.
            Some(listen) => {
                let data = handle::assignment("data", &pipeline.data.display().to_string());
                let set = vec![data, handle::assignment("broker.url", "")];
                begin(listen, self.hands, Layers { file: None, set })
            }
            None if self.hands.allow_actions || self.hands.token_file.is_some() => {
                Err(BadArguments(
                    "--allow-actions and --token-file are for a console: add --console".to_owned(),
                )
                .into())
            }
            None => Ok(()),
        }
    }
}

fn begin(listen: SocketAddr, hands: Hands, layers: Layers) -> anyhow::Result<()> {
    let token = hands.token_file.as_deref().map(token).transpose()?;
    let door = Door::new(listen, hands.allow_actions, token)?;
    let address = Console { layers, door }.begin(listen)?;
    line(format_args!("console   {address}"));
    Ok(())
}

/// The token in a file.
fn token(path: &Path) -> Result<String, BadArguments> {
    let bad = |what: String| BadArguments(format!("--token-file {}: {what}", path.display()));
    let text =
        std::fs::read_to_string(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let token = text.trim();
    match token.len() >= TOKEN_MIN && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(bad(format!(
            "a token has {TOKEN_MIN} characters or more, without spaces"
        ))),
    }
}

/// Characters of a token, at least.
const TOKEN_MIN: usize = 16;
