//! `rhumb robots`: a window on the scheduler's reading of robots.txt.

use super::arguments::{BadArguments, Which};
use crate::handle;
use crate::output::line;
use anyhow::Context as _;
use clap::Args;
use rhumb_robots::Robots as Rules;
use rhumb_robots::product_token::{is_product_token, of_user_agent};
use rhumb_url::{canonical, path_of};
use rhumb_usage::Signals;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tells whether a robots.txt allows a URL, and what it says of its use: exit 0 allowed, 1 disallowed, 2 bad arguments
#[derive(Args)]
#[command(after_help = "Standard error says for which product token that is.

Examples:
  rhumb robots robots.txt https://example.org/page.html
  rhumb robots robots.txt https://example.org/page.html --agent otherbot
  rhumb robots robots.txt https://example.org/page.html --signals
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
    /// Shows what the file says of the use of the page, too: as understood, and as written
    #[arg(long)]
    signals: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Robots {
    /// Prints whether the URL is allowed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let product_token = self.product_token()?;
        let Asked { rules, url } = self
            .asked(&product_token)
            .map_err(|error| BadArguments(format!("{error:#}")))?;
        let path = path_of(&url);
        let allowed = rules.allows(path);
        let signals = || Signals::of_robots_txt(&rules.usage(path));
        let signals = self.signals.then(signals);
        if self.json {
            let mut told = json!({ "product_token": product_token, "allowed": allowed });
            if let Some(signals) = signals {
                told["signals"] = json!(signals);
            }
            line(told);
        } else {
            eprintln!("for the product token {product_token}");
            line(if allowed { "allowed" } else { "disallowed" });
            signals.iter().for_each(print);
        }
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

    fn asked(&self, product_token: &str) -> anyhow::Result<Asked> {
        let Robots { file, url, .. } = self;
        let body =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let url = canonical(url, None, None)
            .with_context(|| format!("'{url}' is no URL that can be crawled"))?;
        let rules = Rules::parse(&body, product_token);
        Ok(Asked { rules, url })
    }
}

/// What is asked, read.
struct Asked {
    rules: Rules,
    /// Canonical.
    url: String,
}

/// A purpose a line, then a statement a line.
fn print(signals: &Signals) {
    for (purpose, stance) in signals.stances.each() {
        line(format_args!("{purpose}: {}", stance.name()));
    }
    for statement in &signals.statements {
        line(statement);
    }
    if signals.left_out > 0 {
        line(format_args!(
            "statements beyond these: {}",
            signals.left_out
        ));
    }
}
