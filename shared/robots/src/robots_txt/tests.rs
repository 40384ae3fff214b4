use super::*;
use proptest::prelude::*;
use std::time::Instant;

const TOKEN: &str = "rhumb";

fn robots(text: &str) -> Robots {
    Robots::parse(text.as_bytes(), TOKEN)
}

/// Verdict of a single rule set for everyone.
fn allowed(rules: &str, path: &str) -> bool {
    robots(&format!("User-agent: *\n{rules}\n")).allows(path)
}

#[test]
fn no_rules_allow_everything_and_an_unreachable_file_forbids_everything_but_itself() {
    for robots in [
        Robots::allow_all(),
        robots(""),
        robots("User-agent: *\nDisallow:\n"),
        robots("<html>404</html>"),
    ] {
        assert!(robots.allows("/") && robots.allows("/a?b") && robots.allows(""));
    }
    let closed = Robots::disallow_all();
    assert!(
        !closed.allows("/")
            && !closed.allows("/a?b")
            && !closed.allows("")
            && !closed.allows("/robots.txt?x")
    );
    assert!(closed.allows("/robots.txt"));
}

#[test]
fn the_rule_with_the_most_octets_decides_and_allow_wins_a_tie() {
    for (rules, path, verdict) in [
        ("Allow: /p\nDisallow: /", "/page", true),
        ("Disallow: /\nAllow: /p", "/page", true),
        ("Allow: /folder\nDisallow: /folder", "/folder/page", true),
        ("Disallow: /folder\nAllow: /folder", "/folder/page", true),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", false),
        ("Allow: /page\nDisallow: /*.ph", "/page.php5", true),
        ("Allow: /$\nDisallow: /", "/", true),
        ("Allow: /$\nDisallow: /", "/page.htm", false),
        (
            "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c",
            "/a/b/d",
            true,
        ),
        (
            "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c",
            "/a/b/c/d",
            false,
        ),
        // the same octets in two spellings: a tie
        ("Allow: /%E3%83%84\nDisallow: /ツ", "/ツ", true),
        ("Allow: /%62\nDisallow: /b", "/b", true),
    ] {
        assert_eq!(allowed(rules, path), verdict, "{rules:?} {path}");
    }
}

#[test]
fn patterns_match_from_the_start_and_case_counts() {
    for (pattern, path, matched) in [
        ("/", "/anything", true),
        ("/fish", "/fish.html", true),
        ("/fish", "/Fish.asp", false),
        ("/fish", "/catfish", false),
        ("/fish/", "/fish", false),
        ("/fish/", "/fish/?id=1", true),
        ("/fish*", "/fishheads/yummy.html", true),
        ("/*.php", "/folder/filename.php?parameters", true),
        ("/*.php", "/windows.PHP", false),
        ("/*.php$", "/filename.php", true),
        ("/*.php$", "/filename.php?parameters", false),
        ("/*.php$", "/filename.php/", false),
        ("/*.php$", "/a.php.b.php", true),
        ("/fish*.php", "/fishheads/catfish.php?parameters", true),
        ("/fish*.php", "/Fish.PHP", false),
        ("*.gif$", "/a/b.gif", true),
        ("*", "/", true),
        ("/**a**b", "/xaxb", true),
        ("/a*$", "/abc", true),
        ("/a$", "/a", true),
        ("/a$", "/ab", false),
        // a dollar elsewhere than at the end is itself
        ("/a$b", "/a$bc", true),
        ("/a$b", "/ab", false),
        ("/ab*ba$", "/aba", false),
        ("/*?", "/a", false),
        ("/*?", "/a?b", true),
    ] {
        assert_eq!(
            !allowed(&format!("Disallow: {pattern}"), path),
            matched,
            "{pattern} {path}"
        );
    }
}

