//! `rhumb release`: what schedulers take for a trap, and an operator does not, is fetched.

use super::arguments::{BadArguments, Which};
use super::orders::{AuthorArgs, Heard, canonical_host, change};
use crate::handle;
use crate::output::line;
use clap::Args;
use rhumb_config::orders::Release;
use rhumb_url::{path_of, shape};
use rhumb_wire::topology::StageName;
use serde::Serialize;
use std::collections::BTreeSet;

/// Lets URLs go that are kept back because they look like a trap
///
/// `rhumb status` lists traps: parts of a site that bring only themselves and have repeated
/// themselves for very long (limits.shape_pages). Their URLs wait until nothing else in the crawl
/// does, and end as trapped. A release lets those of a host, or of one shape there, go again,
/// behind all others of their server. It holds until it is taken back. What has ended already comes
/// back with `rhumb inject --again`.
#[derive(Args)]
#[command(
    after_help = "Ends with exit code 1 when a scheduler does not answer; it heeds the order when it is back.

Examples:
  rhumb release www.example.org                            all that is kept back there
  rhumb release www.example.org --shape /issues/0          one shape, as rhumb status names it
  rhumb release www.example.org --take-back"
)]
pub(super) struct ReleaseArgs {
    /// The host
    host: String,
    /// One shape of it: a path and the names in a query, with 0 for each number
    #[arg(long, value_name = "SHAPE")]
    shape: Option<String>,
    /// Take an earlier release back: what looks like a trap from then on is kept back again
    #[arg(long)]
    take_back: bool,
    #[command(flatten)]
    author: AuthorArgs,
    /// As JSON: the order, and which schedulers heed it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// What the command tells as JSON.
#[derive(Serialize)]
struct Told<'a> {
    orders: [&'a Release; 1],
    taken_back: bool,
    /// Schedulers that heed it.
    heeded_by: BTreeSet<u16>,
    /// Schedulers that do not answer, or have not heard.
    silent: &'a BTreeSet<u16>,
}

impl ReleaseArgs {
    /// Writes the order, or takes it back, and waits until that is heeded.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let host = canonical_host("HOST", &self.host)?;
        let shape = self
            .shape
            .as_deref()
            .map(|shape| shape_of(&host, shape))
            .transpose()?;
        let running = handle::find(&self.which.layers()).await?;
        let mut order = Release {
            host,
            shape,
            author: self.author.author(),
        };
        let mut before = None;
        let take_back = self.take_back;
        let given = change(&running, |orders| {
            before = match take_back {
                true => orders.unrelease(&order.host, order.shape.as_deref()),
                false => orders.release(order.clone()),
            };
            !take_back || before.is_some()
        });
        let given = given.await?;
        if take_back {
            let Some(taken_back) = before.take() else {
                let released: Vec<String> =
                    given.orders.released.iter().map(Release::what).collect();
                let released = if released.is_empty() {
                    "nothing".to_owned()
                } else {
                    released.join(", ")
                };
                return Err(BadArguments(format!(
                    "{} is not released; released: {released}",
                    order.what()
                ))
                .into());
            };
            order = taken_back;
        }
        let heard = Heard::of(&running, given.revision).await?;
        if self.json {
            let heeded_by = heard.of_stage(StageName::Scheduler);
            let told = Told {
                orders: [&order],
                taken_back: take_back,
                heeded_by,
                silent: &heard.silent,
            };
            line(serde_json::to_string(&told)?);
        } else if take_back {
            line(format_args!(
                "no longer released: {}; {}",
                order.what(),
                heard.in_words()
            ));
        } else {
            before
                .iter()
                .for_each(|before| line(format_args!("in place of: {before}")));
            line(format_args!("{order}; {}", heard.in_words()));
        }
        heard
            .check(&running, "what is released may still be kept back there")
            .await
    }
}

/// A shape as schedulers spell it.
fn shape_of(host: &str, written: &str) -> Result<String, BadArguments> {
    let url = format!("http://{host}{written}");
    match written.starts_with('/') && path_of(&url) == written && shape(&url) == written {
        true => Ok(written.to_owned()),
        false => Err(BadArguments(format!(
            "--shape {written}: this is no shape; one begins with a slash, and has 0 for each \
             number and no values: /issues/0?page. rhumb status names those that are kept back"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_spelled_as_status_names_it() {
        for shape in ["/", "/calendar/0/0", "/p;jsessionid/0?day&view"] {
            assert_eq!(shape_of("a.test", shape).unwrap(), shape);
        }
        for shape in [
            "",
            "calendar/0",
            "/calendar/2031",
            "/p?day=7",
            "http://a.test/0",
        ] {
            let refused = shape_of("a.test", shape).unwrap_err().to_string();
            assert!(refused.contains("this is no shape"), "{shape}: {refused}");
        }
    }
}
