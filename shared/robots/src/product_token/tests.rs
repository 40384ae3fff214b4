use super::*;
use proptest::prelude::*;

/// Names and the user agents that have them: the forms of crawlers that exist, under names of
/// others.
const NAMED: &[(&str, &[&str])] = &[
    (
        "mybot",
        &[
            "mybot",
            "mybot/1.0",
            "mybot/",
            "mybot//2",
            "mybot/1.0 (+https://example.org/bot)",
            "mybot/1.0(+https://example.org/bot)",
            "mybot (+https://example.org/bot)",
            "mybot (mail@example.org)",
            "mybot +https://example.org/bot",
            "mybot mail@example.org",
            "mybot https://example.org/bot",
            "https://example.org/bot mybot/1.0",
            "mybot - https://example.org/bot",
            "mybot 1.0 (+https://example.org/bot)",
            "mybot; (+https://example.org/bot.html)",
            "mybot/1.1; (+https://example.org/bot.html)",
            "mybot, crawls for example.org",
            "mybot/1.0 a-library/2.3 another/4",
            "mybot/1.0 Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0",
            "mybot/1.0 (a comment (in a comment); with \\) quoted \\( ones)",
            "mybot/1.0 (never closed",
        ],
    ),
    (
        "mybot",
        &[
            "Mozilla/5.0 (compatible; mybot/1.0; +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot; +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot/1.0 +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot/v1.4.8; https://example.org/)",
            "Mozilla/5.0 (compatible; mybot/7~bl; +https://example.org/bot.html)",
            "Mozilla/5.0 (compatible; mybot/Fast/2.0; +https://example.org/bot.html)",
            "Mozilla/5.0 (compatible; mybot/1.2; +https://example.org/bot; help@example.org)",
            "Mozilla/5.0 (compatible; mybot/3.0; another-part; +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot/2.3 (a comment; within))",
            "Mozilla/5.0 (compatible; mybot (a comment; within))",
            "Mozilla/5.0 (compatible;mybot;+https://example.org/bot)",
            "Mozilla/5.0 (compatible;mybot)",
            "Mozilla/5.0 (compatible; ; mybot)",
            "Mozilla/5.0 (compatible ; mybot )",
            "Mozilla/5.0 (Compatible; mybot/1.0",
            "Mozilla/5.0(compatible;mybot/1.0)",
            "Mozilla/5.0 (compatible; my\\bot/1.0)",
            "Mozilla/5.0 (\\(; compatible; mybot/1.0)",
            "(compatible; mybot/1.0; +https://example.org/bot)",
            "Mozilla/5.0 (compatible; mybot/1.0) a-library/6.1",
            "Mozilla/5.0 (compatible; mybot/1.0) mybot/1.0 (compatible; MyBot/1.0)",
            "mybot/1.0 (compatible; mybot/1.0; +https://example.org/bot)",
        ],
    ),
    (
        "mybot",
        &[
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; mybot/2.1; \
             +http://example.org/bot) Chrome/125.0.0.0 Safari/537.36",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; mybot/1.2; \
             +mail@example.org)",
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, \
             like Gecko) Chrome/125.0.0.0 Mobile Safari/537.36 (compatible; mybot/2.1; \
             +http://example.org/bot.html)",
            "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile \
             Safari/537.36 (compatible; mybot; mail@example.org)",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 14_7_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, \
             like Gecko) Version/14.1.2 Mobile/15E148 Safari/604.1 (compatible; mybot; \
             +http://example.org/bot)",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/125.0 Safari/537.36 mybot/1.0",
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0 \
             mybot/0.2 (+https://example.org)",
            "Mozilla/5.0 (Windows NT 10.0; Trident/7.0; rv:11.0) like Gecko mybot",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Ubuntu \
             Chromium/80.0 Chrome/80.0 Safari/537.36 OPR/67 Edg/80 mybot/1",
            "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) mybot/1.0",
            "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) (compatible; mybot/1.0)",
            "Mozilla/5.0 (compatible; +https://example.org/bot) mybot/1.0",
            "Mozilla/5.0 mybot/1.0",
            "Whale/3.0 mybot/1.0",
            "mozilla/5.0 (X11 (compatible; mybot/1.0))",
        ],
    ),
    (
        "MJ12bot",
        &[
            "Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)",
            "MJ12bot",
        ],
    ),
    (
        "360Spider",
        &[
            "Mozilla/5.0 (compatible; 360Spider; +http://example.org)",
            "360Spider/1",
        ],
    ),
    ("bot2", &["bot2/2.0 (x)"]),
    (
        "ia_archiver",
        &["ia_archiver (+http://example.org; crawler@example.org)"],
    ),
    (
        "my-bot-images",
        &[
            "my-bot-images/1.0",
            "Mozilla/5.0 (compatible; my-bot-images/1.0)",
        ],
    ),
    (
        "heritrix",
        &["Mozilla/5.0 (compatible; heritrix/3.4.0 +https://crawler.example.org)"],
    ),
    ("python-requests", &["python-requests/2.31.0"]),
];