#[test]
fn escapes_are_compared_as_the_rfc_says() {
    for (pattern, path, matched) in [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
        (
            "/foo/bar?baz=https://foo.bar",
            "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
            true,
        ),
        (
            "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
            "/foo/bar?baz=https://foo.bar",
            true,
        ),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", true),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ", true),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", true),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", true),
        // special characters, taken verbatim (2.2.3)
        (
            "/path/file-with-a-%2A.html",
            "/path/file-with-a-*.html",
            true,
        ),
        (
            "/path/file-with-a-%2A.html",
            "/path/file-with-a-b.html",
            false,
        ),
        ("/path/foo-%24", "/path/foo-$", true),
        ("/path/foo-%24", "/path/foo-", false),
        ("/a:b", "/a%3Ab", true),
        ("/a[b]", "/a%5Bb%5D", true),
        // separators differ from their escapes
        ("/a/b", "/a%2Fb", false),
        ("/a%2Fb", "/a/b", false),
        ("/a?b", "/a%3Fb", false),
        ("/a?b=c%26d", "/a?b=c&d", false),
        // in the query a slash separates nothing, wherever the wildcards are
        ("/*url=http://", "/go?url=http://x.example/", true),
        ("/*url=http://", "/go?url=http%3A%2F%2Fx.example%2F", true),
        ("/*//x?y/z", "/a?u=http://x?y/z", true),
        // escapes that are none
        ("/100%", "/100%25", true),
        ("/%zz", "/%25zz", true),
    ] {
        assert_eq!(
            !allowed(&format!("Disallow: {pattern}"), path),
            matched,
            "{pattern} {path}"
        );
    }
    // bytes in another encoding match that encoding's escapes
    assert!(!Robots::parse(b"User-agent: *\nDisallow: /caf\xe9", TOKEN).allows("/caf%E9"));
}

#[test]
fn the_groups_of_our_token_are_merged_and_replace_those_of_everyone() {
    let text = "User-agent: RHUMB\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n\nUser-agent: \
                x\nUser-agent: Rhumb/9.9 beta\nDisallow: /b\n";
    let ours = robots(text);
    assert!(!ours.allows("/a") && !ours.allows("/b") && ours.allows("/c"));
    let others = Robots::parse(text.as_bytes(), "other");
    assert!(!others.allows("/a") && !others.allows("/c"));
    let x = Robots::parse(text.as_bytes(), "X");
    assert!(x.allows("/a") && !x.allows("/b"));
    // the token has to be equal, not a part
    for similar in ["rhumbs", "rhum", "my-rhumb", "rhumb-images", "rhumb2"] {
        assert!(
            robots(&format!("User-agent: {similar}\nDisallow: /\n")).allows("/"),
            "{similar}"
        );
    }
    // no token of our own: everyone's groups
    assert!(!Robots::parse(text.as_bytes(), "").allows("/c"));
    assert!(Robots::parse(b"User-agent:\nDisallow: /\n", "").allows("/c"));
}

#[test]
fn several_groups_of_everyone_are_merged_too() {
    let merged = robots(
        "User-agent: *\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: * # all\nDisallow: \
         /b\n",
    );
    assert!(!merged.allows("/a") && !merged.allows("/b") && merged.allows("/c"));
}

#[test]
fn a_group_without_rules_allows_everything() {
    assert!(robots("User-agent: *\nDisallow: /\n\nUser-agent: rhumb\n").allows("/a"));
}

#[test]
fn a_group_ends_at_the_first_user_agent_behind_a_rule_and_at_no_other_record() {
    let text = "User-agent: rhumb\nCrawl-delay: 3\nSitemap: /s.xml\nnonsense: 1\n\nUser-agent: \
                x\nDisallow: /a\nUser-agent: y\nDisallow: /b\n";
    let ours = robots(text);
    assert!(!ours.allows("/a") && ours.allows("/b"));
    let x = Robots::parse(text.as_bytes(), "x");
    assert!(!x.allows("/a"));
    // named behind the delay
    assert_eq!(
        (ours.crawl_delay(), x.crawl_delay()),
        (Some(Duration::from_secs(3)), None)
    );
    // an empty or malformed rule is a rule
    for rule in ["Disallow:", "Disallow: nonsense"] {
        assert!(
            robots(&format!(
                "User-agent: rhumb\n{rule}\nUser-agent: x\nDisallow: /\n"
            ))
            .allows("/"),
            "{rule}"
        );
    }
}

#[test]
fn rules_before_any_user_agent_are_ignored() {
    assert!(robots("Disallow: /\nCrawl-delay: 9\nUser-agent: *\nDisallow: /a\n").allows("/b"));
    assert_eq!(
        robots("Crawl-delay: 9\nUser-agent: *\n").crawl_delay(),
        None
    );
}

