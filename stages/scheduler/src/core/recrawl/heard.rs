//! Heard: signals that known pages have changed.
//!
//! In: the dates of sitemaps and feeds. Out: the records of their pages, which may be visited at
//! once; those of the sitemaps and feeds, which are visited for such news
//! ([`Hub`](crate::visits::Hub)). What is believed of such signals is learned with each visit, for
//! each server and kind ([`SignalTrust`]).
//!
//! Invariants: each date of a page counts once, and none that a visit has come after; a page with a
//! planned visit, or without one to come, stays where it is.
//!
//! Source: Busa-Fekete and others 2025 (signals with precision and recall).

use super::Recrawl;
use crate::core::work::Work;
use crate::keys::server_key::ServerKey;
use crate::known::record;
use crate::visits::SignalTrust;
use rhumb_config::RecrawlPolicy;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Count, LabelledCount};
use rhumb_wire::message::{DatedPage, SignalKind};
use std::collections::{BTreeMap, BTreeSet};

/// Signals that came, by what became of them.
#[derive(Debug, Default)]
pub(super) struct Heard {
    counted: u64,
    /// Their pages are not known.
    unknown: u64,
    /// Their dates were heard before, or their pages visited since.
    old: u64,
    /// Their pages are not visited by the policy that heeds them.
    unheeded: u64,
    /// News of this message: their importance, by the sitemap or feed that brought them, and for
    /// how long they had gathered there, in milliseconds.
    news: BTreeMap<(ServerKey, u64), (f64, u64)>,
    /// Servers whose signals of a kind are believed, of those that were told of since the start.
    believed: BTreeSet<(SignalKind, ServerKey)>,
}

impl Heard {
    /// What is believed of a server is this now.
    pub(super) fn believe(&mut self, server: ServerKey, trust: &SignalTrust) {
        for kind in SignalKind::ALL {
            match trust.of(kind).are_heeded() {
                true => self.believed.insert((kind, server)),
                false => self.believed.remove(&(kind, server)),
            };
        }
    }

    /// How many servers there are whose signals of a kind are believed.
    pub(super) fn labelled_counts(&self) -> impl Iterator<Item = LabelledCount> {
        SignalKind::ALL.into_iter().map(|kind| LabelledCount {
            count: "servers_signals_believed",
            label: "kind",
            label_value: kind.name().to_owned(),
            value: self.believed.iter().filter(|(of, _)| *of == kind).count() as u64,
        })
    }

    pub(super) fn counts(&self) -> [Count; 4] {
        [
            ("signals_counted_total", self.counted),
            ("signals_unknown_total", self.unknown),
            ("signals_old_total", self.old),
            ("signals_unheeded_total", self.unheeded),
        ]
    }
}

impl Recrawl {
    /// A sitemap or feed says that a page has changed.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn hear(
        &mut self,
        work: &mut Work<'_>,
        server: ServerKey,
        page: &DatedPage,
    ) -> Result<(), StoreError> {
        let settings = work.staged.settings;
        let Some(mut known) = record::read(&work.staged.rows, server, page.url)? else {
            self.heard.unknown += 1;
            return Ok(());
        };
        if settings.recrawl_of(&known.origin.topic).policy != RecrawlPolicy::Fresh {
            self.heard.unheeded += 1;
            return Ok(());
        }
        // The clock of whoever fetched the date may be ahead.
        let at_ms = page.at_ms.min(settings.unix_ms(work.staged.now));
        if at_ms <= known.answered_ms || !known.signalled.take(page.kind, at_ms) {
            self.heard.old += 1;
            return Ok(());
        }
        self.heard.counted += 1;
        let trust = work.servers.signal_trust(server)?;
        self.heard.believe(server, &trust);
        let importance = self.learned.importance_of_news(&known, settings);
        if page.by != 0 && importance > 0.0 {
            let news = (0.0, page.waited_ms);
            let of_hub = self.heard.news.entry((server, page.by)).or_insert(news);
            of_hub.0 += importance * trust.precision(page.kind);
        }
        let is_heeded = trust.heeded(&known.signalled).signals.are_heeded();
        match known.is_planned || known.rests || !is_heeded {
            true => {
                record::write(&mut work.staged.rows, server, &known);
                Ok(())
            }
            false => {
                let place = known.place();
                self.lies_anew(work, server, place, known, false)
            }
        }
    }

    /// All signals of a message were heard: whoever brought them is visited by the news that it
    /// brings.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn count_news(&mut self, work: &mut Work<'_>) -> Result<(), StoreError> {
        for ((server, hub), (importance, waited_ms)) in std::mem::take(&mut self.heard.news) {
            let Some(mut known) = record::read(&work.staged.rows, server, hub)? else {
                continue;
            };
            known.hub = known.hub.told(importance, waited_ms as f64 / 1e3);
            match known.is_planned || known.rests {
                true => record::write(&mut work.staged.rows, server, &known),
                false => {
                    let place = known.place();
                    self.lies_anew(work, server, place, known, false)?;
                }
            }
        }
        Ok(())
    }
}