#[test]
fn a_user_agent_is_named_by_what_is_compatible_or_by_its_first_product_that_is_no_browser() {
    for (name, agents) in NAMED {
        for agent in *agents {
            assert_eq!(of_user_agent(agent).as_deref(), Ok(*name), "{agent}");
        }
    }
}

#[test]
fn what_names_nobody_but_browsers_has_no_product_token() {
    for agent in [
        "",
        " ",
        "(+https://example.org/bot)",
        "(mail@example.org) (another comment (and another))",
        "mail@example.org",
        "https://example.org/mybot",
        "Mozilla/5.0",
        "Mozilla/5.0 (compatible)",
        "Mozilla/5.0 (compatible; ; )",
        "Mozilla/5.0 (compatible; +https://example.org/mybot)",
        "Mozilla/5.0 (a; mybot/1.0)",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/1.0 Safari/537.36",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:125.0) Gecko/20100101 Firefox/125.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1 (KHTML, like Gecko) \
         Version/17.0 Safari/605.1",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         HeadlessChrome/125.0 Safari/537.36",
        "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1 Mobile \
         Safari/537.36 EdgA/1 OPR/2",
        "Mozilla/5.0 (Macintosh) AppleWebKit/600 (KHTML, like Gecko) Version/8.0.2 Safari/600 \
         (mybot/0.1; +https://example.org)",
        "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)",
        "Mozilla/5.0 (compatible; Konqueror/4.5; Linux 2.6) KHTML/4.5.4 (like Gecko)",
        "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
        "Opera/9.80 (J2ME/MIDP; Opera Mini/7.0; U; en) Presto/2.12 Version/12.16",
        "1.0 2/3 -",
    ] {
        assert_eq!(of_user_agent(agent), Err(Unnamed::Nobody), "{agent}");
    }
}

#[test]
fn a_name_that_is_no_product_token_is_told() {
    for (agent, word) in [
        ("archive.org_bot/1.0", "archive.org_bot/1.0"),
        (
            "Mozilla/5.0 (compatible; archive.org_bot +http://example.org)",
            "archive.org_bot",
        ),
        (
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://example.org)",
            "Yahoo!",
        ),
        ("mybot+(+https://example.org)", "mybot+"),
        ("my*bot/1", "my*bot/1"),
        ("böt/1", "böt/1"),
        ("mybot)/1", "mybot)/1"),
        ("/mybot", "/mybot"),
        ("\"mybot\"/1", "\"mybot\"/1"),
        ("www.example.org/bot", "www.example.org/bot"),
    ] {
        assert_eq!(
            of_user_agent(agent),
            Err(Unnamed::Forbidden(word.to_owned())),
            "{agent}"
        );
    }
    let long = "x".repeat(PRODUCT_TOKEN_BYTES_MAX + 1);
    assert_eq!(of_user_agent(&long), Err(Unnamed::Forbidden(long)));
}

