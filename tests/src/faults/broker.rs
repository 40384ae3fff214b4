//! Broker: a nats-server that the suite runs and breaks, behind a proxy.
//!
//! In: faults. Out: the address that a crawl is given. Invariant: server and proxy have ended when
//! the value is dropped.

use super::proxy::Proxy;
use rhumb::broker::{Broker, BrokerOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

/// A broker of the suite.
pub(crate) struct OwnBroker {
    runtime: Runtime,
    broker: Broker,
    proxy: Proxy,
    url: String,
    folder: PathBuf,
}

impl OwnBroker {
    /// Starts one whose files lie in the folder.
    ///
    /// # Panics
    /// When it cannot be started.
    pub(crate) fn start(folder: &Path) -> OwnBroker {
        let runtime = Runtime::new().expect("a runtime");
        let options = BrokerOptions::new(folder.join("files"));
        let broker = runtime.block_on(Broker::start(options)).expect("a broker");
        let place = broker
            .url()
            .rsplit(['/', '@'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let proxy = Proxy::start(place.parse().expect("an address")).expect("a proxy");
        let url = broker.url().replace(&place, &proxy.address().to_string());
        OwnBroker {
            runtime,
            broker,
            proxy,
            url,
            folder: folder.to_owned(),
        }
    }

    /// The address of the proxy before it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn pid(&self) -> u32 {
        self.broker.pid()
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(crate) fn kill(&mut self) {
        self.broker.kill().expect("a broker that can be killed");
    }

    pub(crate) fn restart(&mut self) {
        self.runtime
            .block_on(self.broker.restart())
            .expect("a broker that starts again");
    }

    /// Copies its files as they are at one moment.
    pub(crate) fn keep_copy(&self) {
        let _ = fs::remove_dir_all(self.copy());
        signal_to(self.pid(), Signal::STOP);
        let copied = copy_folder(&self.store(), &self.copy());
        signal_to(self.pid(), Signal::CONT);
        copied.expect("a copy of the broker's files");
    }

    /// Kills it and starts it with the files that were kept.
    pub(crate) fn restore(&mut self) {
        self.kill();
        fs::remove_dir_all(self.store()).expect("files that can be removed");
        copy_folder(&self.copy(), &self.store()).expect("a copy of the broker's files");
        self.restart();
    }

    fn store(&self) -> PathBuf {
        self.folder.join("files").join("jetstream")
    }

    fn copy(&self) -> PathBuf {
        self.folder.join("copy")
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.proxy.end();
        // It ends at once also when it stands still.
        let _ = self.broker.kill();
    }
}

/// Sends a process a signal, if it is there.
pub(crate) fn signal_to(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
