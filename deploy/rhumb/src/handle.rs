//! How commands find a running crawl: `control.json` in its data directory names broker and crawl,
//! and `configuration.json` holds the configuration that it runs with.

use anyhow::Context as _;
use rhumb_bus::{Bus, Obstacle, find_buckets};
use rhumb_config::shown;
use rhumb_config::{Broker, ConfigError, Layers, Pipeline};
use rhumb_node::log;
use rhumb_telemetry::whole_file;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name that the program has in log lines, where stages have theirs.
pub(crate) const PROGRAM: &str = "rhumb";

/// What `control.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handle {
    /// Where the broker listens.
    pub broker: String,
    /// Name of the crawl.
    pub crawl: String,
}

impl Handle {
    /// Writes it for other commands to find; replaces the old one in one step.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        write(
            &Pipeline::control_file(data),
            &serde_json::to_vec_pretty(self)?,
        )
    }

    /// Reads the handle in a data directory; none when no crawl runs there.
    pub fn read(data: &Path) -> anyhow::Result<Option<Handle>> {
        let path = Pipeline::control_file(data);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let handle = serde_json::from_slice(&bytes)
                    .with_context(|| format!("{} is damaged", path.display()))?;
                Ok(Some(handle))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Removes it when the crawl has stopped.
    pub fn remove(data: &Path) {
        let _ = std::fs::remove_file(Pipeline::control_file(data));
    }
}

/// An assignment for `--set`, quoted for YAML: a path may look like a number or a list.
pub fn assignment(key: &str, value: &str) -> String {
    format!("{key}={}", serde_json::Value::from(value))
}

/// A connection to a crawl that runs already, with the configuration it runs with.
pub struct Running {
    /// Its configuration.
    pub pipeline: Pipeline,
    /// Where its broker listens.
    pub broker: String,
    /// A connection to the broker.
    pub bus: Bus,
    /// Whether it was found by `control.json`, which goes when the crawl stops.
    has_handle: bool,
}

impl Running {
    /// Whether the crawl has stopped: its `control.json` is gone. Never of a crawl that was found
    /// by `broker.url`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn has_stopped(&self) -> anyhow::Result<bool> {
        Ok(self.has_handle && Handle::read(&self.pipeline.data)?.is_none())
    }
}

/// Loads a configuration for a command that contacts no web, which needs no contact address.
///
/// # Errors
/// The configuration is bad.
pub fn local(layers: &Layers) -> Result<Pipeline, ConfigError> {
    let mut layers = layers.clone();
    layers
        .set
        .push("network.allow_private_addresses=true".into());
    layers.load()
}

/// Tells the operator what to mend in a configuration one day.
pub fn warn(pipeline: &Pipeline) {
    for warning in &pipeline.warnings {
        tracing::warn!("{warning}");
    }
}

/// Puts the layers on top of the configuration that the crawl in their data directory runs or ran
/// with. They stay as they are when no crawl is there, or when they name a file of their own.
///
/// # Errors
/// The configuration is bad.
pub fn resumed(layers: Layers) -> Result<Layers, ConfigError> {
    let data = local(&layers)?.data;
    let kept = Pipeline::kept_file(&data);
    if layers.file.is_some() || !kept.exists() {
        return Ok(layers);
    }
    let mut set = layers.set;
    set.push(assignment("data", &data.display().to_string()));
    Ok(Layers {
        file: Some(kept),
        set,
    })
}

/// The configuration that the crawl in a data directory runs or ran with; none when there is no
/// crawl.
///
/// # Errors
/// It is damaged.
pub fn kept(data: &Path) -> Result<Option<Pipeline>, ConfigError> {
    let file = Pipeline::kept_file(data);
    if !file.exists() {
        return Ok(None);
    }
    // What the crawl was given in arguments and environment is in there, too.
    let set = vec![assignment("data", &data.display().to_string())];
    Layers {
        file: Some(file),
        set,
    }
    .load_with(std::iter::empty())
    .map(Some)
}

