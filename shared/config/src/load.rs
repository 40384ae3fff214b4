//! From files, environment and arguments to one checked configuration.

use super::defaults::{defaults, fill_in};
use super::error::ConfigError;
use super::given::Given;
use super::key_table::{Key, all_fields, keys};
use super::keys::Form;
use super::tree::{Tree, merge, set};
use super::yaml::{parse_value, parse_yaml};
use super::{Pipeline, edge_keys, range, topic, validate};
use crate::orders::Setting;
use serde::Deserialize as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Keys that name files and folders, as JSON pointers. The crawl's own folder is not one of them.
pub(super) fn files() -> impl Iterator<Item = String> {
    let is_file = |key: &Key| matches!(key.field.form, Form::Path) && key.path != "data";
    let pointer = |key: Key| format!("/{}", key.path.replace('.', "/"));
    keys().into_iter().filter(is_file).map(pointer)
}

/// Keys that are not for others to see, or mean nothing to them, as JSON pointers: what may hold
/// secrets, and places on one machine.
pub(super) const PRIVATE: [(&str, &str); 4] = [
    ("", "broker"),
    ("", "data"),
    ("/network", "proxy"),
    ("/network", "headers"),
];

/// The beginning of the names of environment variables that set keys.
pub const VARIABLES: &str = "RHUMB__";

/// The environment variables of this process. A name that is not UTF-8 is none of ours and is left
/// out; a value that is not UTF-8 is kept with replacements, so that the error about it can show
/// it.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    })
}

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// `--config FILE`; `pipeline.yaml` in the current directory when it exists and none is given.
    pub file: Option<PathBuf>,
    /// `--set key.path=VALUE`, in order.
    pub set: Vec<String>,
}

impl Layers {
    /// Reads and checks the configuration, taking the environment from the process.
    pub fn load(&self) -> Result<Pipeline, ConfigError> {
        self.load_with(environment())
    }

