//! Access: who a process is at the broker, and which brokers it trusts.
//!
//! In: the section `broker` of the configuration. Out: the options of every connection
//! ([`Access::options`]), and what is in the way of one ([`Obstacle`]), in the words of an
//! operator. Files are read again for every connect: they may be replaced while a process runs.
//! Invariant: no password, token or seed is in a message.

use super::credentials::{ACCEPTED, Keys};
use async_nats::{
    AuthError, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError,
};
use rhumb_config::{BadServers, Broker, ConfigError, Credentials, Servers, shown};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::error::Error;
use std::fmt;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// While something lasts, the log says it this often.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Who a process is at the broker.
#[derive(Clone, Debug)]
pub struct Access {
    addresses: Vec<ServerAddr>,
    /// Where, without secrets.
    shown: String,
    by: By,
    /// The user's name.
    user: Option<String>,
    ca: Option<PathBuf>,
}

/// How a process says who it is.
#[derive(Clone, Debug)]
enum By {
    /// Not at all.
    Nothing,
    /// By what the address has.
    Address(Credentials),
    /// By a file.
    File(PathBuf),
}

impl Access {
    /// Access by what an address has alone.
    ///
    /// # Errors
    /// It is no address.
    pub fn by_address(url: &str) -> Result<Access, BadServers> {
        let Servers {
            addresses,
            credentials,
        } = Servers::read(url)?;
        let addresses = addresses
            .into_iter()
            .map(ServerAddr::from_url)
            .collect::<Result<_, _>>();
        let addresses = addresses.map_err(|_| BadServers::Address)?;
        let by = credentials.map_or(By::Nothing, By::Address);
        Ok(Access {
            addresses,
            shown: shown(url),
            by,
            user: None,
            ca: None,
        })
    }

    /// Access to the broker at `url`, with what the configuration says of it.
    ///
    /// # Errors
    /// It is no address, or a file that the configuration names cannot be used.
    pub fn of(url: &str, broker: &Broker) -> Result<Access, ConfigError> {
        let bad = |key: &str, value: &dyn fmt::Display, what: &dyn fmt::Display| {
            ConfigError::Range(vec![format!(
                "configuration key broker.{key} = '{value}': {what}"
            )])
        };
        let access = Access::by_address(url).map_err(|error| bad("url", &shown(url), &error))?;
        let named = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
        let file = named(&broker.credentials);
        let ca = named(&broker.ca);
        if let Some(path) = &file {
            let read = Keys::read(path);
            read.map_err(|error| {
                bad(
                    "credentials",
                    &path.display(),
                    &format_args!("{error}; {ACCEPTED}"),
                )
            })?;
        }
        if let Some(path) = &ca {
            let what =
                "accepted is a file with root certificates in PEM (-----BEGIN CERTIFICATE-----)";
            check_roots(path)
                .map_err(|error| bad("ca", &path.display(), &format_args!("{error}; {what}")))?;
        }
        let user = broker.user_name().map(str::to_owned);
        Ok(Access {
            by: file.map_or(access.by, By::File),
            user,
            ca,
            ..access
        })
    }

    /// Where the broker is.
    pub fn addresses(&self) -> Vec<ServerAddr> {
        self.addresses.clone()
    }

    /// The same for logs and errors: without secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The options of a connection. The client does not look for credentials in the address.
    pub fn options(&self) -> ConnectOptions {
        let mut options = match &self.by {
            By::Nothing => ConnectOptions::new(),
            By::Address(Credentials::Token(token)) => ConnectOptions::with_token(token.clone()),
            By::Address(Credentials::User(name, password)) => {
                ConnectOptions::with_user_and_password(name.clone(), password.clone())
            }
            By::File(path) => {
                let path = path.clone();
                ConnectOptions::with_auth_callback(move |nonce| {
                    ready(
                        Keys::read(&path)
                            .and_then(|keys| keys.answer(&nonce))
                            .map_err(AuthError::new),
                    )
                })
            }
        };
        if let Some(user) = &self.user {
            options = options.custom_inbox_prefix(format!("_INBOX_{user}"));
        }
        match &self.ca {
            Some(ca) => options.add_root_certificates(ca.clone()).require_tls(true),
            None => options,
        }
    }

