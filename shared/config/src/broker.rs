//! The section `broker` of `pipeline.yaml`.

use super::units::{Bytes, duration};
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// The smallest `max_payload` that a broker may have: the default of a nats-server.
pub const MAX_PAYLOAD_MIN: Bytes = Bytes(1 << 20);
/// The largest `broker.max_payload`.
pub const MAX_PAYLOAD_MAX: Bytes = Bytes(8 << 20);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Broker {
    #[serde(deserialize_with = "urls")]
    pub url: String,
    pub replicas: usize,
    #[serde(deserialize_with = "duration")]
    pub sync_interval: Duration,
    pub max_payload: Bytes,
    pub spool: bool,
    #[serde(deserialize_with = "duration")]
    pub connect_report_every: Duration,
    pub consumers_max: u32,
    #[serde(deserialize_with = "duration")]
    pub consumer_expiry: Duration,
    pub credentials: PathBuf,
    pub user: String,
    pub ca: PathBuf,
}

impl Broker {
    /// The name of the user that a process is at the broker; none where it is nobody in particular.
    pub fn user_name(&self) -> Option<&str> {
        match self.user.as_str() {
            "" => self.credentials.file_stem().and_then(|stem| stem.to_str()),
            user => Some(user),
        }
    }
}

/// The servers of one broker, and who the crawl is there.
#[derive(Clone, Debug)]
pub struct Servers {
    /// Where they are; the client finds out about further ones of their cluster.
    pub addresses: Vec<Url>,
    /// None where everybody may do everything.
    pub credentials: Option<Credentials>,
}

/// What a broker wants to know before it lets anybody in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A secret that many may share.
    Token(String),
    /// A name and its password.
    User(String, String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("credentials")
    }
}

/// What is wrong with a `broker.url`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServers {
    /// One is no address.
    #[error(
        "accepted are nats://host:port, tls://host:port, several of these with commas between \
         them, or nothing for a private server"
    )]
    Address,
    /// The client has one name for all of them.
    #[error("accepted is the same name and password, or token, for all servers of the list")]
    Credentials,
}

impl Servers {
    /// Reads `nats://[name:password@|token@]host:port[,...]`. A comma in a password is written
    /// `%2C`, an `@` `%40`.
    ///
    /// # Errors
    /// It cannot be read, or names different credentials for different servers.
    pub fn read(url: &str) -> Result<Servers, BadServers> {
        let addresses: Vec<Url> = list(url)
            .map(address)
            .collect::<Option<_>>()
            .ok_or(BadServers::Address)?;
        let mut credentials = addresses.iter().filter_map(Credentials::of);
        let first = credentials.next();
        match credentials.all(|other| Some(&other) == first.as_ref()) {
            true => Ok(Servers {
                addresses,
                credentials: first,
            }),
            false => Err(BadServers::Credentials),
        }
    }
}

impl Credentials {
    /// Those in an address: a name without a password is a token.
    fn of(address: &Url) -> Option<Credentials> {
        let decoded = |text| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8_lossy()
                .into_owned()
        };
        if address.username().is_empty() {
            return None;
        }
        let name = decoded(address.username());
        Some(match address.password() {
            Some(password) => Credentials::User(name, decoded(password)),
            None => Credentials::Token(name),
        })
    }
}

fn list(url: &str) -> impl Iterator<Item = &str> {
    url.split(',').map(str::trim)
}

fn address(text: &str) -> Option<Url> {
    let address = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("nats://{text}"))
    }
    .ok()?;
    let is_good = matches!(address.scheme(), "nats" | "tls" | "ws" | "wss");
    let has_host = address.host_str().is_some_and(|host| !host.is_empty());
    (is_good && has_host && address.port() != Some(0)).then_some(address)
}

/// A broker's URL, or several, as logs and errors have them: without names, passwords and tokens.
pub fn shown(url: &str) -> String {
    // What cannot be read may be a password with a comma in it.
    if list(url).any(|one| address(one).is_none()) {
        return shown_one(url);
    }
    list(url).map(shown_one).collect::<Vec<_>>().join(",")
}

fn shown_one(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else {
        return url.to_owned();
    };
    let scheme = before
        .split_once("://")
        .map_or("nats", |(scheme, _)| scheme);
    format!("{scheme}://{host}")
}

/// One URL, or a list of them, which is the same as all of them with commas between them.
fn urls<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Urls {
        One(String),
        Several(Vec<String>),
    }
    match Urls::deserialize(input) {
        Ok(Urls::One(url)) => Ok(url),
        Ok(Urls::Several(urls)) => Ok(urls.join(",")),
        // What is wrong is not shown: there may be a password in it.
        Err(_) => Err(de::Error::custom(
            "accepted is text (in quotes), or a list of texts",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("nats://b.test:4222", "nats://b.test:4222"),
            ("tls://u:p@ss@b.test", "tls://b.test"),
            ("nats://token@[::1]:4222", "nats://[::1]:4222"),
            ("u:secret@b.test:4222", "nats://b.test:4222"),
            ("nonsense", "nonsense"),
            (
                "nats://u:p@a.test:1, tls://t@b.test",
                "nats://a.test:1,tls://b.test",
            ),
            (
                "nats://a.test:1,nats://b.test:2",
                "nats://a.test:1,nats://b.test:2",
            ),
            ("nats://u:pass,word@a.test:1", "nats://a.test:1"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn a_list_of_servers_has_one_name_for_all() {
        let read = |url: &str| {
            Servers::read(url).map(|servers| (servers.addresses.len(), servers.credentials))
        };
        let user = |name: &str, password: &str| {
            Some(Credentials::User(name.to_owned(), password.to_owned()))
        };
        for (url, expected) in [
            ("nats://a.test", Ok((1, None))),
            ("nats://a.test:1, b.test:2,tls://[::1]:3", Ok((3, None))),
            ("nats://u:p%40%2Cq@a.test", Ok((1, user("u", "p@,q")))),
            (
                "nats://u:p@a.test,nats://b.test,nats://u:p@c.test",
                Ok((3, user("u", "p"))),
            ),
            (
                "nats://secret@a.test",
                Ok((1, Some(Credentials::Token("secret".to_owned())))),
            ),
            (
                "nats://u:p@a.test,nats://u:q@b.test",
                Err(BadServers::Credentials),
            ),
            ("nats://a.test,", Err(BadServers::Address)),
            ("nats://a.test,http://b.test", Err(BadServers::Address)),
            ("nats://a.test:0", Err(BadServers::Address)),
            ("", Err(BadServers::Address)),
        ] {
            assert_eq!(read(url), expected, "{url}");
        }
    }
}
