//! What the stages of rhumb share.
//!
//! - [`topology`]: every edge and every stage, in two constant tables;
//! - [`message`]: one type per edge of the pipeline and the envelope it travels in;
//! - [`config`]: `pipeline.yaml`, typed, strict and checked before anything starts;
//! - [`bus`]: the broker: streams, consumers and subjects made from the configuration;
//! - [`identity`]: by which the parts of one crawl know each other;
//! - [`stage`]: the one loop that receives, steps a pure core, commits, publishes and settles;
//! - [`url`] and [`address`]: canonical URLs, SURT, fingerprints, partitions, private addresses;
//! - [`redirect`]: where a response redirects to;
//! - [`media_type`]: what a server says that a body is;
//! - [`partitions`]: how partitions split and move to other instances; so far for the laboratory alone;
//! - [`interfaces`]: this machine's own addresses;
//! - [`url_cache`]: fingerprints of URLs that are known, before the URL-seen test;
//! - [`index`]: from a fingerprint to its slot, for caches;
//! - [`filters`]: which URLs of a host that is followed pass;
//! - [`content_coding`]: bodies without their content codings, within limits;
//! - [`doubt`]: whether what fails is ours;
//! - [`warc_files`]: the files of an archive;
//! - [`whole_file`]: files that are replaced whole;
//! - [`exit_codes`]: what programs end with, and what that means;
//! - [`process`]: CPU time and memory of a process;
//! - [`topics`]: the rules of the topics;
//! - [`product_token`]: the name by which servers address the crawler, found in its user agent;
//! - [`scope_entry`]: the hosts that each topic follows, in the scope bucket;
//! - [`log`]: log lines: their form, which there are, how often one comes again;
//! - [`log_file`]: the bound of a process's log;
//! - [`metrics`]: what metrics mean, and the text that Prometheus reads;
//! - [`health`]: health and metrics over HTTP, from a thread of their own.
//!
//! A stage never depends on another stage; they meet here.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure how long a core takes"))]

pub mod address;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a shell: it waits, and looks at the clock")]
pub mod bus;
pub mod config;
pub mod content_coding;
pub mod doubt;
pub mod exit_codes;
pub mod filters;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a shell: it waits, and looks at the clock")]
pub mod health;
pub mod identity;
pub mod index;
pub mod interfaces;
#[allow(clippy::disallowed_methods, reason = "a shell: it waits, and looks at the clock")]
pub mod log;
pub mod log_file;
pub mod media_type;
pub mod message;
pub mod metrics;
pub mod orders;
pub mod partitions;
pub mod process;
pub mod product_token;
pub mod redirect;
pub mod scope_entry;
pub mod sketch;
pub mod stage;
pub mod time;
pub mod tls;
pub mod topics;
pub mod topology;
pub mod url;
pub mod url_cache;
pub mod warc_files;
pub mod whole_file;
