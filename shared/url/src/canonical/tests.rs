use super::*;
use encoding_rs::{ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16LE, WINDOWS_1252};
use proptest::prelude::*;

fn base(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn absolute(href: &str) -> Result<String, NotCrawlable> {
    canonical(href, None, None)
}

#[test]
fn spellings_of_one_url_have_one_canonical_form() {
    for (href, expected) in [
        ("HTTP://Example.COM", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com?", "http://example.com/"),
        ("http://example.com/?#f", "http://example.com/"),
        ("http://example.com/a#b#c", "http://example.com/a"),
        ("  http://example.com/a\n b  ", "http://example.com/a%20b"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        (
            "http://example.com/a/%2E/b/.%2e/c",
            "http://example.com/a/c",
        ),
        ("http://example.com\\a\\b", "http://example.com/a/b"),
        ("http:example.com/a", "http://example.com/a"),
        (
            "http://example.com/%7euser/%41%2f%e4",
            "http://example.com/~user/A%2F%E4",
        ),
        (
            "http://example.com/?x[y]=1|2",
            "http://example.com/?x%5By%5D=1%7C2",
        ),
        (
            "http://example.com/100%?q=100%&r=%zz",
            "http://example.com/100%25?q=100%25&r=%25zz",
        ),
        ("http://example.com/é?é", "http://example.com/%C3%A9?%C3%A9"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://0x7f000001:80/", "http://127.0.0.1/"),
        ("http://[0:0::1]:8080/", "http://[::1]:8080/"),
        ("https://:@example.com/", "https://example.com/"),
    ] {
        assert_eq!(absolute(href).as_deref(), Ok(expected), "{href}");
    }
}

#[test]
fn what_could_change_the_resource_is_left_alone() {
    for url in [
        "http://example.com//a//b",
        "http://example.com/index.html",
        "http://example.com/?b=1&a=2&a=1&",
        "http://example.com/a;jsessionid=1?sid=2",
        "http://example.com/a%2Fb",
        "http://example.com/?a=%26&b=c+d%2B",
        "http://example.com/?a?",
        "http://www.example.com/A",
    ] {
        assert_eq!(absolute(url).as_deref(), Ok(url));
    }
}

#[test]
fn references_are_resolved_against_the_base() {
    let page = base("https://example.com:8443/a/b?c=d#e");
    for (href, expected) in [
        ("", "https://example.com:8443/a/b?c=d"),
        ("#top", "https://example.com:8443/a/b?c=d"),
        ("?x", "https://example.com:8443/a/b?x"),
        ("?", "https://example.com:8443/a/b"),
        ("c", "https://example.com:8443/a/c"),
        ("../c", "https://example.com:8443/c"),
        ("/c/", "https://example.com:8443/c/"),
        ("//other.example/c", "https://other.example/c"),
        ("//other.example", "https://other.example/"),
        ("http://other.example:8443/", "http://other.example:8443/"),
        ("https:c", "https://example.com:8443/a/c"),
        ("///other.example/c", "https://other.example/c"),
        ("/\\/other.example", "https://other.example/"),
        (":23", "https://example.com:8443/a/:23"),
    ] {
        assert_eq!(
            canonical(href, Some(&page), None).as_deref(),
            Ok(expected),
            "{href}"
        );
    }
}

#[test]
fn a_base_that_is_not_canonical_gives_canonical_urls_all_the_same() {
    let page = base("http://example.com./%7Ea/[b]?");
    for (href, expected) in [
        ("", "http://example.com/~a/%5Bb%5D"),
        ("c", "http://example.com/~a/c"),
        ("/c", "http://example.com/c"),
    ] {
        assert_eq!(
            canonical(href, Some(&page), None).as_deref(),
            Ok(expected),
            "{href}"
        );
    }
    assert_eq!(
        canonical("/c", Some(&base("http://u@example.com/")), None),
        Err(NotCrawlable::UserInfo)
    );
    assert_eq!(
        canonical("/c", Some(&base("ftp://example.com/")), None),
        Err(NotCrawlable::Scheme)
    );
    assert!(matches!(
        canonical("/c", Some(&base("about:blank")), None),
        Err(NotCrawlable::NotAUrl(_))
    ));
    assert_eq!(
        canonical("/c", Some(&base("http://a,b/")), None),
        Err(NotCrawlable::HostInvalid)
    );
}

#[test]
fn what_is_not_crawlable_says_why() {
    for href in [
        "mailto:a@b.example",
        "JavaScript:void(0)",
        "java\nscript:x",
        "data:,x",
        "ftp://a/",
        "tel:1",
        "file:///x",
    ] {
        assert_eq!(absolute(href), Err(NotCrawlable::Scheme), "{href}");
    }
    for href in ["", "a/b", "//a/", "#x", "http://a:99999/", "http://a:b/"] {
        assert!(
            matches!(absolute(href), Err(NotCrawlable::NotAUrl(_))),
            "{href}"
        );
    }
    for href in ["http://", "http:///", "https://?a", "http://:80/"] {
        assert_eq!(absolute(href), Err(NotCrawlable::NoHost), "{href}");
    }
    let long_label = format!("http://{}.example/", "a".repeat(64));
    for href in [
        "http://a b/",
        "http://a..b/",
        "http://./",
        "http://a../",
        "http://1.2.3.256/",
        "http://[::g]/",
        "http://a,b/",
        "http://a%00b/",
        "http://xn--a/",
        &long_label,
    ] {
        assert_eq!(absolute(href), Err(NotCrawlable::HostInvalid), "{href}");
    }
    for href in [
        "http://u@a.example/",
        "http://u:p@a.example/",
        "https://:p@a.example/",
    ] {
        assert_eq!(absolute(href), Err(NotCrawlable::UserInfo), "{href}");
    }
}

#[test]
fn the_length_limit_counts_the_canonical_form() {
    let server = "http://example.com/";
    let longest = format!("{server}{}", "a".repeat(URL_BYTES_MAX - server.len()));
    assert_eq!(absolute(&longest), Ok(longest.clone()));
    assert_eq!(
        absolute(&format!("{longest}#fragment")),
        Ok(longest.clone())
    );
    assert_eq!(absolute(&format!("{longest}a")), Err(NotCrawlable::TooLong));
    // 2,000 characters of two bytes are 12,000 bytes of escapes
    assert_eq!(
        absolute(&format!("{server}{}", "é".repeat(2_000))),
        Err(NotCrawlable::TooLong)
    );
    // decoding makes it fit
    assert!(absolute(&format!("{server}{}", "%61".repeat(2_000))).is_ok());
    assert_eq!(
        absolute(&format!("{server}{}", "x".repeat(10_000_000))),
        Err(NotCrawlable::TooLong)
    );
    assert_eq!(
        absolute(&format!("data:{}", "x".repeat(10_000_000))),
        Err(NotCrawlable::Scheme)
    );
}

#[test]
fn hostile_references_are_refused_with_a_reason_or_escaped() {
    let page = base("http://example.com/");
    for base in [None, Some(&page)] {
        let of = |href: &str| canonical(href, base, None);
        for piece in ["x", "%41", "%", "é", "/", "a/../", "\0x", "?a", "\u{fffd}"] {
            let long = format!("http://example.com/{}", piece.repeat(100_000));
            assert_eq!(of(&long), Err(NotCrawlable::TooLong), "{piece}");
        }
        let parameters = (0..10_000).map(|n| format!("a{n}=1&")).collect::<String>();
        assert_eq!(
            of(&format!("http://example.com/?{parameters}")),
            Err(NotCrawlable::TooLong)
        );
        assert_eq!(
            of(&format!("http://{}/", "a.".repeat(8_000))),
            Err(NotCrawlable::HostInvalid)
        );
        assert!(of(&"é".repeat(100_000)).is_err());
        assert_eq!(of("http://exa\0mple.com/"), Err(NotCrawlable::HostInvalid));
        // As browsers do it; the host-splitter lets no NUL pass.
        assert_eq!(
            of("http://example.com/a\0b?\0c").as_deref(),
            Ok("http://example.com/a%00b?%00c")
        );
        let not_utf8 = String::from_utf8_lossy(b"http://example.com/\xFF?\xC3(");
        assert_eq!(
            of(&not_utf8).as_deref(),
            Ok("http://example.com/%EF%BF%BD?%EF%BF%BD(")
        );
        assert_eq!(
            of(&String::from_utf8_lossy(b"http://ex\xFFample.com/")),
            Err(NotCrawlable::HostInvalid)
        );
    }
}

#[test]
fn the_query_alone_is_encoded_with_the_documents_encoding() {
    let page = base("http://example.com/");
    for (encoding, expected) in [
        (UTF_8, "http://example.com/%C3%A9?%C3%A9"),
        (WINDOWS_1252, "http://example.com/%C3%A9?%E9"),
        (UTF_16LE, "http://example.com/%C3%A9?%C3%A9"),
        // missing there: an escaped numeric character reference
        (SHIFT_JIS, "http://example.com/%C3%A9?%26%23233%3B"),
    ] {
        assert_eq!(
            canonical("/é?é#é", Some(&page), Some(encoding)).as_deref(),
            Ok(expected),
            "{encoding:?}"
        );
    }
    assert_eq!(
        canonical("?日é本&a", Some(&page), Some(SHIFT_JIS)).as_deref(),
        Ok("http://example.com/?%93%FA%26%23233%3B%96%7B&a")
    );
    // a stateful encoding returns to ASCII before the reference
    assert_eq!(
        canonical("?日é", Some(&page), Some(ISO_2022_JP)).as_deref(),
        Ok("http://example.com/?%1B$BF|%1B(B%26%23233%3B"
            .replace('|', "%7C")
            .as_str())
    );
}

#[test]
fn a_link_costs_little() {
    // Goal: a page's links must not cost more than reading the page. The bound is generous, because
    // unoptimised builds on a busy machine run this, too; the figures printed by an optimised build
    // are the ones that count.
    let page = base("https://www.example.com/news/2024/article-17.html");
    let kinds: [(&str, &[&str]); 4] = [
        (
            "clean relative",
            &[
                "/news/2024/article-18.html",
                "article-19.html?page=2",
                "/about/",
                "/tag/some-topic",
                "#top",
            ],
        ),
        (
            "clean absolute",
            &[
                "https://www.example.com/news/a-b-c.html",
                "https://www.example.org/path/to/page?id=17&lang=en",
            ],
        ),
        (
            "escaped",
            &[
                "/wiki/%E6%97%A5%E6%9C%AC",
                "https://ja.example.org/wiki/%E6%97%A5%E6%9C%AC%E8%AA%9E",
            ],
        ),
        (
            "to be parsed",
            &[
                "../2023/a.html",
                "/a b/[c]?d=é",
                "HTTPS://WWW.Example.com:443/x",
                "http://www.example.org",
            ],
        ),
    ];
    for (kind, links) in kinds {
        const ROUNDS: u128 = 1_000;
        let timed = || {
            let start = std::time::Instant::now();
            for _ in 0..ROUNDS {
                for link in links {
                    let _ = std::hint::black_box(canonical(
                        std::hint::black_box(link),
                        Some(&page),
                        Some(UTF_8),
                    ));
                }
            }
            start.elapsed().as_nanos() / (ROUNDS * links.len() as u128)
        };
        // What else the machine does only adds to it.
        let each_ns = (0..20).map(|_| timed()).min().unwrap();
        println!("{kind}: {each_ns} ns a link");
        assert!(each_ns < 50_000, "{kind}: {each_ns} ns a link");
    }
}

/// References made of the pieces that matter, so that clean and dirty ones are both frequent.
/// Pieces that references are made of; a slash comes more often than the others.
const PIECES: &[&str] = &[
    "http://",
    "https://",
    "//",
    "/",
    "/",
    "/",
    "a",
    "b",
    "Z",
    "0",
    "1",
    "-",
    "_",
    "~",
    "..",
    ".",
    "%2e",
    "%2F",
    "%2f",
    "%41",
    "%",
    "%%36%36",
    "%C3%A9",
    "%e9",
    "é",
    "日",
    "?",
    "?",
    "#",
    "&",
    "=",
    "+",
    "'",
    "[",
    "]",
    "|",
    "^",
    "`",
    "{",
    "}",
    "\\",
    "\"",
    "<",
    " ",
    "\t",
    "\n",
    "\u{0}",
    "@",
    ":",
    ":80",
    ":8080",
    ";",
    ",",
    "!",
    "*",
    "$",
    "(",
    ")",
    "example.com",
    "Example.COM",
    "example.com.",
    "xn--",
    "xn--bcher-kva.de",
    "1.2.3.4",
    "0x7f",
    "[::1]",
    "u:p@",
    "http:",
    "mailto:",
    "localhost",
    ".well-known",
    "\u{3002}",
    "\u{AD}",
];

fn reference() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn bases() -> impl Strategy<Value = Option<Url>> {
    let texts = [
        "http://example.com/",
        "https://example.com:8443/a/b?c=d#e",
        "http://127.0.0.1:8080/x/y/",
        "http://[::1]:81/p?q",
        "http://example.com./%7Ea/[b]?",
        "http://u:p@example.com/a",
        "ftp://example.com/a",
        "about:blank",
        "http://a,b/c",
        "http://xn--bcher-kva.de/é?'",
        "http://example.com//a//",
    ];
    prop_oneof![
        Just(None),
        prop::sample::select(texts.to_vec()).prop_map(|text| Some(base(text))),
        reference().prop_map(|text| Url::parse(&format!("http://example.com/{text}")).ok()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_shortcut_gives_what_the_parser_gives(href in reference(), base in bases()) {
        let href = href.trim_matches(|c| c <= ' ');
        let cut = href.split('#').next().unwrap();
        if let Some(short) = clean(cut, base.as_ref()) {
            prop_assert_eq!(Ok(short), parsed(href, base.as_ref(), None));
        } else {
            // cutting the fragment and the early scheme check do not change the parser's verdict
            prop_assert_eq!(canonical(href, base.as_ref(), None).ok(), parsed(href, base.as_ref(), None).ok());
        }
    }

    #[test]
    fn the_shortcut_of_links_to_the_pages_own_server_gives_what_the_parser_gives(rest in reference(), base in bases()) {
        let Some(base) = base.filter(|base| !base.cannot_be_a_base()) else { return Ok(()) };
        for server in [base[..Position::BeforePath].to_owned(), base[..Position::BeforePath].replace("http", "HTTP")] {
            let href = format!("{server}{rest}");
            let href = href.split('#').next().unwrap().trim_matches(|c| c <= ' ');
            if let Some(short) = clean(href, Some(&base)) {
                prop_assert_eq!(Ok(short), parsed(href, Some(&base), None), "{} on {}", href, base);
            }
        }
    }

    #[test]
    fn clean_links_take_the_shortcut(path in "(/[a-z0-9_~!$&()*+,;=:@-][a-zA-Z0-9._-]{0,8}){0,5}/", query in "(\\?[a-z=&+/?%]{0}[a-z=&0-9]{1,9})?") {
        let page = base("https://example.com/a/b.html?c=d");
        let absolute = format!("https://www.example.org{path}{query}");
        prop_assert_eq!(clean(&absolute, None), Some(absolute.clone()));
        let relative = format!("{path}{query}");
        prop_assert_eq!(clean(&relative, Some(&page)), Some(format!("https://example.com{relative}")));
        let page = base("https://example.com:8443/a/b.html");
        let own = format!("https://example.com:8443{path}{query}");
        prop_assert_eq!(clean(&own, Some(&page)), Some(own.clone()));
        prop_assert_eq!(clean(&own, None), None);
    }

    #[test]
    fn canonical_is_idempotent_and_its_result_is_a_short_ascii_uri(href in reference(), base in bases()) {
        if let Ok(once) = canonical(&href, base.as_ref(), None) {
            prop_assert_eq!(canonical(&once, None, None), Ok(once.clone()));
            prop_assert_eq!(canonical(&once, base.as_ref(), Some(SHIFT_JIS)), Ok(once.clone()));
            prop_assert!(once.len() <= URL_BYTES_MAX && !once.contains('#'));
            let is_uri_byte = |byte: u8| byte.is_ascii_graphic() && !br#""<>[\]^`{|}"#.contains(&byte);
            let path = super::super::path_of(&once);
            prop_assert!(path.starts_with('/') && path.bytes().all(is_uri_byte), "{}", once);
            prop_assert!(super::super::server_of(&once).parse::<super::super::Server>().is_ok(), "{}", once);
        }
    }

    #[test]
    fn any_text_gives_an_answer(href in ".{0,80}", encoding in prop::sample::select(vec![UTF_8, WINDOWS_1252, SHIFT_JIS, ISO_2022_JP, UTF_16LE])) {
        for base in [None, Some(base("http://example.com/a/b"))] {
            if let Ok(once) = canonical(&href, base.as_ref(), Some(encoding)) {
                prop_assert_eq!(canonical(&once, None, None), Ok(once));
            }
        }
    }
}
