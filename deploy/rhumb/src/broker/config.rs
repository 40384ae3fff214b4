//! The text of `broker.conf`.
//!
//! In: [`BrokerOptions`], a server name, a port and a token. Out: a configuration for nats-server
//! 2.12 or newer that listens on that port of 127.0.0.1 only, to those who know the token.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::BrokerOptions;

const PAYLOAD_BYTES_MIN: u32 = 1024;
const PAYLOAD_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Rejects options that no server would start with.
///
/// # Errors
/// Names the option, its value and the accepted range.
pub(super) fn check(options: &BrokerOptions) -> Result<()> {
    let payload = options.max_payload;
    if !(PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&payload) {
        bail!(
            "broker max_payload is {payload} bytes; accepted: {PAYLOAD_BYTES_MIN} to \
             {PAYLOAD_BYTES_MAX}"
        );
    }
    let sync = options.sync_interval;
    if !sync.is_zero() && sync < Duration::from_millis(1) {
        bail!("broker sync_interval is {sync:?}; accepted: 0 (always) or at least 1ms");
    }
    Ok(())
}

/// Writes the configuration.
///
/// The store's limits are far above any crawl's: how much a stream may hold is the stream's own
/// matter.
///
/// # Errors
/// A path that is not UTF-8, which the server's configuration cannot express.
pub(super) fn render(
    options: &BrokerOptions,
    name: &str,
    port: u16,
    token: &str,
) -> Result<String> {
    let sync = match options.sync_interval {
        Duration::ZERO => "always".to_owned(),
        interval => format!("\"{}ms\"", interval.as_millis()),
    };
    Ok(format!(
        r#"# Written by rhumb at every start of its private nats-server; changes are lost.
server_name: {name}
listen: "127.0.0.1:{port}"
authorization {{ token: {token} }}
max_payload: {payload}
logfile: {log}
logfile_size_limit: 16MB
logfile_max_num: 2
jetstream {{
  store_dir: {store}
  max_memory_store: 1GB
  max_file_store: 1TB
  sync_interval: {sync}
}}
"#,
        name = quoted(name),
        token = quoted(token),
        payload = options.max_payload,
        log = quoted_path(&options.log_file)?,
        store = quoted_path(&options.data)?,
    ))
}

fn quoted_path(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .with_context(|| format!("the path {} is not UTF-8", path.display()))?;
    Ok(quoted(text))
}

/// A string between double quotes, with the escapes of the server's configuration language.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_interval_of_zero_means_always() {
        let mut options = BrokerOptions::new("/data");
        options.sync_interval = Duration::ZERO;
        let text = render(&options, "n", 1, "t").unwrap();
        assert!(text.contains("sync_interval: always\n"), "{text}");
        options.sync_interval = Duration::from_millis(1500);
        let text = render(&options, "n", 1, "t").unwrap();
        assert!(text.contains("sync_interval: \"1500ms\"\n"), "{text}");
    }

    #[test]
    fn quotes_and_backslashes_in_a_path_cannot_end_the_string() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\n""#);
    }

    #[test]
    fn a_payload_limit_out_of_range_is_named() {
        let mut options = BrokerOptions::new("/data");
        assert!(check(&options).is_ok());
        options.max_payload = 10;
        let message = check(&options).unwrap_err().to_string();
        assert!(
            message.contains("max_payload is 10") && message.contains("1024 to"),
            "{message}"
        );
    }
}
