//! `rhumb robots`: a window on the scheduler's reading of robots.txt.

use super::arguments::{BadArguments, Which};
use crate::handle;
use crate::output::line;
use anyhow::Context as _;
use clap::Args;
use rhumb_robots::Robots as Rules;
use rhumb_robots::product_token::{is_product_token, of_user_agent};
use rhumb_url::{canonical, path_of};
use std::path::PathBuf;
use std::process::ExitCode;

/// Says whether a robots.txt allows a URL: exit 0 allowed, 1 disallowed, 2 bad arguments
#[derive(Args)]
#[command(after_help = "Standard error says for which product token that is.

Examples:
  rhumb robots robots.txt https://example.org/page.html
  rhumb robots robots.txt https://example.org/page.html --agent otherbot
  rhumb robots robots.txt https://example.org/page.html --agent 'Mozilla/5.0 (compatible; mybot/1.0; +https://example.org/bot)'")]
pub(super) struct Robots {
    /// The robots.txt
    file: PathBuf,
    /// The URL
    url: String,
    /// Product token or user agent whose groups count [default: as configured, or as the crawl in
    /// --data is]
    #[arg(long)]
    agent: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Robots {
    /// Prints whether the URL is allowed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let product_token = self.product_token()?;
        let allowed = self
            .allows(&product_token)
            .map_err(|error| BadArguments(format!("{error:#}")))?;
        eprintln!("for the product token {product_token}");
        line(if allowed { "allowed" } else { "disallowed" });
        Ok(if allowed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// By which name the robots.txt addresses whoever asks.
    fn product_token(&self) -> anyhow::Result<String> {
        match &self.agent {
            None => Ok(handle::local(&handle::resumed(self.which.layers())?)?.product_token()),
            Some(token) if is_product_token(token) => Ok(token.clone()),
            Some(agent) => of_user_agent(agent).map_err(|unnamed| {
                let accepted = "a product token, such as mybot, or a user agent that has one";
                BadArguments(format!(
                    "--agent '{agent}': {unnamed}; accepted is {accepted}"
                ))
                .into()
            }),
        }
    }

    fn allows(&self, product_token: &str) -> anyhow::Result<bool> {
        let Robots { file, url, .. } = self;
        let body =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let canonical = canonical(url, None, None)
            .with_context(|| format!("'{url}' is no URL that can be crawled"))?;
        Ok(Rules::parse(&body, product_token).allows(path_of(&canonical)))
    }
}
