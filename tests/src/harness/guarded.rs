//! Guarded: a broker that lets in the users of `rhumb auth` alone, over TLS, on loopback.
//!
//! Invariant: it has ended when its value is dropped.

use super::cluster::free_ports;
use super::command::{POLL, Said, binaries, path_text, rhumb, run};
use async_nats::ConnectError;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rhumb_bus::Access;
use rhumb_config::{Layers, Pipeline};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the server may take to start, or to read its configuration again.
const READY_AT_MOST: Duration = Duration::from_secs(20);

/// Lines of the broker's log that a test which fails shows.
const VIOLATIONS_SHOWN: usize = 20;

/// A broker with access control.
pub struct Guarded {
    port: u16,
    process: Child,
    folder: TempDir,
}

impl Guarded {
    /// Writes the users of the crawl `default` and certificates, and starts a nats-server that has
    /// both. `account`: the users are in an account of that name.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(account: Option<&str>) -> Guarded {
        let folder = TempDir::new().expect("a temporary folder");
        let port = free_ports(1)[0];
        certificates(folder.path());
        let said = auth(
            folder.path(),
            &account.map_or(vec![], |name| vec!["--account", name]),
        );
        assert_eq!(said.code, 0, "{}", said.err);
        let config = folder.path().join("broker.conf");
        std::fs::write(&config, config_text(port, folder.path())).expect("a configuration");
        let log = File::create(folder.path().join("broker.log")).expect("a log");
        let process = Command::new(rhumb::broker::find_or_install().expect("a nats-server"))
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a nats-server starts");
        let broker = Guarded {
            port,
            process,
            folder,
        };
        broker.until_ready();
        broker
    }

    /// Its `broker.url`.
    pub fn url(&self) -> String {
        format!("tls://127.0.0.1:{}", self.port)
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file with the seed of a user.
    pub fn seed_file(&self, user: &str) -> PathBuf {
        self.file("users").join(format!("{user}.nk"))
    }

    /// The seed of a user.
    ///
    /// # Panics
    /// When it has none.
    pub fn seed(&self, user: &str) -> String {
        std::fs::read_to_string(self.seed_file(user))
            .expect("a seed")
            .trim()
            .to_owned()
    }

    /// The public keys of all users, by their names.
    ///
    /// # Panics
    /// When the command does not tell.
    pub fn public_keys(&self) -> BTreeMap<String, String> {
        let said = auth(self.folder.path(), &["--json"]);
        let lines = said
            .out
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        lines
            .map(|line| (text(&line["user"]), text(&line["nkey"])))
            .collect()
    }

    /// What a process has to be told to be this user.
    pub fn settings(&self, user: &str) -> [String; 3] {
        [
            format!("broker.url={}", self.url()),
            format!("broker.credentials={}", path_text(&self.seed_file(user))),
            format!("broker.ca={}", path_text(&self.file("ca.pem"))),
        ]
    }

    /// Runs a `rhumb` command as this user, with further arguments.
    ///
    /// # Panics
    /// When it cannot be run or does not end in time.
    pub fn rhumb(&self, user: &str, arguments: &[&str]) -> Said {
        let mut all: Vec<String> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        for setting in self.settings(user) {
            all.extend(["--set".to_owned(), setting]);
        }
        rhumb(&all)
    }

    /// A connection of a user.
    ///
    /// # Errors
    /// The broker does not let it in.
    ///
    /// # Panics
    /// When its files cannot be used.
    pub async fn client(&self, user: &str) -> Result<async_nats::Client, ConnectError> {
        let access =
            Access::of(&self.url(), &self.pipeline(user).broker).expect("files that can be used");
        access.options().connect(access.addresses()).await
    }

    /// The configuration of a process that is this user.
    ///
    /// # Panics
    /// When it cannot be used.
    pub fn pipeline(&self, user: &str) -> Pipeline {
        let set = self
            .settings(user)
            .into_iter()
            .chain(["network.allow_private_addresses=true".to_owned()])
            .collect();
        Layers { file: None, set }
            .load_with(std::iter::empty())
            .expect("a configuration")
    }

    /// Makes a new key for a user, as `rhumb auth --rotate` does, and has the broker read its
    /// configuration again.
    ///
    /// # Panics
    /// When the command fails, or the broker has ended.
    pub fn rotate(&self, user: &str) {
        let said = auth(self.folder.path(), &["--rotate", user]);
        assert_eq!(said.code, 0, "{}", said.err);
        kill_process(Pid::from_child(&self.process), Signal::HUP).expect("the broker runs");
        let end = Instant::now() + READY_AT_MOST;
        while !self.log().contains("Reloaded server configuration") {
            assert!(Instant::now() < end, "{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    /// What the broker wrote into its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("broker.log")).unwrap_or_default()
    }

    /// The lines of its log about what users were refused, each once.
    pub fn violations(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .log()
            .lines()
            .filter(|line| line.contains("Violation"))
            .map(after_connection)
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    fn until_ready(&self) {
        let end = Instant::now() + READY_AT_MOST;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        while let Err(error) = runtime.block_on(self.client("operator")) {
            assert!(
                Instant::now() < end,
                "the broker is not ready ({error}):\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let violations = self.violations();
            eprintln!(
                "{} refusals of the broker, the first are:",
                violations.len()
            );
            violations
                .iter()
                .take(VIOLATIONS_SHOWN)
                .for_each(|line| eprintln!("  {line}"));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a line of the broker's log says, without time and connection.
fn after_connection(line: &str) -> String {
    line.split_once(" - ")
        .map_or(line, |(_, what)| what)
        .to_owned()
}

fn auth(folder: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(binaries().join("rhumb"));
    run(
        command
            .args(["auth", "--out", "users"])
            .args(arguments)
            .current_dir(folder),
        READY_AT_MOST,
    )
}

/// Writes the certificate of an authority, `ca.pem`, and of a server on loopback by it,
/// `server.pem` and `server.key`; and `other-ca.pem`, of another authority.
fn certificates(folder: &Path) {
    let write =
        |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a certificate");
    let authority = || {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        (Issuer::new(params, key), certificate)
    };
    let (issuer, certificate) = authority();
    write("ca.pem", &certificate);
    write("other-ca.pem", &authority().1);
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).expect("the name of a server");
    write(
        "server.pem",
        &server
            .signed_by(&key, &issuer)
            .expect("a certificate")
            .pem(),
    );
    write("server.key", &key.serialize_pem());
}

fn config_text(port: u16, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "listen: \"127.0.0.1:{port}\"\nmax_payload: 8MB\njetstream {{ store_dir: \
         \"{folder}/store\" }}\n\
         tls {{ cert_file: \"{folder}/server.pem\", key_file: \"{folder}/server.key\" }}\n\
         include \"users/users.conf\"\n"
    )
}
