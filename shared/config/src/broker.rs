//! The section `broker` of `pipeline.yaml`.

use super::keys::section;
use super::units::Bytes;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// The smallest `max_payload` that a broker may have: the default of a nats-server.
pub const MAX_PAYLOAD_MIN: Bytes = Bytes(1 << 20);
/// The largest `broker.max_payload`.
pub const MAX_PAYLOAD_MAX: Bytes = Bytes(8 << 20);

section! {
    /// The broker, and who the crawl is there.
    pub struct Broker {
        /// `nats://[name:password@]host:port`; of a cluster several servers, as a list or with
        /// commas between them; empty: rhumb starts a private nats-server on loopback.
        #[key(default = "")]
        pub url: String,
        /// File with the seed of an nkey (SU..., as `rhumb auth` writes it) or a NATS credentials
        /// file (JWT and seed): who a process is at the broker. Read again for every connect, so it
        /// may be replaced while the process runs; empty: what broker.url says.
        #[key(default = "")]
        pub credentials: PathBuf,
        /// Name of that user at the broker: replies come to subjects that begin with
        /// `_INBOX_<user>`; letters, digits, - and _; empty: the name of the credentials file
        /// without its ending.
        #[key(default = "")]
        pub user: String,
        /// File with root certificates in PEM: the connection is encrypted, and the broker's
        /// certificate must come from one of them; empty: `tls://` trusts the certificates of the
        /// system.
        #[key(default = "")]
        pub ca: PathBuf,
        /// Copies of each key-value bucket, and of each stream whose edge names no other number, in
        /// a broker cluster; those that are there are adapted.
        #[key(default = "1", range = "1..5")]
        pub replicas: usize,
        /// How often the private broker syncs its files; with durability power: always.
        #[key(default = "2m", range = "1ms..24h")]
        pub sync_interval: Duration,
        /// Largest message; a lower limit of the broker counts instead.
        #[key(default = "8MiB", range = "1MiB..8MiB")]
        pub max_payload: Bytes,
        /// Pages and documents lie in files below `<data>/spool`, and their messages refer to them:
        /// less goes through the broker. Only with the private broker, and not with durability
        /// power; false: all goes through the broker.
        #[key(default = "true")]
        pub spool: bool,
        /// A request to the broker itself, such as one for a stream or for a key of a bucket, has
        /// failed after this time. Raise it for a cluster of brokers that is far away or busy.
        #[key(default = "10s", range = "1s..30s")]
        pub request_timeout: Duration,
        /// While the broker is unreachable, the log says so this often.
        #[key(default = "1m", range = "1s..1h")]
        pub connect_report_every: Duration,
        /// Consumers that a stream may have: those of instances, of each partition that has moved
        /// or is half of another, and users'; what is beyond is refused; set when a crawl begins;
        /// at least 4 times partitions and 1000, at most 1000000.
        #[key(default = "20000")]
        pub consumers_max: u32,
        /// An optional consumer of pages, outcomes or documents that acks nothing for this time
        /// although messages wait for it, or that nobody pulls from, is removed. One that lags by
        /// more than half of the stream's bytes_max is removed at once.
        #[key(default = "5m", range = "1s..24h")]
        pub consumer_expiry: Duration,
    }
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