#[test]
fn rules_that_do_not_start_with_a_slash_or_a_wildcard_match_nothing() {
    assert!(allowed(
        "Disallow: a\nDisallow: https://example.com/a\nDisallow: $",
        "/a"
    ));
}

#[test]
fn lines_end_in_any_way_and_may_hold_white_space_and_comments() {
    for end in ["\n", "\r", "\r\n", "\n\n", "\r\r\n"] {
        let text = [
            "  uSeR-aGeNt \t: * # everyone",
            "# comment",
            "\tDISALLOW:/a#b",
            " Allow : /a/c  ",
        ]
        .join(end);
        let parsed = robots(&text);
        assert!(
            !parsed.allows("/a") && !parsed.allows("/ab") && parsed.allows("/a/c"),
            "{end:?}"
        );
    }
}

#[test]
fn misspelt_keys_and_missing_colons_are_understood() {
    for rule in [
        "Disalow: /a",
        "Dissallow: /a",
        "disallow /a",
        "Disallow\t/a",
        "desallow: /a",
    ] {
        assert!(!allowed(rule, "/a"), "{rule}");
    }
    for rule in [
        "disallow",
        "disallow /a /b",
        "disallow-all: /a",
        "dis allow: /a",
        ": /a",
    ] {
        assert!(allowed(rule, "/a"), "{rule}");
    }
    for agent in ["useragent: rhumb", "user agent: rhumb", "User-agent rhumb"] {
        assert!(
            !robots(&format!("{agent}\nDisallow: /a\n")).allows("/a"),
            "{agent}"
        );
    }
}

#[test]
fn byte_order_marks_and_utf_16_are_understood() {
    let text = "User-agent: *\nDisallow: /é\n";
    let marked = format!("\u{feff}{text}");
    let little: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = marked.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for body in [text.as_bytes(), marked.as_bytes(), &little, &big] {
        let parsed = Robots::parse(body, TOKEN);
        assert!(!parsed.allows("/%C3%A9") && parsed.allows("/"));
    }
}

#[test]
fn what_lies_beyond_the_limit_is_not_read_and_a_cut_line_is_dropped() {
    let mut body = b"User-agent: *\nDisallow: /a\n".to_vec();
    body.resize(BYTES_MAX - 12, b'#');
    // the limit falls behind the first slash
    body.extend_from_slice(b"\nDisallow: /b\nDisallow: /c\n");
    assert_eq!(&body[BYTES_MAX - 12..BYTES_MAX], b"\nDisallow: /");
    let parsed = Robots::parse(&body, TOKEN);
    assert!(!parsed.allows("/a") && parsed.allows("/b") && parsed.allows("/c"));
    assert_eq!(
        Robots::parse(&vec![b'a'; BYTES_MAX * 2], TOKEN),
        Robots::allow_all()
    );
}

#[test]
fn crawl_delays_may_have_fractions_and_garbage_is_ignored() {
    for (value, ms) in [
        ("1", Some(1_000)),
        ("0.5", Some(500)),
        (".25", Some(250)),
        ("10 # s", Some(10_000)),
        ("0", Some(0)),
        ("1.0004", Some(1_000)),
        ("99999999999999999999", Some(u64::from(u32::MAX))),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("inf", None),
        ("NaN", None),
        ("10s", None),
        ("1,5", None),
        (".", None),
        ("+1", None),
    ] {
        let delay = robots(&format!("User-agent: *\nCrawl-delay: {value}\n")).crawl_delay();
        assert_eq!(delay, ms.map(Duration::from_millis), "{value}");
    }
    let several = robots(
        "User-agent: rhumb\nCrawl-delay: 2\nCrawl-delay: 7\nDisallow:\nUser-agent: *\nCrawl-delay: \
         30\n",
    );
    assert_eq!(several.crawl_delay(), Some(Duration::from_secs(7)));
}

