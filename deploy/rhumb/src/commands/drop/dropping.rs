//! A drop that is asked for: counted, confirmed, written to the broker, and waited for.

use super::carrying::{carry_out, forget_done};
use super::counting::Count;
use crate::commands::arguments::BadArguments;
use crate::commands::orders::{Heard, change};
use crate::handle::Running;
use crate::inspect::schedulers;
use crate::output::line;
use rhumb_config::orders::{Author, DropOrder, Selection};
use rhumb_node::new_life;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;

/// What the command tells as JSON.
#[derive(Serialize)]
struct Told<'a> {
    /// None when there was nothing to drop.
    #[serde(flatten)]
    order: Option<&'a DropOrder>,
    /// URLs that were counted before, and of how many.
    counted: u64,
    of: u64,
    /// URLs that ended.
    dropped: u64,
    /// Schedulers that have not carried it out: they do not answer.
    silent: &'a BTreeSet<u16>,
}

/// A drop that is asked for.
pub(in crate::commands) struct Wanted {
    pub(in crate::commands) what: Selection,
    /// What is found later, too.
    pub(in crate::commands) and_later: bool,
    /// How often it was confirmed before.
    pub(in crate::commands) yes: u8,
    pub(in crate::commands) author: Author,
    pub(in crate::commands) as_json: bool,
}

impl Wanted {
    /// Counts, asks, and drops. Returns whether the answer was yes.
    ///
    /// # Errors
    /// A scheduler does not answer, nobody can be asked, or the order was taken back before all had
    /// carried it out.
    pub(in crate::commands) async fn run(self, running: &Running) -> anyhow::Result<bool> {
        let count = Count::of(running, &self.what).await?;
        let counted = count.found;
        let of = count.waiting();
        if counted == 0 && count.is_whole() && !self.and_later {
            forget_done(running).await?;
            if self.as_json {
                let told = Told {
                    order: None,
                    counted,
                    of,
                    dropped: 0,
                    silent: &BTreeSet::new(),
                };
                line(serde_json::to_string(&told)?);
            } else {
                line(format_args!(
                    "nothing to drop: none of the {of} URLs that wait is of {}",
                    self.what
                ));
            }
            return Ok(true);
        }
        if !self.is_confirmed(running, &count).await? {
            return Ok(false);
        }
        let Wanted {
            what,
            and_later,
            author,
            as_json,
            ..
        } = self;
        let mut order = DropOrder {
            id: new_life("drop"),
            what,
            and_later,
            author,
        };
        let given = change(running, |orders| {
            orders.drop(order.clone());
            true
        });
        let given = given.await?;
        // An earlier order about the same may hold for what is found later.
        order.and_later = given
            .orders
            .drops
            .iter()
            .any(|known| known.id == order.id && known.and_later);
        let heard = Heard::of(running, given.revision).await?;
        let (dropped, silent) = carry_out(running, &order, &heard).await?;
        forget_done(running).await?;
        if as_json {
            line(serde_json::to_string(&Told {
                order: Some(&order),
                counted,
                of,
                dropped,
                silent: &silent,
            })?);
        } else {
            line(format_args!("dropped {dropped} URLs of {}", order.what));
            if order.and_later {
                line(
                    "what is found later is dropped, too, until the order is taken back \
                     (--take-back)",
                );
            }
        }
        let silent = schedulers::in_words(running, &silent).await?;
        anyhow::ensure!(
            silent.is_empty(),
            "not carried out yet by {silent}: no answer. The order is kept, and carried out when \
             they are back"
        );
        Ok(true)
    }

    /// Says what would end, and asks whether it is to. What may end everything is asked for twice.
    async fn is_confirmed(&self, running: &Running, count: &Count) -> anyhow::Result<bool> {
        let everything = everything(&self.what, self.and_later, count);
        let needed = if everything.is_some() { 2 } else { 1 };
        if self.yes >= needed {
            return Ok(true);
        }
        let says = count.in_words(running, &self.what).await?;
        if !std::io::stdin().is_terminal() {
            let all = everything.map_or_else(
                || ": --yes".to_owned(),
                |all| format!(", which {all}: --yes --yes"),
            );
            return Err(BadArguments(format!("{says}; to have them dropped, say so{all}")).into());
        }
        eprintln!("{says}, such as");
        count.examples.iter().for_each(|url| eprintln!("  {url}"));
        let later = if self.and_later {
            ", and all that are found later"
        } else {
            ""
        };
        if !confirmed(&format!("Drop them{later}? They do not come back. [y/N] "))? {
            return Ok(false);
        }
        everything.map_or(Ok(true), |all| {
            confirmed(&format!("That {all}. Drop everything? [y/N] "))
        })
    }
}

/// Why the drop may end everything, after "that"; none when it does not.
fn everything(what: &Selection, and_later: bool, count: &Count) -> Option<&'static str> {
    let takes_any = || match what {
        Selection::Prefix(prefix) => prefix.ends_with("://("),
        // Who means some URLs names more of them than their scheme.
        Selection::Match(_) => what.selector().is_ok_and(|selector| {
            ["http://", "https://"]
                .iter()
                .any(|scheme| selector.has(scheme))
        }),
        _ => false,
    };
    // What is found meanwhile is in one number and not in the other.
    let found = count.found;
    let waiting = count.waiting();
    if waiting > 0 && found * 100 >= waiting * 99 {
        Some("is all that waits")
    } else if !count.is_whole() {
        Some("may be all that waits")
    } else if and_later && (waiting == 0 || takes_any()) {
        Some("may be all that is found later")
    } else {
        None
    }
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    eprint!("{question}");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_end_everything_is_asked_for_twice() {
        let host = Selection::Host("a.test".into());
        for (and_later, found, waiting, silent, all) in [
            (false, 10, 100, None, None),
            (true, 10, 100, None, None),
            (true, 0, 100, None, None),
            (false, 99, 100, None, Some("is all that waits")),
            (false, 0, 0, Some(1), Some("may be all that waits")),
            (false, 10, 100, Some(1), Some("may be all that waits")),
            (true, 0, 0, None, Some("may be all that is found later")),
        ] {
            let count = Count::example(found, waiting, silent);
            assert_eq!(
                everything(&host, and_later, &count),
                all,
                "{and_later} {count:?}"
            );
        }
        let count = Count::example(10, 100, None);
        for (what, takes_any) in [
            (Selection::Prefix("http://(".into()), true),
            (Selection::Prefix("https://(org,example,".into()), false),
            (Selection::Match("^http".into()), true),
            (Selection::Match("^https://".into()), true),
            (Selection::Match("[?&]sessionid=".into()), false),
            (Selection::Domain("example.org".into()), false),
        ] {
            assert_eq!(everything(&what, false, &count), None, "{what}");
            assert_eq!(
                everything(&what, true, &count).is_some(),
                takes_any,
                "{what}"
            );
        }
    }

    #[test]
    fn when_there_is_nothing_to_drop_json_says_so() {
        let told = Told {
            order: None,
            counted: 0,
            of: 7,
            dropped: 0,
            silent: &BTreeSet::new(),
        };
        let text = serde_json::to_string(&told).expect("JSON");
        assert_eq!(text, r#"{"counted":0,"of":7,"dropped":0,"silent":[]}"#);
    }
}