    /// Reads and checks the configuration with the environment given.
    pub fn load_with(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Pipeline, ConfigError> {
        read(self.tree(environment)?)
    }

    fn tree(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Tree, ConfigError> {
        let mut tree = defaults(all_fields());
        if let Some(path) = self.file_path() {
            let text = std::fs::read_to_string(&path).map_err(|error| ConfigError::Unreadable {
                path: path.clone(),
                error,
            })?;
            merge(&mut tree, parse_yaml(&path.display().to_string(), &text)?);
        }
        let mut from_environment: Vec<(String, String)> = environment
            .filter_map(|(name, value)| Some((key_of_variable(&name)?, value)))
            .collect();
        from_environment.sort();
        for (key, value) in from_environment {
            set(
                &mut tree,
                &key,
                parse_value(&format!("environment variable for {key}"), &value)?,
            );
        }
        for assignment in &self.set {
            assign(&mut tree, assignment)?;
        }
        Ok(tree)
    }

    /// The same without keys that are none any more.
    fn current_tree(&self) -> Result<Tree, ConfigError> {
        let mut tree = self.tree(environment())?;
        edge_keys::take_out_fixed(&mut tree)?;
        Ok(tree)
    }

    /// The same, to be written to a file that [`Layers::file`] may name later, from another
    /// directory: files that it names are named by absolute paths.
    pub fn text(&self) -> Result<String, ConfigError> {
        let mut tree = self.current_tree()?;
        for pointer in files() {
            if let Some(Tree::String(file)) = tree.pointer_mut(&pointer)
                && !file.is_empty()
                && let Ok(path) = std::path::absolute(&*file)
            {
                *file = path.display().to_string();
            }
        }
        Ok(format!("{tree:#}\n"))
    }

    /// The same without what may hold secrets, and without places on this machine: for everybody
    /// who can read the crawl's buckets.
    ///
    /// # Errors
    /// The configuration is bad.
    pub fn public_text(&self) -> Result<String, ConfigError> {
        let mut tree = self.current_tree()?;
        for pointer in files() {
            let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
            if let Some(Tree::Object(fields)) = tree.pointer_mut(parent) {
                fields.remove(key);
            }
        }
        for (parent, key) in PRIVATE {
            if let Some(Tree::Object(fields)) = tree.pointer_mut(parent) {
                fields.remove(key);
            }
        }
        Ok(tree.to_string())
    }

    /// Reads and checks the configuration on top of a [`public_text`](Self::public_text); a file
    /// counts only for what is missing there.
    ///
    /// # Errors
    /// The configuration is bad.
    pub fn load_over(&self, public: &str) -> Result<Pipeline, ConfigError> {
        let mut tree = Layers {
            set: Vec::new(),
            ..self.clone()
        }
        .tree(environment())?;
        let mut public = parse_yaml("the crawl's configuration at the broker", public)?;
        edge_keys::take_out_fixed(&mut public)?;
        // What it has from its defaults goes before a file that says more.
        edge_keys::fill_in(&mut public)?;
        merge(&mut tree, public);
        for assignment in &self.set {
            assign(&mut tree, assignment)?;
        }
        read(tree)
    }

    fn file_path(&self) -> Option<PathBuf> {
        let default = Path::new("pipeline.yaml");
        self.file
            .clone()
            .or_else(|| default.exists().then(|| default.to_owned()))
    }
}

/// The key of what is no assignment: behind it may be a password.
fn beginning(assignment: &str) -> String {
    let end = assignment
        .find(|c: char| !(c.is_alphanumeric() || "._-".contains(c)))
        .unwrap_or(assignment.len());
    if end < assignment.len() {
        format!("{}…", &assignment[..end])
    } else {
        assignment.to_owned()
    }
}

/// A list of servers is the same as all of them with commas between them.
///
/// # Errors
/// There is something else than text.
fn join_servers(tree: &mut Tree) -> Result<(), ConfigError> {
    let Some(url) = tree.pointer_mut("/broker/url") else {
        return Ok(());
    };
    let joined = match url {
        Tree::String(_) => return Ok(()),
        Tree::Array(urls) => {
            let urls: Option<Vec<&str>> = urls.iter().map(Tree::as_str).collect();
            urls.map(|urls| urls.join(","))
        }
        _ => None,
    };
    let Some(joined) = joined else {
        // What is wrong is not shown: there may be a password in it.
        return Err(ConfigError::Type {
            key: "broker.url".to_owned(),
            value: None,
            error: "accepted is text (in quotes), or a list of texts".to_owned(),
        });
    };
    *url = joined.into();
    Ok(())
}

/// Carries out an assignment of `--set`.
fn assign(tree: &mut Tree, assignment: &str) -> Result<(), ConfigError> {
    let (key, value) = self::assignment(assignment)?;
    set(tree, &key, value);
    Ok(())
}

/// `RHUMB__STAGES__HOST_SPLITTER__REPLICAS` is `stages.host-splitter.replicas`.
fn key_of_variable(name: &str) -> Option<String> {
    let segments: Vec<String> = name
        .strip_prefix(VARIABLES)?
        .split("__")
        .map(str::to_ascii_lowercase)
        .collect();
    let stage_name = |at: usize| at == 1 && segments[0] == "stages";
    let segments: Vec<String> = segments
        .iter()
        .enumerate()
        .map(|(at, segment)| {
            if stage_name(at) {
                segment.replace('_', "-")
            } else {
                segment.clone()
            }
        })
        .collect();
    Some(segments.join("."))
}

/// Keys whose values are not shown: there may be a password in them.
const SECRETS: [&str; 3] = ["broker.url", "network.proxy", "network.headers."];

fn read(mut tree: Tree) -> Result<Pipeline, ConfigError> {
    let warnings = edge_keys::take_out_fixed(&mut tree)?;
    topic::take_out_reserved(&mut tree)?;
    join_servers(&mut tree)?;
    let mut full = tree.clone();
    edge_keys::fill_in(&mut full)?;
    fill_in(all_fields(), &mut full);
    let pipeline: Pipeline =
        serde_path_to_error::deserialize(&full).map_err(|error| type_error(&tree, &full, error))?;
    let mut errors = range::errors(&tree);
    errors.extend(validate::errors(&pipeline));
    if !errors.is_empty() {
        return Err(ConfigError::Range(errors));
    }
    Ok(Pipeline {
        given: Given(Arc::new(full)),
        warnings,
        ..pipeline.hurried()
    })
}

/// The error about a key of a tree that was filled in, in the words of an operator.
fn type_error(
    tree: &Tree,
    full: &Tree,
    error: serde_path_to_error::Error<serde_json::Error>,
) -> ConfigError {
    let path = error.path().to_string();
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    // What was filled in stands at the defaults.
    let key = match path.rsplit_once('.') {
        Some((_, field)) if tree.pointer(&pointer) != full.pointer(&pointer) => {
            format!("edges.defaults.{field}")
        }
        _ => path,
    };
    // For an unknown key the path already names it; a whole section would be no help as a value.
    // In a section that is none there may be anything.
    let is_section = SECRETS
        .iter()
        .any(|secret| secret.trim_end_matches('.').starts_with(key.as_str()));
    let is_secret = is_section || SECRETS.iter().any(|secret| key.starts_with(secret));
    let value = full
        .pointer(&pointer)
        .filter(|value| !value.is_object() && !is_secret)
        .map(Tree::to_string);
    let error = error.into_inner().to_string();
    // The error would show a number.
    let is_type = is_secret && error.starts_with("invalid type");
    let error = match (is_type, is_section && !SECRETS.contains(&key.as_str())) {
        (true, true) => "accepted is a section of keys".to_owned(),
        (true, false) => "accepted is text (in quotes)".to_owned(),
        (false, _) => accepted(&error),
    };
    ConfigError::Type { key, value, error }
}

impl Default for Pipeline {
    /// Every key has its default. A crawl of the public web needs a user agent besides.
    fn default() -> Self {
        let mut tree = defaults(all_fields());
        edge_keys::fill_in(&mut tree).expect("the defaults of streams are a section");
        Pipeline::deserialize(&tree).expect("defaults are accepted")
    }
}

impl Given {
    /// Reads and checks the configuration with other values for these keys.
    ///
    /// # Errors
    /// The configuration is bad.
    pub(super) fn with(&self, settings: &[Setting]) -> Result<Pipeline, ConfigError> {
        let mut tree = Tree::clone(&self.0);
        settings
            .iter()
            .for_each(|setting| set(&mut tree, &setting.key, setting.value.clone()));
        read(tree)
    }
}

/// Reads the value of an assignment, `key.path=VALUE`.
///
/// # Errors
/// It is none, or the value is no YAML.
pub fn assignment(text: &str) -> Result<(String, serde_json::Value), ConfigError> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| ConfigError::SetForm(beginning(text)))?;
    Ok((
        key.trim().to_owned(),
        parse_value(&format!("the value of --set {key}"), value)?,
    ))
}

