//! The form of a canonical URL, as far as a look at its bytes tells.

use rhumb_config::topics::Rules;
use rhumb_url::host_of;

/// The host of a URL that has the form: `http://` or `https://`, a lower-case host, perhaps a port,
/// a path, nothing but printable ASCII, and is not too long. A NUL in an escape has not the form
/// either: browsers would ask for it, and there is nothing behind it.
pub(crate) fn checked_host<'a>(url: &'a str, rules: &Rules) -> Option<&'a str> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))?;
    let (authority, path) = rest.split_once('/')?;
    let has_form = rules.filters.fits(url)
        && authority
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' | b'[' | b']'))
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains("%00");
    let host = host_of(url);
    (has_form && !host.is_empty()).then_some(host)
}
