//! `pipeline.yaml`: the one configuration, typed, strict and checked before anything starts.
//!
//! A key is said once, at its field ([`keys()`]): `pipeline.yaml` is made of the fields, as are the
//! chart's schema and `docs/keys.md`.
//!
//! Layers, each overriding the one before: the defaults, `--config FILE`, the
//! environment (`RHUMB__KEY__PATH=VALUE`), `--set key.path=VALUE`. All end in one tree that is read
//! strictly: an unknown key, 2.7 for an integer, or a value out of range is an error that names
//! key, value and what is accepted.

mod archiver;
mod broker;
mod changes;
mod check;
mod defaults;
mod differences;
mod download_pause;
mod edge_keys;
mod edges;
mod error;
pub mod filters;
mod given;
mod group;
pub mod identity;
mod interest;
mod key_table;
mod keys;
mod load;
mod log;
mod name_server;
pub mod orders;
mod patterns;
mod pipeline;
mod proxy;
mod range;
mod recrawl;
mod replay;
mod scope;
pub mod scope_entry;
mod stages;
mod topic;
pub mod topics;
mod tree;
mod units;
mod url_cache;
mod url_rules;
mod usage;
mod usages;
mod user_agent;
mod validate;
mod yaml;

pub use archiver::{Archiver, WarcFormat};
pub use broker::*;
pub use changes::{changed, how_to_change};
pub use check::is_name;
pub use differences::{Difference, differences};
pub use download_pause::DownloadPause;
pub use edges::*;
pub use error::ConfigError;
pub use group::{Group, GroupedBy, HostPattern};
pub use interest::{edges_by_interest, lasting_streams, required_by_interest};
pub use key_table::{Key, field, keys, live_keys};
pub use keys::{Change, Choice, Field, Form};
pub use load::{Layers, VARIABLES, assignment, environment};
pub use log::{Log, LogFormat};
pub use name_server::{NameServer, Transport};
pub use patterns::Patterns;
pub use pipeline::*;
pub use proxy::Proxy;
pub use recrawl::{Recrawl, RecrawlPolicy, TopicRecrawl};
pub use scope::{Follow, Scope};
pub use stages::*;
pub use topic::{DEFAULT_TOPIC, Topic, TopicScope};
pub use units::Bytes;
pub use url_cache::open_url_cache;
pub use usage::{TopicUsage, Unwanted, Usage};
pub use usages::Usages;
