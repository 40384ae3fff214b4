//! Cluster: three nats-servers that the suite runs as one broker, and of which it kills one at a
//! time.
//!
//! Invariant: the servers have ended when the value is dropped.

use rhumb::broker::find_or_install;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Servers of the cluster.
pub(crate) const NODES: usize = 3;
/// Until all servers answer.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// Ports that no outgoing connection has.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

/// Three servers.
pub(crate) struct Cluster {
    executable: PathBuf,
    nodes: Vec<Node>,
}

struct Node {
    port: u16,
    config: PathBuf,
    server: Child,
}

impl Cluster {
    /// Starts them, each with a folder of its own.
    ///
    /// # Panics
    /// When they cannot be started.
    pub(crate) fn start(folder: &Path) -> Cluster {
        let executable = find_or_install().expect("a nats-server");
        let ports: Vec<u16> = free_ports(2 * NODES);
        let (clients, routes) = ports.split_at(NODES);
        let nodes = (0..NODES).map(|number| {
            let folder = folder.join(number.to_string());
            fs::create_dir_all(&folder).expect("a folder");
            let config = folder.join("node.conf");
            fs::write(&config, text_of(number, &folder, clients[number], routes))
                .expect("a configuration");
            Node {
                port: clients[number],
                server: spawn(&executable, &config),
                config,
            }
        });
        let cluster = Cluster {
            nodes: nodes.collect(),
            executable,
        };
        cluster.nodes.iter().for_each(Node::wait);
        cluster
    }

    /// The addresses of all.
    pub(crate) fn url(&self) -> String {
        let urls: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("nats://127.0.0.1:{}", node.port))
            .collect();
        urls.join(",")
    }

    /// Kills one.
    pub(crate) fn kill(&mut self, number: usize) {
        let Node { server, .. } = &mut self.nodes[number % NODES];
        let _ = server.kill();
        let _ = server.wait();
    }

    /// Starts it again with its files.
    pub(crate) fn restart(&mut self, number: usize) {
        self.kill(number);
        let node = &mut self.nodes[number % NODES];
        node.server = spawn(&self.executable, &node.config);
        node.wait();
    }
}

impl Node {
    fn wait(&self) {
        let end = Instant::now() + STARTS_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(
                Instant::now() < end,
                "the nats-server of {} does not answer",
                self.config.display()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..NODES).for_each(|number| self.kill(number));
    }
}

fn spawn(executable: &Path, config: &Path) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(config.with_extension("log"))
        .expect("a log");
    let mut command = Command::new(executable);
    command
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().expect("a nats-server that can be started")
}

fn text_of(number: usize, folder: &Path, port: u16, routes: &[u16]) -> String {
    let others: Vec<String> = routes
        .iter()
        .map(|route| format!("\"nats://127.0.0.1:{route}\""))
        .collect();
    format!(
        "server_name: node-{number}\nlisten: \"127.0.0.1:{port}\"\nmax_payload: 8388608\n\
         jetstream {{ store_dir: \"{}\", max_file_store: 10GB }}\n\
         cluster {{ name: faults, listen: \"127.0.0.1:{}\", routes: [{}] }}\n",
        folder.display(),
        routes[number],
        others.join(", ")
    )
}

fn free_ports(n: usize) -> Vec<u16> {
    let start = u64::from(std::process::id()) * 97;
    let width = u64::from(PORTS.end - PORTS.start);
    let ports = (start..start + width).map(|at| PORTS.start + (at % width) as u16);
    let ports: Vec<u16> = ports
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .take(n)
        .collect();
    assert_eq!(ports.len(), n, "free ports");
    ports
}
