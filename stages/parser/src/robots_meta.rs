//! Robots directives of a page: may its links be followed?
//!
//! In: the values of `X-Robots-Tag` and the content of `<meta name="robots">`. Out: nofollow or
//! not.
//!
//! `nofollow` and `none` count; `noindex` and the rest concern indexes, and this is none. A
//! directive addressed to a product counts only if that product is ours; several add up, so the
//! strictest wins.

/// Returns whether one value of `X-Robots-Tag` tells the crawler with this product token not to
/// follow the links of the page.
///
/// A name followed by a colon addresses what comes after it in the same value to that product:
/// `otherbot: noindex, nofollow`.
pub fn header_says_nofollow(value: &[u8], product_token: &str) -> bool {
    let mut is_addressed = true;
    for part in value.split(|&byte| byte == b',') {
        let mut directive = part.trim_ascii();
        if let Some(colon) = memchr::memchr(b':', directive) {
            let name = directive[..colon].trim_ascii();
            // `unavailable_after: Friday, 25-Jun-10 15:00:00 EST`: no product in either part.
            if has_value(name) || name.iter().any(u8::is_ascii_whitespace) {
                continue;
            }
            is_addressed = is_product(name, product_token);
            directive = directive[colon + 1..].trim_ascii();
        }
        if is_addressed && forbids(directive) {
            return true;
        }
    }
    false
}

/// Returns whether a `<meta>` with this name and content tells the crawler with this product token
/// not to follow the links of the page.
pub fn meta_says_nofollow(name: &[u8], content: &[u8], product_token: &str) -> bool {
    let name = name.trim_ascii();
    (name.eq_ignore_ascii_case(b"robots") || is_product(name, product_token))
        && content.split(|&byte| byte == b',').any(forbids)
}

/// Directives that take a value after a colon, which is no product name then.
fn has_value(name: &[u8]) -> bool {
    const WITH_VALUE: [&str; 4] = [
        "unavailable_after",
        "max-snippet",
        "max-image-preview",
        "max-video-preview",
    ];
    WITH_VALUE
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Some authors separate directives by white space instead of commas.
fn forbids(directives: &[u8]) -> bool {
    directives
        .split(|byte| byte.is_ascii_whitespace())
        .any(|word| word.eq_ignore_ascii_case(b"nofollow") || word.eq_ignore_ascii_case(b"none"))
}

/// Names of products are compared without case (RFC 9309, section 2.2.1).
fn is_product(name: &[u8], product_token: &str) -> bool {
    !product_token.is_empty() && name.eq_ignore_ascii_case(product_token.as_bytes())
}
