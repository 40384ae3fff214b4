//! `network.proxy`: through whom servers are reached.

use super::keys::{Form, Value};
use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// The schemes of a proxy.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// A proxy's URL, perhaps with a user and a password; or none. It is never shown with its password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxy(Option<url::Url>);

impl Proxy {
    /// The URL, with user and password; none without a proxy.
    pub fn url(&self) -> Option<&url::Url> {
        self.0.as_ref()
    }

    /// Reads `scheme://[user:password@]host[:port]`; nothing is no proxy.
    fn parse(text: &str) -> Option<Proxy> {
        if text.is_empty() {
            return Some(Proxy(None));
        }
        let url = url::Url::parse(text).ok()?;
        let is_bare =
            matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let is_good = SCHEMES.contains(&url.scheme())
            && url.host_str().is_some_and(|host| !host.is_empty())
            && is_bare;
        is_good.then_some(Proxy(Some(url)))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("no proxy"),
            Some(url) => write!(
                f,
                "{}://{}",
                url.scheme(),
                url.host_str().unwrap_or_default()
            ),
        }
    }
}

impl Value for Proxy {
    const FORM: Form = Form::Text;
}

impl<'de> Deserialize<'de> for Proxy {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        // What is wrong is not shown: there may be a password in it.
        Proxy::parse(&String::deserialize(input)?).ok_or_else(|| {
            de::Error::custom(
                "no proxy: accepted are http://, https://, socks5:// and \
                 socks5h://[user:password@]host[:port], or nothing",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_url_without_a_path() {
        for text in [
            "",
            "http://p.test:3128",
            "https://u:p@p.test/",
            "socks5://127.0.0.1:1080",
            "socks5h://[::1]:9",
        ] {
            assert!(Proxy::parse(text).is_some(), "{text}");
        }
        for text in [
            "p.test:3128",
            "socks4://p.test",
            "http://",
            "http://p.test/x",
            "http://p.test?q",
            "ftp://p.test",
        ] {
            assert!(Proxy::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn its_password_is_not_shown() {
        let proxy = Proxy::parse("http://crawler:secret@p.test:1").unwrap();
        assert_eq!(format!("{proxy:?}"), "http://p.test");
        let set = vec!["network.proxy=htp://crawler:secret@p.test".to_owned()];
        let error = crate::Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("network.proxy") && !error.contains("secret"),
            "{error}"
        );
    }
}
