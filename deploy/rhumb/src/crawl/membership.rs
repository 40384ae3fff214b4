//! Whose crawl it is: the data directory, the broker and the configuration must speak of the same
//! one.
//!
//! In: what the data directory keeps ([`KEPT`]) and what the broker holds. Out: the identity with
//! which the crawl goes on, or a [`Misfit`]. Invariant: the data directory knows the id before the
//! broker does, so that a start that is cut short is gone on with, and that nothing of another
//! crawl of the same name is.

use super::restoring::Restore;
use super::tide::Tide;
use crate::stages::owns_partitions;
use anyhow::Context as _;
use rhumb_bus::{Begins, Buckets, Bus, begin_generation, join, new_id, stream_info, stream_names};
use rhumb_config::Pipeline;
use rhumb_config::identity::{FORMAT, Identity, Mark, Misfit, WAYS_OUT, check_format};
use rhumb_telemetry::whole_file;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file in the data directory that says which crawl it holds.
pub(crate) const KEPT: &str = "identity.json";

/// Begins a crawl at the broker for an owner, or goes on with the one that the owner has begun
/// there; makes its streams. `restore`: the checkpoint that it begins with.
///
/// # Errors
/// The broker holds a crawl of another owner under the name, or one that does not fit the
/// configuration ([`Misfit`]); or it does not answer.
pub(crate) async fn begin_or_go_on(
    bus: &Bus,
    pipeline: &Pipeline,
    buckets: &Buckets,
    restore: Option<&Restore>,
) -> anyhow::Result<Identity> {
    if let Some((held, _)) = buckets.register.read().await? {
        check_format(
            &format!("the crawl '{}' at the broker", pipeline.crawl),
            held.mark.format,
        )?;
        // `Identity::check` compares named owners: one without a name is another, too.
        if held.owner != pipeline.owner && pipeline.owner.is_empty() {
            return Err(Misfit(format!(
                "the broker holds a crawl '{}' of {}, this one is of nobody who is named: name its \
                 owner (owner), or give this one another name (crawl)",
                pipeline.crawl,
                held.owner_in_words()
            ))
            .into());
        }
        held.check(pipeline)?;
    }
    let begun = first(new_id(), pipeline, restore);
    join(bus, pipeline, buckets, Begins::This(Box::new(begun))).await
}

/// The identity of a crawl that begins under this id.
fn first(id: String, pipeline: &Pipeline, restore: Option<&Restore>) -> Identity {
    restore.map_or_else(
        || Identity::new(id.clone(), pipeline),
        |restore| restore.identity(id.clone(), pipeline),
    )
}

/// A crawl about to start, and the broker that it starts on.
pub(super) struct Membership<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) data: &'a Path,
    pub(super) bus: &'a Bus,
    pub(super) buckets: &'a Buckets,
    /// The checkpoint that it begins with.
    pub(super) restore: Option<&'a Restore>,
}