/// Keeps the configuration of a crawl in its data directory, for commands and for `--resume`.
///
/// # Errors
/// The file cannot be written.
pub fn keep(layers: &Layers, data: &Path) -> anyhow::Result<()> {
    write(&Pipeline::kept_file(data), layers.text()?.as_bytes())
}

/// Replaces a file that others cannot read: it may hold a password of the broker.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    whole_file::replace(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The name of a crawl to which nobody gave another.
pub(crate) const UNNAMED: &str = "default";
/// How long the broker may take to answer a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Finds the running crawl that a configuration points to: by `broker.url`, if one is named, else
/// by `control.json` in its data directory. The configuration that it runs with lies at the broker,
/// too.
///
/// # Errors
/// The configuration is bad, no crawl runs there, or its broker does not answer within five
/// seconds.
pub async fn find(layers: &Layers) -> anyhow::Result<Running> {
    let own = local(layers)?;
    log::begin(&own.log, PROGRAM);
    let handle = Handle::read(&own.data)?;
    let named = Some(own.broker.url.clone()).filter(|url| !url.is_empty());
    match (named, handle) {
        (Some(url), handle)
            if handle
                .as_ref()
                .is_none_or(|handle| !is_meant(handle, &url, &own)) =>
        {
            let running = connect(url, own, false).await?;
            over_kept(layers, running).await
        }
        (_, Some(handle)) => {
            let mut pipeline = kept(&own.data)?.unwrap_or_else(|| own.clone());
            take_access(&mut pipeline.broker, own.broker);
            connect(handle.broker, pipeline, true).await
        }
        (_, None) => anyhow::bail!(
            "no crawl runs in {} (no control.json there) and broker.url is empty: name its data \
             directory with --data, or its broker with --set broker.url=nats://host:port",
            own.data.display()
        ),
    }
}

/// Returns whether the crawl of a data directory is the one that a configuration names by its
/// broker, and maybe by its name.
fn is_meant(handle: &Handle, url: &str, own: &Pipeline) -> bool {
    shown(&handle.broker) == shown(url) && (own.crawl == UNNAMED || own.crawl == handle.crawl)
}

async fn connect(url: String, pipeline: Pipeline, has_handle: bool) -> anyhow::Result<Running> {
    let connecting = Bus::connect_within(ANSWER_MAX, &url, &pipeline, "rhumb");
    let bus = connecting
        .await
        .map_err(|error| match error.downcast_ref() {
            Some(Obstacle::Unreachable(why)) => {
                anyhow::anyhow!("{why}: the crawl has stopped? `rhumb crawl --resume` continues it")
            }
            _ => error,
        })?;
    Ok(Running {
        pipeline,
        broker: url,
        bus,
        has_handle,
    })
}

/// Takes over what the asker's configuration says of credentials: who asks may be another user than
/// the crawl.
fn take_access(of: &mut Broker, own: Broker) {
    if !own.credentials.as_os_str().is_empty() {
        (of.credentials, of.user) = (own.credentials, own.user);
    }
    if !own.ca.as_os_str().is_empty() {
        of.ca = own.ca;
    }
}

/// Takes the configuration that lies at the broker in the place of what only the crawl itself is
/// given.
async fn over_kept(layers: &Layers, running: Running) -> anyhow::Result<Running> {
    let asked = async {
        let Some(buckets) = find_buckets(&running.bus).await? else {
            return Ok(None);
        };
        buckets.register.configuration().await
    };
    let Some(text) = tokio::time::timeout(ANSWER_MAX, asked)
        .await
        .context("the broker does not answer")??
    else {
        return Ok(running);
    };
    let mut layers = layers.clone();
    layers
        .set
        .push("network.allow_private_addresses=true".into());
    let mut pipeline = layers.load_over(&text)?;
    pipeline.broker = running.pipeline.broker;
    let bus = Bus {
        subjects: Arc::new(pipeline.subjects()),
        ..running.bus
    };
    Ok(Running {
        pipeline,
        bus,
        ..running
    })
}