#[test]
fn a_name_that_may_be_one_of_two_is_told() {
    let words = |one: &str, two: &str| Err(Unnamed::Words(one.to_owned(), two.to_owned()));
    assert_eq!(of_user_agent("my bot/1.0"), words("my", "bot"));
    assert_eq!(
        of_user_agent("my friendly bot (+https://example.org)"),
        words("my", "friendly")
    );
    assert_eq!(
        of_user_agent("Mozilla/5.0 (compatible; my web spider/4.0)"),
        words("my", "web")
    );
    assert_eq!(of_user_agent("Whale bot/1.0"), words("Whale", "bot"));
    assert_eq!(of_user_agent("silk worm"), words("silk", "worm"));
    let several = |one: &str, two: &str| Err(Unnamed::Several(one.to_owned(), two.to_owned()));
    for (agent, one, two) in [
        (
            "Mozilla/5.0 (compatible; one/1) (compatible; two/2)",
            "one",
            "two",
        ),
        (
            "one/1.0 (compatible; two/2.1; +https://example.org)",
            "one",
            "two",
        ),
        ("Mozilla/5.0 one/1 (compatible; two/2)", "one", "two"),
        (
            "Mozilla/5.0 (compatible; one (compatible; two))",
            "two",
            "one",
        ),
    ] {
        assert_eq!(of_user_agent(agent), several(one, two), "{agent}");
    }
}

#[test]
fn a_product_token_is_letters_digits_and_two_signs_with_a_letter_among_them() {
    for token in [
        "rhumb",
        "my-bot",
        "my_bot",
        "MJ12bot",
        "360Spider",
        "x",
        "Mozilla",
    ] {
        assert!(is_product_token(token), "{token}");
    }
    let long = "x".repeat(PRODUCT_TOKEN_BYTES_MAX + 1);
    for text in [
        "", "*", "my bot", "my.bot", "mybot/1", "360", "-", "_", "böt", "bot\n", "my\0bot", &long,
    ] {
        assert!(!is_product_token(text), "{text:?}");
    }
    for (value, start) in [
        ("mybot", "mybot"),
        ("MyBot/1.0 x", "MyBot"),
        ("bot2 # x", "bot2"),
        ("*", ""),
        ("", ""),
    ] {
        assert_eq!(at_start_of(value.as_bytes()), start.as_bytes());
    }
}

/// Pieces that user agents are made of, so that random ones have all of them.
const PIECES: &str = "([ -~]|mybot|Mozilla/5.0|compatible;|[()\\\\; /@+]|Safari|\\PC){0,40}";

proptest! {
    #[test]
    fn any_text_has_a_product_token_or_none(agent in PIECES) {
        if let Ok(token) = of_user_agent(&agent) {
            prop_assert!(is_product_token(&token), "{token}");
            prop_assert!(agent.contains(&token) || agent.contains('\\'), "it is part of the user agent");
            prop_assert!(!is_foreign(&token));
        }
    }

    #[test]
    fn any_bytes_have_one_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(of_user_agent(&text).is_ok_and(|token| is_product_token(&token)) || of_user_agent(&text).is_err());
        prop_assert!(bytes.starts_with(at_start_of(&bytes)));
    }

    #[test]
    fn a_token_is_found_in_the_usual_forms(token in "[A-Za-z][A-Za-z0-9_-]{0,20}", version in "[0-9]{1,2}") {
        prop_assume!(!is_foreign(&token));
        for agent in [
            token.clone(),
            format!("{token}/{version} (+https://example.org)"),
            format!("Mozilla/5.0 (compatible; {token}/{version}; +https://example.org)"),
            format!("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; {token}; x) \
                     Chrome/{version} Safari/1"),
        ] {
            prop_assert_eq!(of_user_agent(&agent), Ok(token.clone()));
        }
    }
}
