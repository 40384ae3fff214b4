//! The private nats-server of a crawl: started with it, stopped with it, found or installed by
//! itself.
//!
//! In: a data directory and a few settings ([`BrokerOptions`]). Out: a running server on loopback
//! whose JetStream store lies below that directory ([`Broker`]), its address with the token that it
//! asks for, its pid, and the means to supervise it.
//!
//! Invariants: one server per data directory, guarded by a lock on `broker.lock` which the
//! operating system releases however its holder dies; whoever holds the lock ends any server that a
//! killed holder left behind. The port stays the same over a restart, so that clients find the
//! server again. The server is in a process group of its own: Ctrl-C on the terminal reaches the
//! crawl, which drains before it stops the server. It listens on loopback alone and lets in who
//! knows its token, which no other user of this machine can read; it has no other port.

mod config;
mod install;
mod process;
mod token;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;

use crate::lock::lock;
use rhumb_telemetry::whole_file;

pub use self::install::{find_or_install, find_or_install_in};
use self::process::Server;
pub(crate) use self::token::TOKEN;

/// How often a new port is tried when another process takes one between probe and start.
const PORT_ATTEMPTS: u32 = 16;
/// Wait between two looks at something that is about to change.
const POLL: Duration = Duration::from_millis(10);
/// How long a server may take to end after SIGTERM before it gets SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Longest INFO line read, in bytes; a real one is below 2 KiB.
const INFO_BYTES_MAX: u64 = 64 * 1024;
/// Lines of the log shown when a start fails.
const LOG_TAIL_LINES: usize = 12;

/// What a private nats-server is started with.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// Directory of `broker.conf`, `broker.token`, `broker.lock` and the store `jetstream/`;
    /// created when missing.
    pub data: PathBuf,
    /// The server's log; appended to, rotated by the server at 16 MiB, two old files kept.
    pub log_file: PathBuf,
    /// Port for clients on 127.0.0.1; 0 chooses a free one outside the range the system gives to
    /// outgoing connections.
    pub port: u16,
    /// How often the store is flushed to disk. Acknowledged messages survive the death of any
    /// process at every value; a power cut may take what is younger than this. Zero flushes before
    /// every acknowledgement (slow).
    pub sync_interval: Duration,
    /// Largest message in bytes, from 1 KiB to 64 MiB; the server warns above 8 MiB.
    pub max_payload: u32,
    /// How long a start may take until clients are answered. A large store that was not closed
    /// properly is read through first; a server that dies is reported at once.
    pub start_timeout: Duration,
    /// Environment variables added for the server, such as `GOGC` or `GOMEMLIMIT`.
    pub env: Vec<(String, String)>,
}

impl BrokerOptions {
    /// The usual settings for a store under `data`: any free port, 8 MiB messages, a flush every
    /// two minutes (the server's own default), a minute to start, and the log in `data/broker.log`.
    pub fn new(data: impl Into<PathBuf>) -> BrokerOptions {
        let data = data.into();
        BrokerOptions {
            log_file: data.join("broker.log"),
            data,
            port: 0,
            sync_interval: Duration::from_secs(120),
            max_payload: 8 * 1024 * 1024,
            start_timeout: Duration::from_secs(60),
            env: Vec::new(),
        }
    }
}

/// A running private nats-server. Dropping it kills the server and waits for its end.
#[derive(Debug)]
pub struct Broker {
    // Declared before the lock: the server has ended before another owner may start one here.
    server: Server,
    setup: Setup,
    port: u16,
    url: String,
    _lock: File,
}

/// Where the server lives and how it is started: stays the same over every start.
#[derive(Debug)]
struct Setup {
    executable: PathBuf,
    options: BrokerOptions,
    config_file: PathBuf,
    token: String,
}

/// How a start ended that did not fail for good.
enum Started {
    Ready(Server),
    /// By what the next try may not meet.
    Prevented(String),
}

impl Broker {
    /// Starts a server and returns once it answers clients; JetStream is ready by then.
    ///
    /// Finds or installs the executable first ([`find_or_install`]). A server left in this data
    /// directory by an owner that was killed is ended.
    ///
    /// # Errors
    /// No executable; the data directory belongs to a living owner; a fixed port is taken; or the
    /// server dies or stays silent for `start_timeout` (the message then ends with its log's last
    /// lines).
    pub async fn start(options: BrokerOptions) -> Result<Broker> {
        let executable = tokio::task::spawn_blocking(find_or_install)
            .await
            .context("looking for nats-server")??;
        let (setup, lock) = Setup::prepare(executable, options).await?;
        process::end_stale(&setup.config_file, STOP_PATIENCE).await?;
        let (server, port) = setup.start_somewhere().await?;
        tracing::debug!(pid = server.pid(), port, "nats-server started");
        let url = format!("nats://{}@127.0.0.1:{port}", setup.token);
        Ok(Broker {
            server,
            setup,
            port,
            url,
            _lock: lock,
        })
    }