#[test]
fn sitemaps_belong_to_no_group_and_are_listed_once_as_written() {
    let text = "Sitemap: https://a.test/S.xml?x=1\nUser-agent: x\nsitemap: \
                /b.xml\nSITE-MAP:https://a.test/S.xml?x=1\nSitemap:\nDisallow: /\n";
    assert_eq!(
        robots(text).sitemaps(),
        ["https://a.test/S.xml?x=1", "/b.xml"]
    );
    assert_eq!(
        robots(text).sitemaps_left_out(),
        0,
        "what is listed twice is not left out"
    );
    let many: String = (0..SITEMAPS_MAX + 5)
        .map(|n| format!("Sitemap: /{n}.xml\n"))
        .collect();
    assert_eq!(
        (
            robots(&many).sitemaps().len(),
            robots(&many).sitemaps_left_out()
        ),
        (SITEMAPS_MAX, 5)
    );
    let long = robots(&format!("Sitemap: /{}", "a".repeat(URL_BYTES_MAX)));
    assert_eq!((long.sitemaps().len(), long.sitemaps_left_out()), (0, 1));
}

#[test]
fn the_compiled_rules_survive_storage_and_hold_only_what_applies() {
    let others: String = (0..1_000)
        .map(|n| format!("User-agent: bot{n}\nDisallow: /{n}\n"))
        .collect();
    let parsed = robots(&format!(
        "{others}User-agent: *\nDisallow: /a\nDisallow: /a\nAllow: /a/b\nCrawl-delay: 1\nSitemap: \
         /s\n"
    ));
    assert_eq!(parsed.rules, "+/a/b\n-/a\n");
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&parsed).unwrap();
    assert_eq!(
        rkyv::from_bytes::<Robots, rkyv::rancor::Error>(&bytes).unwrap(),
        parsed
    );
}

#[test]
fn many_wildcards_do_not_blow_up() {
    // Goal: matching is linear. Method: patterns on which backtracking would take longer than the
    // universe lasts.
    let path = format!("/{}", "a".repeat(URL_BYTES_MAX));
    let start = Instant::now();
    for pattern in [
        format!("/{}b", "*a".repeat(2_000)),
        format!("/{}b$", "*a".repeat(2_000)),
        "/*a*a*a*a*b".to_owned(),
    ] {
        assert!(allowed(&format!("Disallow: {pattern}"), &path));
    }
    assert!(!allowed(
        &format!("Disallow: /{}", "*a".repeat(2_000)),
        &path
    ));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

/// The textbook definition of a match, for comparison: tries everything.
fn matches_slowly(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => true,
        [b'$'] => path.is_empty(),
        [b'*', rest @ ..] => (0..=path.len()).any(|at| matches_slowly(rest, &path[at..])),
        [byte, rest @ ..] => path.first() == Some(byte) && matches_slowly(rest, &path[1..]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn matching_agrees_with_the_textbook(pattern in "[/*][ab*/]{0,8}\\$?", path in "/[ab/]{0,12}") {
        let (normal, _) = normalised_pattern(pattern.as_bytes());
        prop_assert_eq!(matches(&normal, &path), matches_slowly(pattern.as_bytes(), path.as_bytes()), "{}", normal);
    }

    #[test]
    fn no_bytes_make_parsing_or_matching_panic(body in prop::collection::vec(any::<u8>(), 0..300), agent in ".{0,10}", path in ".{0,40}") {
        let parsed = Robots::parse(&body, &agent);
        let _ = (parsed.allows(&path), parsed.crawl_delay(), parsed.sitemaps());
    }

    #[test]
    fn no_likely_text_makes_parsing_or_matching_panic(
        lines in prop::collection::vec(("(User-agent|Allow|Disallow|Crawl-delay|Sitemap)", "[: ]{0,2}", "[\\PC*$%/?#]{0,20}", "(\r|\n|\r\n)"), 0..20),
        mark in prop::sample::select(vec![&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
        path in "/[\\PC*$%/?]{0,20}",
    ) {
        let text: String = std::iter::once("User-agent: *\n".to_owned()).chain(lines.into_iter().map(|(a, b, c, d)| a + &b + &c + &d)).collect();
        let parsed = Robots::parse(&[mark, text.as_bytes()].concat(), TOKEN);
        let _ = (parsed.allows(&path), parsed.crawl_delay(), parsed.sitemaps());
        // a rule made of the path itself forbids it
        let own = path.replace('*', "%2A").replace('$', "%24").replace('#', "%23");
        prop_assert!(own.trim() != own || !allowed(&format!("Disallow: {own}"), &path), "{}", own);
    }
}
