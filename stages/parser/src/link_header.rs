//! Link headers: typed links that come with a response.
//!
//! In: the value of a `Link` header. Out: the links that start from the page, with their relations,
//! as written. A link with an `anchor` starts elsewhere and is left out. Source: RFC 8288, section
//! 3 and appendix B.2.

/// A link of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderLink<'a> {
    /// Where it leads.
    pub target: &'a str,
    /// Its relations, separated by white space; empty without one.
    pub rel: String,
}

/// The links in the value of a `Link` header; what makes no sense is skipped.
pub fn links_in(value: &str) -> Vec<HeaderLink<'_>> {
    let mut links = Vec::new();
    let mut rest = value;
    while let Some((_, behind)) = rest.split_once('<') {
        let Some((target, behind)) = behind.split_once('>') else {
            break;
        };
        let Parameters {
            rel,
            has_anchor,
            bytes,
        } = parameters(behind);
        if !has_anchor {
            links.push(HeaderLink {
                target: target.trim(),
                rel: rel.unwrap_or_default(),
            });
        }
        rest = &behind[bytes..];
    }
    links
}

struct Parameters {
    rel: Option<String>,
    has_anchor: bool,
    /// How long they are, up to the comma.
    bytes: usize,
}

fn parameters(text: &str) -> Parameters {
    let mut rel = None;
    let mut has_anchor = false;
    let mut at = 0;
    while text[at..].trim_start().starts_with(';') {
        at += text[at..].find(';').map_or(0, |found| found + 1);
        let name_bytes = text[at..].find(['=', ';', ',']).unwrap_or(text.len() - at);
        let name = text[at..at + name_bytes].trim();
        at += name_bytes;
        let mut value = String::new();
        if text[at..].starts_with('=') {
            at += 1;
            at += text[at..].len() - text[at..].trim_start().len();
            at += value_bytes(&text[at..], &mut value);
        }
        if name.eq_ignore_ascii_case("rel") && rel.is_none() {
            rel = Some(value);
        } else {
            has_anchor |= name.eq_ignore_ascii_case("anchor");
        }
    }
    // Whatever stands before the next link.
    let bytes = at + text[at..].find(',').unwrap_or(text.len() - at);
    Parameters {
        rel,
        has_anchor,
        bytes,
    }
}

/// Reads a token or a quoted string, and tells how long it is.
fn value_bytes(text: &str, value: &mut String) -> usize {
    if !text.starts_with('"') {
        let bytes = text.find([';', ',']).unwrap_or(text.len());
        value.push_str(text[..bytes].trim());
        return bytes;
    }
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return at + 1,
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_comes_with_its_relations() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("</a>; rel=next", &[("/a", "next")]),
            ("</a>;REL=\"prev next\"", &[("/a", "prev next")]),
            (
                "</a>; title=\"x, <y>; rel=z\"; rel = next , </b>; rel=prev",
                &[("/a", "next"), ("/b", "prev")],
            ),
            ("</a>; rel=\"a\\\"b\"; rel=next", &[("/a", "a\"b")]),
            ("</a>, </b>", &[("/a", ""), ("/b", "")]),
            (
                "</a>; anchor=\"/c\"; rel=next, </b>; rel=next",
                &[("/b", "next")],
            ),
            (
                "</a>; crossorigin; rel=preload; as=style",
                &[("/a", "preload")],
            ),
            ("</a,b;c>; rel=next", &[("/a,b;c", "next")]),
            ("</a>; rel=\"next", &[("/a", "next")]),
            ("</a>; rel=", &[("/a", "")]),
            ("</a>;", &[("/a", "")]),
            ("</a> x; rel=next", &[("/a", "")]),
            ("</a", &[]),
            ("nonsense", &[]),
            ("", &[]),
        ];
        for (value, expected) in cases {
            let found: Vec<_> = links_in(value)
                .into_iter()
                .map(|link| (link.target, link.rel))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(target, rel)| (*target, (*rel).to_owned()))
                .collect();
            assert_eq!(found, expected, "{value}");
        }
    }
}
