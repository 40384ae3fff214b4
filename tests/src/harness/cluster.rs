//! Cluster: a broker of the operator's, of one nats-server or of several, on loopback.
//!
//! Invariant: its servers have ended when its value is dropped.

use super::command::POLL;
use async_nats::jetstream;
use rhumb_node::{Holder, holders};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long servers may take until they have found each other and store messages.
const START_AT_MOST: Duration = Duration::from_secs(30);

/// A broker.
pub struct Cluster {
    servers: Vec<Server>,
    user: Option<(String, String)>,
    _folder: TempDir,
}

struct Server {
    port: u16,
    process: Child,
}

impl Cluster {
    /// Starts so many servers, which let in everybody or only who knows this name and password.
    ///
    /// # Panics
    /// When they do not start.
    pub fn start(servers: usize, user: Option<(&str, &str)>) -> Cluster {
        let folder = TempDir::new().expect("a temporary folder");
        let executable = rhumb::broker::find_or_install().expect("a nats-server");
        let ports = free_ports(servers);
        let routes = free_ports(servers);
        let started = (0..servers).map(|n| {
            let config = folder.path().join(format!("{n}.conf"));
            let text = config_text(n, ports[n], &routes, user, folder.path());
            std::fs::write(&config, text).expect("a configuration");
            let process = Command::new(&executable)
                .arg("-c")
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a nats-server starts");
            Server {
                port: ports[n],
                process,
            }
        });
        let servers = started.collect();
        let user = user.map(|(name, password)| (name.to_owned(), password.to_owned()));
        let cluster = Cluster {
            servers,
            user,
            _folder: folder,
        };
        cluster.until_ready();
        cluster
    }

    /// The `broker.url` of all its servers, without name and password.
    pub fn url(&self) -> String {
        let urls: Vec<String> = self
            .servers
            .iter()
            .map(|server| format!("nats://127.0.0.1:{}", server.port))
            .collect();
        urls.join(",")
    }

    /// The server that leads a stream.
    ///
    /// # Panics
    /// When nobody says.
    pub fn leader_of(&self, stream: &str) -> usize {
        let name = block_on(async {
            let jetstream = self.jetstream().await.ok()?;
            jetstream
                .get_stream(stream)
                .await
                .ok()?
                .cached_info()
                .cluster
                .as_ref()?
                .leader
                .clone()
        });
        name.and_then(|name| name.strip_prefix('n')?.parse().ok())
            .expect("a stream of the cluster has a leader")
    }

    /// How many servers a stream is kept on.
    ///
    /// # Panics
    /// When nobody says.
    pub fn replicas_of(&self, stream: &str) -> usize {
        let replicas = block_on(async {
            let jetstream = self.jetstream().await.ok()?;
            Some(
                jetstream
                    .get_stream(stream)
                    .await
                    .ok()?
                    .cached_info()
                    .config
                    .num_replicas,
            )
        });
        replicas.expect("there is such a stream")
    }

    /// The leases of the crawl `default` that somebody holds, and who does.
    pub fn leases(&self) -> BTreeMap<String, Holder> {
        let leases = block_on(async {
            let bucket = self
                .jetstream()
                .await
                .ok()?
                .get_key_value("rhumb_default_leases")
                .await
                .ok()?;
            holders(&bucket).await.ok()
        });
        leases.unwrap_or_default()
    }

    /// How many streams there are, those of buckets among them.
    ///
    /// # Panics
    /// When nobody says.
    pub fn streams(&self) -> usize {
        let account = block_on(async { self.jetstream().await.ok()?.query_account().await.ok() });
        account.expect("the broker answers").streams
    }

    /// Kills a server.
    ///
    /// # Panics
    /// When it has ended.
    pub fn kill(&mut self, server: usize) {
        let process = &mut self.servers[server].process;
        process.kill().expect("it runs");
        process.wait().expect("it ends");
    }

    async fn jetstream(&self) -> Result<jetstream::Context, async_nats::ConnectError> {
        let options = match &self.user {
            None => async_nats::ConnectOptions::new(),
            Some((name, password)) => {
                async_nats::ConnectOptions::with_user_and_password(name.clone(), password.clone())
            }
        };
        let urls: Vec<String> = self.url().split(',').map(str::to_owned).collect();
        let mut jetstream = jetstream::new(options.connect(urls).await?);
        jetstream.set_timeout(Duration::from_secs(2));
        Ok(jetstream)
    }

    /// Waits until a stream can be made on all servers.
    fn until_ready(&self) {
        let end = Instant::now() + START_AT_MOST;
        let config = jetstream::stream::Config {
            name: "READY".to_owned(),
            num_replicas: self.servers.len(),
            ..Default::default()
        };
        while !block_on(async {
            let Ok(jetstream) = self.jetstream().await else {
                return false;
            };
            jetstream.create_stream(config.clone()).await.is_ok()
                && jetstream.delete_stream("READY").await.is_ok()
        }) {
            assert!(
                Instant::now() < end,
                "the broker is not ready within {START_AT_MOST:?}"
            );
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.process.kill();
            let _ = server.process.wait();
        }
    }
}

fn config_text(
    n: usize,
    port: u16,
    routes: &[u16],
    user: Option<(&str, &str)>,
    folder: &Path,
) -> String {
    let store = folder.join(format!("store-{n}"));
    let mut text = format!(
        "server_name: n{n}\nlisten: \"127.0.0.1:{port}\"\nmax_payload: 8MB\njetstream {{ \
         store_dir: \"{}\" }}\n",
        store.display()
    );
    if let Some((name, password)) = user {
        text.push_str(&format!(
            "authorization {{ user: \"{name}\", password: \"{password}\" }}\n"
        ));
    }
    if routes.len() > 1 {
        let all: Vec<String> = routes
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        let all = all.join(", ");
        text.push_str(&format!(
            "cluster {{ name: c, listen: \"127.0.0.1:{}\", routes: [{all}] }}\n",
            routes[n]
        ));
    }
    text
}

/// Ports that were free a moment ago.
pub(super) fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
        .collect();
    sockets
        .iter()
        .map(|socket| socket.local_addr().expect("an address").port())
        .collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
