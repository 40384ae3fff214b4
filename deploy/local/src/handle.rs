//! How commands find a running crawl: `control.json` in its data directory names broker and crawl.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shared::bus::Bus;
use shared::config::{Layers, Pipeline};
use std::path::Path;

/// What `control.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handle {
    /// Where the broker listens.
    pub broker: String,
    /// Name of the crawl.
    pub crawl: String,
    /// Process id of the supervising `rhumb`.
    pub pid: u32,
    /// The crawl's configuration file, if one was given.
    pub config: Option<std::path::PathBuf>,
    /// The crawl's `--set` assignments.
    pub set: Vec<String>,
}

impl Handle {
    /// Writes it for other commands to find; replaces the old one in one step.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        let path = Pipeline::control_file(data);
        let new = path.with_extension("json.new");
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)
            .and_then(|()| std::fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads that of a data directory; none when there is none.
    pub fn read(data: &Path) -> anyhow::Result<Option<Handle>> {
        let path = Pipeline::control_file(data);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let handle =
                    serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
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

/// A connection to a crawl that runs already, with the configuration it runs with.
pub struct Running {
    /// Its configuration.
    pub pipeline: Pipeline,
    /// Its broker.
    pub bus: Bus,
}

/// Finds the running crawl that a configuration points to: by `control.json` in its data directory, else by
/// `broker.url`.
pub async fn find(layers: &Layers) -> anyhow::Result<Running> {
    // Who only finds a crawl contacts no web: no contact address is asked for.
    let mut own = layers.clone();
    own.set.push("network.allow_private_addresses=true".into());
    let own = own.load()?;
    let (pipeline, url) = match Handle::read(&own.data)? {
        Some(handle) => {
            let mut set = handle.set.clone();
            set.extend(layers.set.iter().cloned());
            let file = layers.file.clone().or(handle.config);
            (Layers { file, set }.load()?, handle.broker)
        }
        None if !own.broker.url.is_empty() => {
            let url = own.broker.url.clone();
            (own, url)
        }
        None => anyhow::bail!(
            "no crawl runs in {} (no control.json there) and broker.url is empty: name its data directory with --data, or its broker with --set broker.url=nats://host:port",
            own.data.display()
        ),
    };
    let connecting = Bus::connect(&url, &pipeline, "rhumb");
    let bus = tokio::time::timeout(std::time::Duration::from_secs(5), connecting).await.map_err(|_| {
        anyhow::anyhow!(
            "the broker at {url} does not answer: the crawl has stopped? `rhumb crawl --resume` continues it"
        )
    })??;
    Ok(Running { pipeline, bus })
}