impl Membership<'_> {
    /// Finds out which crawl it is, and makes its streams. `accept_loss`: what is missing is
    /// accepted as lost.
    ///
    /// # Errors
    /// The parts do not fit together ([`Misfit`]), the broker does not answer, or the file cannot
    /// be written.
    pub(super) async fn settle(
        &self,
        tide: &mut Tide,
        accept_loss: bool,
    ) -> anyhow::Result<Identity> {
        let kept = self.kept()?;
        let held = self.buckets.register.read().await?;
        if let Some((held, _)) = &held {
            check_format(
                &format!("the crawl '{}' at the broker", self.pipeline.crawl),
                held.mark.format,
            )?;
        }
        if accept_loss && let Some(kept) = &kept {
            return self.go_on_after_loss(kept, held, tide).await;
        }
        let of = match (&kept, &held) {
            (Some(kept), Some((held, _)))
                if kept.id == held.mark.id && kept.generation <= held.generation() =>
            {
                None
            }
            (Some(kept), Some((held, _))) if kept.id == held.mark.id => {
                return Err(self.earlier(&held.mark, kept).into());
            }
            (Some(kept), Some((held, _))) => {
                return Err(self.another(&held.mark, &kept.to_string()).into());
            }
            // The start of the crawl was cut short, unless something was there already.
            (Some(kept), None) if !self.holds_state() && !self.has_streams().await? => {
                Some(kept.clone())
            }
            (Some(kept), None) => return Err(self.gone(kept).into()),
            (None, Some((held, _))) => return Err(self.another(&held.mark, "a new crawl").into()),
            (None, None) if self.holds_state() => return Err(self.nameless().into()),
            (None, None) if self.has_streams().await? => return Err(self.orphaned().into()),
            (None, None) => Some(first(new_id(), self.pipeline, self.restore).mark),
        };
        if let Some(mark) = &of {
            self.keep(mark)?;
        }
        let begins = match of {
            Some(mark) => {
                let begun = first(String::new(), self.pipeline, self.restore);
                Begins::This(Box::new(Identity { mark, ..begun }))
            }
            None => Begins::Any,
        };
        let identity = join(self.bus, self.pipeline, self.buckets, begins).await?;
        self.keep(&identity.mark)?;
        tide.look(self.bus).await?;
        Ok(identity)
    }

    /// Checks before anything is made that a crawl that is none yet can begin here.
    ///
    /// # Errors
    /// The data directory is that of another, or the broker holds streams of an earlier one
    /// ([`Misfit`]).
    pub(super) async fn check_new(&self) -> anyhow::Result<()> {
        if self.kept()?.is_some() || self.holds_state() {
            return Err(Misfit(format!(
                "the data directory {} is that of a crawl already: take another (--data DIR), or \
                 go on with that crawl (--resume)",
                self.data.display()
            ))
            .into());
        }
        if self.has_streams().await? {
            return Err(self.orphaned().into());
        }
        Ok(())
    }

    /// Begins another generation with what is there.
    async fn go_on_after_loss(
        &self,
        kept: &Mark,
        held: Option<(Identity, u64)>,
        tide: &mut Tide,
    ) -> anyhow::Result<Identity> {
        let (mut identity, revision) = match held {
            Some((held, _)) if held.mark.id != kept.id => {
                return Err(self.another(&held.mark, &kept.to_string()).into());
            }
            Some((held, revision)) => (held, Some(revision)),
            None => (Identity::new(kept.id.clone(), self.pipeline), None),
        };
        let begun = identity.generation();
        identity.mark.generation = begun.max(kept.generation) + 1;
        identity.check(self.pipeline)?;
        let lost = tide.accept(self.bus).await?;
        // Unless it was counted before, by a start that was cut short.
        if begun <= kept.generation {
            for (edge, messages) in &lost {
                *identity.lost.entry(edge.clone()).or_default() += messages;
            }
        }
        begin_generation(self.bus, self.pipeline, self.buckets, &identity, revision).await?;
        self.keep(&identity.mark)?;
        tide.write();
        self.say_what_is_lost(&identity, &lost);
        Ok(identity)
    }

    fn say_what_is_lost(&self, identity: &Identity, lost: &BTreeMap<String, u64>) {
        let edges: Vec<String> = lost
            .iter()
            .map(|(edge, messages)| format!("{edge} {messages}"))
            .collect();
        let edges = if edges.is_empty() {
            "none".to_owned()
        } else {
            edges.join(", ")
        };
        tracing::warn!(
            "generation {} of the crawl begins; messages lost: {edges}",
            identity.generation()
        );
        for (stage, common) in self.pipeline.stages.common() {
            for instance in 0..common.replicas {
                let folder = self.pipeline.instance_dir(stage, instance);
                if owns_partitions(stage)
                    && !self.data.join(stage).join(instance.to_string()).exists()
                {
                    let means = match stage {
                        "dedup" => {
                            "URLs that it had seen are new again when they are found, and may be \
                             fetched again"
                        }
                        _ => "URLs that waited there are not fetched",
                    };
                    tracing::warn!("the state in {} is gone: {means}", folder.display());
                }
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.data.join(KEPT)
    }

    fn kept(&self) -> anyhow::Result<Option<Mark>> {
        let path = self.file();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let mark: Mark = serde_json::from_slice(&bytes).map_err(|error| {
            Misfit(format!(
                "{} is damaged ({error}): put it back, or begin anew (rhumb delete)",
                path.display()
            ))
        })?;
        check_format(
            &format!("the crawl in the data directory {}", self.data.display()),
            mark.format,
        )?;
        Ok(Some(mark))
    }

    fn keep(&self, mark: &Mark) -> anyhow::Result<()> {
        let path = self.file();
        whole_file::replace(&path, &serde_json::to_vec(mark)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn holds_state(&self) -> bool {
        let stages = self.pipeline.stages.common();
        stages
            .iter()
            .any(|(stage, _)| owns_partitions(stage) && self.data.join(stage).exists())
    }

    async fn has_streams(&self) -> anyhow::Result<bool> {
        for stream in stream_names(self.bus, self.pipeline) {
            if stream_info(self.bus, &stream).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn another(&self, held: &Mark, expected: &str) -> Misfit {
        Misfit(format!(
            "the broker holds {held} under the name '{}', the data directory {} is that of \
             {expected}: name the data directory of that crawl (--data DIR) or the broker of this \
             one (broker.url), give this one another name (--set crawl=NAME), or delete what the \
             broker holds (rhumb delete)",
            self.pipeline.crawl,
            self.data.display()
        ))
    }

    fn earlier(&self, held: &Mark, kept: &Mark) -> Misfit {
        Misfit(format!(
            "the broker holds {held}, the data directory {} is that of generation {}: the broker \
             was restored from an earlier copy; {WAYS_OUT}",
            self.data.display(),
            kept.generation
        ))
    }

    fn gone(&self, kept: &Mark) -> Misfit {
        Misfit::gone(&format!(
            "{kept}, which the data directory {} holds,",
            self.data.display()
        ))
    }

    fn nameless(&self) -> Misfit {
        Misfit(format!(
            "the data directory {} holds the state of a crawl that it does not name: {KEPT} is \
             gone, or the crawl is of a format before {FORMAT}; put the file back, or finish the \
             crawl with the version that began it, or delete it (rhumb delete)",
            self.data.display()
        ))
    }

    fn orphaned(&self) -> Misfit {
        Misfit(format!(
            "the broker holds streams of an earlier crawl '{}' whose state is not in the data \
             directory {}: name its data directory (--data DIR), give this crawl another name \
             (--set crawl=NAME), or delete that one (rhumb delete)",
            self.pipeline.crawl,
            self.data.display()
        ))
    }
}