    /// The address for clients, `nats://TOKEN@127.0.0.1:PORT`; the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The pid of the server started last; it may have ended.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// How the server ended, or `None` while it runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.server.try_wait()
    }

    /// Ends the server: SIGTERM, on which it closes its store, and SIGKILL when it is not gone ten
    /// seconds later. Does nothing when it has ended already. The data directory stays reserved, so
    /// [`Broker::restart`] may follow.
    ///
    /// # Errors
    /// Only when the operating system refuses the signal.
    pub async fn stop(&mut self) -> Result<()> {
        self.server.stop(STOP_PATIENCE).await
    }

    /// Ends the server with SIGKILL, as a crash would, and waits for its end.
    ///
    /// # Errors
    /// Only when the operating system refuses the signal.
    pub fn kill(&mut self) -> Result<()> {
        self.server.kill()
    }

    /// Starts the server again on the same port and store, after stopping it where it still runs.
    ///
    /// # Errors
    /// As for [`Broker::start`]. A port that another process has taken meanwhile, and a start that
    /// somebody kills, are tried again until `start_timeout`. It may be called again.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let deadline = Instant::now() + self.setup.options.start_timeout;
        loop {
            match self.setup.start_on(self.port).await? {
                Started::Ready(server) => {
                    self.server = server;
                    tracing::debug!(
                        pid = self.server.pid(),
                        port = self.port,
                        "nats-server restarted"
                    );
                    return Ok(());
                }
                Started::Prevented(message) if Instant::now() >= deadline => bail!(message),
                Started::Prevented(_) => tokio::time::sleep(POLL * 20).await,
            }
        }
    }
}

impl Setup {
    /// Creates the directories and takes the data directory's lock.
    async fn prepare(executable: PathBuf, mut options: BrokerOptions) -> Result<(Setup, File)> {
        config::check(&options)?;
        let data = &options.data;
        fs::create_dir_all(data)
            .with_context(|| format!("creating the data directory {}", data.display()))?;
        options.data =
            fs::canonicalize(data).with_context(|| format!("opening {}", data.display()))?;
        options.log_file =
            std::path::absolute(&options.log_file).context("locating the broker's log")?;
        if let Some(folder) = options.log_file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let lock = lock(&options.data.join("broker.lock")).await?;
        let config_file = options.data.join("broker.conf");
        let token = token::of(&options.data)?;
        Ok((
            Setup {
                executable,
                options,
                config_file,
                token,
            },
            lock,
        ))
    }

    /// Starts on the configured port, or on a free one. A probe cannot keep a port for the server,
    /// so a port lost to another process in between only costs another attempt.
    async fn start_somewhere(&self) -> Result<(Server, u16)> {
        let mut last = String::new();
        for _ in 0..PORT_ATTEMPTS {
            let port = if self.options.port == 0 {
                free_port()?
            } else {
                self.options.port
            };
            match self.start_on(port).await? {
                Started::Ready(server) => return Ok((server, port)),
                Started::Prevented(message) => last = message,
            }
        }
        bail!(last)
    }

    /// Writes the configuration, starts the server and waits until it answers.
    async fn start_on(&self, port: u16) -> Result<Started> {
        let log_file = &self.options.log_file;
        // The name proves that the server which answers on the port is this one.
        let name = format!("rhumb-{}-{:08x}", std::process::id(), random() as u32);
        let text = config::render(&self.options, &name, port, &self.token)?;
        whole_file::replace(&self.config_file, text.as_bytes())
            .with_context(|| format!("writing {}", self.config_file.display()))?;
        let log_start = fs::metadata(log_file).map_or(0, |meta| meta.len());
        let mut server = Server::spawn(
            &self.executable,
            &self.config_file,
            log_file,
            &self.options.env,
        )?;

        let deadline = Instant::now() + self.options.start_timeout;
        loop {
            if answers_as(&name, port).await {
                return Ok(Started::Ready(server));
            }
            if let Some(status) = server.try_wait() {
                let log = log_since(log_file, log_start);
                let message = format!(
                    "nats-server on 127.0.0.1:{port} ended at start ({status}); {}",
                    tail(&log, log_file)
                );
                if log.contains("address already in use") || status.signal().is_some() {
                    return Ok(Started::Prevented(message));
                }
                bail!(message);
            }
            if Instant::now() >= deadline {
                let log = log_since(log_file, log_start);
                bail!(
                    "nats-server on 127.0.0.1:{port} did not answer within {:?}; {}",
                    self.options.start_timeout,
                    tail(&log, log_file)
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// A port that was free a moment ago.
///
/// It lies below the range of outgoing connections: while the server is down for a restart, no
/// connection of the crawl gets its port as a source port, and no client that keeps trying to
/// reconnect can connect to itself.
fn free_port() -> Result<u16> {
    const LOWEST: u16 = 10_000;
    let outgoing_from = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(32_768);
    let width = outgoing_from.saturating_sub(LOWEST).max(2_000);
    for _ in 0..1_000 {
        let port = LOWEST + (random() % u64::from(width)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!(
        "no free port on 127.0.0.1 between {LOWEST} and {}",
        LOWEST + width
    )
}

/// A number unlike that of other processes, for names and ports; not for secrets.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Whether the server of this name greets clients on the port.
async fn answers_as(name: &str, port: u16) -> bool {
    let greeting = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        let mut line = String::new();
        BufReader::new(stream.take(INFO_BYTES_MAX))
            .read_line(&mut line)
            .await
            .ok()?;
        let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
        Some(info.get("server_name")?.as_str()? == name)
    };
    tokio::time::timeout(Duration::from_secs(1), greeting)
        .await
        .ok()
        .flatten()
        .unwrap_or(false)
}

/// What the log gained since it was `start` bytes long, at most the last 64 KiB; all of it when it
/// was rotated.
fn log_since(path: &Path, start: u64) -> String {
    const BYTES_MAX: u64 = 64 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let start = if length < start { 0 } else { start };
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(BYTES_MAX))))?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The last lines of a log, introduced by where it is.
fn tail(log: &str, path: &Path) -> String {
    let lines: Vec<&str> = log.lines().collect();
    if lines.is_empty() {
        return format!("it wrote nothing to {}", path.display());
    }
    let last = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    format!("the end of {}:\n{}", path.display(), last.join("\n"))
}
