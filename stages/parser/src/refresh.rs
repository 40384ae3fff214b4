//! Refresh: where `<meta http-equiv="refresh" content="...">` leads.
//!
//! In: the decoded content. Out: the target as written, or none when the page reloads itself or the
//! content is no refresh. Source: HTML Living Standard, "Shared declarative refresh steps".

/// The URL in the content of a refresh, as in `5; url='next.html'`.
pub fn refresh_target(content: &str) -> Option<&str> {
    let rest = skip_space(content);
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == rest.len() && !rest.starts_with('.') {
        return None;
    }
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let after_space = skip_space(rest);
    let separated = after_space.strip_prefix([';', ',']);
    if separated.is_none() && after_space.len() == rest.len() {
        return None;
    }
    let written = skip_space(separated.unwrap_or(after_space));
    let target = match after_url_equals(written) {
        Some(value) => unquoted(value),
        // A word that only starts like `url=` is a URL itself; anything else may be quoted.
        None if written.starts_with(['u', 'U']) => written,
        None => unquoted(written),
    };
    (!target.is_empty()).then_some(target)
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_whitespace())
}

fn after_url_equals(text: &str) -> Option<&str> {
    let word = text.get(..3)?;
    if !word.eq_ignore_ascii_case("url") {
        return None;
    }
    skip_space(&text[3..]).strip_prefix('=').map(skip_space)
}

fn unquoted(text: &str) -> &str {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return text;
    };
    let quoted = &text[1..];
    quoted.split(quote).next().unwrap_or(quoted)
}

#[cfg(test)]
mod tests {
    use super::refresh_target;

    #[test]
    fn every_spelling_of_a_refresh_leads_where_browsers_go() {
        let cases = [
            ("5; url=x", Some("x")),
            ("0;url=http://h/?a=1;b", Some("http://h/?a=1;b")),
            ("  0 ,  URL  =  x", Some("x")),
            ("5;url='x y' tail", Some("x y")),
            ("5;url=\"x\"tail", Some("x")),
            ("5;url='x", Some("x")),
            ("5;'x'", Some("x")),
            ("5;x", Some("x")),
            ("5 x", Some("x")),
            ("5;urlx", Some("urlx")),
            ("5;u", Some("u")),
            ("5;ur'l", Some("ur'l")),
            (".5;url=x", Some("x")),
            ("1.5.3;url=x", Some("x")),
            ("5;url=", None),
            ("5;", None),
            ("5", None),
            ("", None),
            ("x", None),
            ("-1;url=x", None),
            ("5x", None),
            ("url=x", None),
            ("5;url=é", Some("é")),
            ("5;é", Some("é")),
        ];
        for (content, target) in cases {
            assert_eq!(refresh_target(content), target, "{content:?}");
        }
    }
}