/// An error of `serde`, with the types of Rust in the words of an operator.
fn accepted(error: &str) -> String {
    let names = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0 to 18446744073709551615"),
        ("usize", "a whole number, not negative"),
        ("a boolean", "true or false"),
    ];
    let Some((problem, expected)) = error.rsplit_once(", expected ") else {
        return error.to_owned();
    };
    match (
        names.iter().find(|(name, _)| *name == expected),
        expected.strip_prefix("struct "),
    ) {
        (Some((_, accepted)), _) => format!("{problem}; accepted is {accepted}"),
        (None, Some(_)) => format!("{problem}; accepted is a section of keys"),
        (None, None) => error.to_owned(),
    }
}

/// The defaults as a tree and as they are read, for a local crawl.
#[cfg(test)]
pub(super) fn shipped() -> (Tree, Pipeline) {
    let layers = Layers {
        set: vec!["network.allow_private_addresses=true".to_owned()],
        ..Layers::default()
    };
    let tree = layers.tree(std::iter::empty()).expect("it is valid YAML");
    (tree.clone(), read(tree).expect("it is valid"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn load(set: &[&str], environment: &[(&str, &str)]) -> Result<Pipeline, ConfigError> {
        let layers = Layers {
            file: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipeline.yaml").into()),
            set: set.iter().map(|s| (*s).to_string()).collect(),
        };
        layers.load_with(
            environment
                .iter()
                .map(|(k, v)| ((*k).to_string(), (*v).to_string())),
        )
    }

    #[test]
    fn the_shipped_file_loads() {
        let pipeline = load(&["network.user_agent=t (a@b)"], &[]).unwrap();
        assert_eq!(pipeline.partitions, 64);
        assert_eq!(pipeline.politeness.delay, Duration::from_secs(1));
    }

    #[test]
    fn set_overrides_environment_overrides_file() {
        let environment = [
            ("RHUMB__STAGES__HOST_SPLITTER__REPLICAS", "3"),
            ("RHUMB__POLITENESS__DELAY", "2s"),
            ("RHUMB__NETWORK__NAMESERVERS", "[\"127.0.0.1:53\"]"),
            ("OTHER", "x"),
        ];
        let pipeline = load(
            &[
                "network.user_agent=t (a@b)",
                "politeness.delay=0s",
                "network.nameservers=[127.0.0.1:5353]",
            ],
            &environment,
        )
        .unwrap();
        assert_eq!(pipeline.stages.host_splitter.replicas, 3);
        assert_eq!(pipeline.politeness.delay, Duration::ZERO);
        assert_eq!(
            pipeline.network.nameservers,
            ["127.0.0.1:5353".parse().unwrap()]
        );
    }

    #[test]
    fn a_broker_may_have_several_servers() {
        for assignment in [
            "broker.url=nats://a.test:1,nats://b.test:2",
            "broker.url=[nats://a.test:1, nats://b.test:2]",
        ] {
            let pipeline = load(&["network.user_agent=t (a@b)", assignment], &[]).unwrap();
            assert_eq!(pipeline.broker.url, "nats://a.test:1,nats://b.test:2");
        }
    }

    #[test]
    fn what_requests_say_is_configured() {
        let set = [
            "network.user_agent=t (a@b)",
            "network.headers={Accept-Language: 'de, en'}",
            "network.headers.x-crawl=yes",
            "limits.skip_types=[application/zip, video/*, image/svg+xml]",
            "network.proxy=socks5://u:p@127.0.0.1:1080",
        ];
        let pipeline = load(&set, &[]).unwrap();
        let headers: Vec<_> = pipeline
            .network
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(headers, [("Accept-Language", "de, en"), ("x-crawl", "yes")]);
        assert_eq!(
            pipeline.network.proxy.url().and_then(|url| url.password()),
            Some("p")
        );
        assert!(
            load(&["network.user_agent=t (a@b)"], &[])
                .unwrap()
                .network
                .proxy
                .url()
                .is_none()
        );
    }

    /// Assignments that are refused, and what the error names.
    const REFUSED: &[(&str, &[&str])] = &[
        ("partitons=8", &["partitons", "unknown field"]),
        (
            "stages.fetcher.conections=8",
            &["stages.fetcher", "conections"],
        ),
        (
            "partitions=2.7",
            &["partitions", "2.7", "whole number from 0 to 65535"],
        ),
        (
            "stages.fetcher.connections=-1",
            &["stages.fetcher.connections", "-1", "whole number from 0"],
        ),
        ("network=5", &["network", "section of keys"]),
        ("broker.url=foo bar", &["broker.url", "foo bar", "nats://"]),
        (
            "broker.url=http://127.0.0.1:1",
            &["broker.url", "http://127.0.0.1:1", "nats://"],
        ),
        (
            "broker.url=http://u:secret@127.0.0.1:1",
            &["broker.url = 'http://127.0.0.1:1'"],
        ),
        (
            "broker.url=[nats://127.0.0.1:1, 5]",
            &["broker.url", "text (in quotes), or a list"],
        ),
        (
            "broker.url=nats://a.test:1,http://b.test",
            &["broker.url = 'nats://a.test:1,http://b.test'", "commas"],
        ),
        (
            "broker.url=[nats://u:geheim@a.test, nats://v:geheim@b.test]",
            &["'nats://a.test,nats://b.test'", "same"],
        ),
        (
            "broker.sync_interval=0s",
            &["broker.sync_interval", "1ms to 1day"],
        ),
        (
            "edges.urls.found.retention=interest",
            &["edges.urls.found.retention = \"interest\"", "'work-queue'"],
        ),
        (
            "edges.dns.refresh.subject=dns.{partition}",
            &["edges.dns.refresh.subject", "'dns.refresh.{partition}'"],
        ),
        (
            "edges.errands.bytes_max=1MiB",
            &["edges.errands", "unknown field"],
        ),
        (
            "edges.defaults.ack_wait=0s",
            &["edges.defaults.ack_wait", "1s to 1h"],
        ),
        (
            "edges.defaults.subject=pages",
            &["edges.defaults.subject", "unknown field"],
        ),
        (
            "edges.pages.bytes_max=1MiB",
            &["edges.pages.bytes_max", "1MiB", "16MiB"],
        ),
        (
            "edges.urls.found.bytes_max=1MiB",
            &["edges.urls.found.bytes_max", "1MiB", "2MiB"],
        ),
        (
            "edges.urls.split.bytes_max=1GiB",
            &[
                "edges.urls.split.bytes_max = 1GiB",
                "0 (no bound)",
                "sitemaps",
            ],
        ),
        (
            "edges.urls.new.bytes_max=1GiB",
            &["edges.urls.new.bytes_max", "0 (no bound)", "for ever"],
        ),
        (
            "edges.urls.ready.bytes_max=1GiB",
            &["edges.urls.ready.bytes_max", "0 (no bound)", "edges.pages"],
        ),
        (
            "limits.url_bytes_max=65536",
            &["limits.url_bytes_max", "65536", "4096"],
        ),
        ("partitions=0", &["partitions", "0", "1", "4096"]),
        ("partitions=abc", &["partitions", "abc"]),
        ("politeness.delay=30", &["politeness.delay", "30", "suffix"]),
        ("politeness.delay=2h", &["politeness.delay", "1h"]),
        ("scope.follow=hosts", &["scope.follow", "hosts", "domain"]),
        (
            "limits.body_bytes_max=9MiB",
            &["limits.body_bytes_max", "9MiB"],
        ),
        ("crawl=a.b", &["crawl", "a.b"]),
        ("broker.user=a.b", &["broker.user", "a.b", "letters"]),
        (
            "broker.credentials=x/a.b.nk",
            &["broker.credentials", "x/a.b.nk", "'a.b'", "broker.user"],
        ),
        (
            "broker={url: 'nats://u:p@b.test', credentials: a.nk}",
            &["broker.credentials", "a.nk", "one of the two"],
        ),
        (
            "stages.resolver.hedge_after=2m",
            &["stages.resolver.hedge_after", "2m", "1ms to 1m"],
        ),
        (
            "stages.resolver.cache.temporary_max=1s",
            &["stages.resolver.cache.temporary_max", "30s to 1day"],
        ),
        (
            "stages.resolver.cache.snapshot_every=2d",
            &["stages.resolver.cache.snapshot_every", "0s to 1day"],
        ),
        (
            "network.nameservers=[nonsense]",
            &["network.nameservers", "nonsense"],
        ),
        (
            "network.proxy=socks4://127.0.0.1",
            &["network.proxy", "socks5h://"],
        ),
        (
            "network.headers={Host: x}",
            &["network.headers.Host", "if-none-match"],
        ),
        ("network.headers={'a b': x}", &["network.headers.a b"]),
        (
            "network.headers={x: \"a\\nb\"}",
            &["network.headers.x", "printable"],
        ),
        (
            "network.headers.x=5",
            &["network.headers.x", "text (in quotes)"],
        ),
        (
            "limits.skip_types=[image]",
            &["limits.skip_types", "image", "video/*"],
        ),
        (
            "limits.skip_types=[Image/png]",
            &["limits.skip_types", "Image/png"],
        ),
        ("limits.skip_types=['*/*']", &["limits.skip_types", "*/*"]),
        (
            "limits.transfer_rate_window=0s",
            &["limits.transfer_rate_window", "10ms to 1h"],
        ),
        (
            "limits.first_byte_timeout=2h",
            &["limits.first_byte_timeout", "10ms to 1h"],
        ),
        (
            "stages.fetcher.streams=0",
            &["stages.fetcher.streams", "1 to 100"],
        ),
        (
            "stages.fetcher.tls_sessions=1000001",
            &["stages.fetcher.tls_sessions", "0 to 1000000"],
        ),
    ];

    #[test]
    fn errors_name_key_value_and_what_is_accepted() {
        for (assignment, wanted) in REFUSED {
            let message = load(&[assignment], &[]).expect_err(assignment).to_string();
            for part in *wanted {
                assert!(
                    message.contains(part),
                    "{assignment}: {message} should name {part}"
                );
            }
        }
        assert!(load(&["crawl"], &[]).is_err());
    }

    #[test]
    fn no_error_shows_what_may_be_a_password() {
        for assignment in [
            "broker=nats://u:geheim@h:1",
            "network=geheim",
            "network={headers: geheim}",
            "network.headers=Bearer geheim",
            "network.proxy=[geheim]",
            "broker.url:nats://u:geheim@h",
        ] {
            let message = load(&[assignment], &[]).expect_err(assignment).to_string();
            assert!(!message.contains("geheim"), "{assignment}: {message}");
        }
        let public = Layers {
            set: vec!["broker.url=nats://u:geheim@h:1".into()],
            file: None,
        }
        .public_text()
        .unwrap();
        assert!(
            !public.contains("geheim") && !public.contains("\"dir\""),
            "{public}"
        );
    }
}