    /// Tells of what becomes of a connection, now and again while it lasts.
    pub(super) fn listener(
        &self,
    ) -> impl Fn(Event) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>>
    + Send
    + Sync
    + 'static {
        let access = self.clone();
        let said: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
        move |event| {
            match access.news(&event) {
                Some(news)
                    if is_due(
                        &mut said.lock().unwrap_or_else(PoisonError::into_inner),
                        &news,
                    ) =>
                {
                    tracing::warn!(broker = access.shown, "{news}");
                }
                Some(_) => {}
                None => tracing::debug!(%event, "broker connection"),
            }
            Box::pin(ready(()))
        }
    }

    /// What an operator has to know of an event.
    fn news(&self, event: &Event) -> Option<String> {
        match event {
            Event::Disconnected => Some("the broker is gone; reconnecting".to_owned()),
            Event::ServerError(ServerError::AuthorizationViolation) => Some(self.refused()),
            Event::ServerError(ServerError::Other(what))
                if what.contains("Permissions Violation") =>
            {
                Some(format!(
                    "the broker forbids {} something: {what} (`rhumb auth` writes the rights of \
                     all users)",
                    self.who()
                ))
            }
            Event::ClientError(error) => {
                let error = error.to_string();
                let is = |kind: ConnectErrorKind| error.contains(&kind.to_string());
                if is(ConnectErrorKind::AuthorizationViolation) {
                    Some(self.refused())
                } else if is(ConnectErrorKind::Authentication) {
                    Some(self.unusable())
                } else {
                    is(ConnectErrorKind::Tls).then(|| self.untrusted(&error))
                }
            }
            _ => None,
        }
    }

    fn who(&self) -> String {
        match (&self.user, &self.by) {
            (Some(user), _) => format!("the user {user}"),
            (None, By::Address(Credentials::User(name, _))) => format!("the user {name}"),
            (None, _) => "this process".to_owned(),
        }
    }

    fn refused(&self) -> String {
        let Access { shown, by, .. } = self;
        match by {
            By::Nothing => format!(
                "the broker at {shown} lets in nobody without credentials (set broker.credentials)"
            ),
            By::Address(Credentials::Token(_)) => {
                format!("the broker at {shown} refuses the token in broker.url")
            }
            By::Address(Credentials::User(name, _)) => {
                format!("the broker at {shown} refuses the credentials of {name} in broker.url")
            }
            By::File(path) => format!(
                "the broker at {shown} refuses the credentials of {} in {} (broker.credentials): \
                 it knows no such key, or not any more",
                self.who(),
                path.display()
            ),
        }
    }

    fn unusable(&self) -> String {
        let (By::File(path), what) = (&self.by, "cannot be used any more") else {
            return self.refused();
        };
        let why = Keys::read(path)
            .err()
            .unwrap_or_else(|| "it was written this moment".to_owned());
        format!(
            "broker.credentials = '{}' {what}: {why}; {ACCEPTED}",
            path.display()
        )
    }

    fn untrusted(&self, error: &dyn fmt::Display) -> String {
        let trusted = match &self.ca {
            Some(ca) => format!("broker.ca = '{}'", ca.display()),
            None => "the system's root certificates (set broker.ca)".to_owned(),
        };
        format!(
            "there is no TLS with the broker at {} that {trusted} would trust: {error}",
            self.shown
        )
    }
}

/// Returns whether it is time to tell something, and remembers that it was told.
fn is_due(said: &mut Vec<(String, Instant)>, news: &str) -> bool {
    said.retain(|(_, at)| at.elapsed() < SAY_EVERY);
    let is_due = said.iter().all(|(other, _)| other != news);
    if is_due {
        said.push((news.to_owned(), Instant::now()));
    }
    is_due
}

/// Checks that a file holds root certificates, and nothing that is none.
fn check_roots(path: &Path) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("it cannot be read ({error})"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|_| "it is no PEM".to_owned())?;
        roots
            .add(certificate)
            .map_err(|error| format!("it has a certificate that cannot be used ({error})"))?;
    }
    if roots.is_empty() {
        Err("it has no certificate".to_owned())
    } else {
        Ok(())
    }
}

/// What is in the way of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The broker does not let the process in.
    #[error("{0}")]
    Refused(String),
    /// The process does not trust the broker.
    #[error("{0}")]
    Untrusted(String),
    /// The broker does not answer.
    #[error("{0}")]
    Unreachable(String),
}

impl Obstacle {
    pub(super) fn of(error: &ConnectError, access: &Access) -> Obstacle {
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation => Obstacle::Refused(access.refused()),
            ConnectErrorKind::Authentication => Obstacle::Refused(access.unusable()),
            ConnectErrorKind::Tls => Obstacle::Untrusted(access.untrusted(error)),
            _ => match tls_error(error) {
                Some(error) => Obstacle::Untrusted(access.untrusted(error)),
                None => Obstacle::Unreachable(format!(
                    "the broker at {} cannot be reached: {error} (set broker.url, or start it \
                     there)",
                    access.shown
                )),
            },
        }
    }

    pub(super) fn silent(access: &Access) -> Obstacle {
        Obstacle::Unreachable(format!("the broker at {} does not answer", access.shown))
    }

    /// It will not go away soon by itself.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self, Obstacle::Unreachable(_))
    }

    /// It is of the same kind.
    pub(super) fn is_like(&self, other: &Obstacle) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What TLS found wrong, among the causes of an error.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = match error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
