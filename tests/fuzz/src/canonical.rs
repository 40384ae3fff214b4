//! Goal: whatever stands in a page or on the command line, there is an answer, and a canonical URL
//! keeps what is promised of it: it is its own canonical form, everything that is read off it can
//! be read off it, the host-splitter takes it, and rewriting it gives a canonical URL that stays as
//! it is.
//!
//! Input: a byte that chooses the document's encoding, the reference, a byte 0xFF (no UTF-8 holds
//! one), the base.

use encoding_rs::{Encoding, ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16LE, WINDOWS_1252};
use host_splitter::splitter::{Settings, Splitter};
use rhumb_config::Pipeline;
use rhumb_stage::{Core, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::UrlCache;
use rhumb_url::{
    Rules, Server, URL_BYTES_MAX, canonical, fingerprint, host_of, partition, path_of, server_of,
    surt,
};
use rhumb_wire::message::{FoundUrls, Origin, Quality};
use std::sync::LazyLock;
use url::Url;

const ENCODINGS: [Option<&Encoding>; 6] = [
    None,
    Some(UTF_8),
    Some(WINDOWS_1252),
    Some(SHIFT_JIS),
    Some(ISO_2022_JP),
    Some(UTF_16LE),
];

/// The form alone decides: no other filter is reached.
static PIPELINE: LazyLock<Pipeline> = LazyLock::new(|| {
    crate::pipeline(&[
        "limits.url_bytes_max=4096",
        "limits.segment_repeats=1000",
        "limits.query_parameters=1000",
    ])
});

/// Takes one input.
pub fn run(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    let encoding = ENCODINGS[usize::from(choice) % ENCODINGS.len()];
    let mut parts = text
        .splitn(2, |&byte| byte == 0xFF)
        .map(String::from_utf8_lossy);
    let href = parts.next().unwrap_or_default();
    let base = parts.next().and_then(|base| Url::parse(&base).ok());
    for base in [None, base.as_ref()] {
        let Ok(url) = canonical(&href, base, encoding) else {
            continue;
        };
        assert_eq!(
            canonical(&url, base, encoding).as_ref(),
            Ok(&url),
            "of {href:?} on {base:?}"
        );
        check(&url);
        for bits in 0..16 {
            let rules = rules(bits);
            let rewritten = rules.rewrite(&url);
            assert_eq!(rules.rewrite(&rewritten), rewritten, "{rules:?} of {url}");
            if rewritten != url {
                assert!(rules.are_active(), "{url}");
                check(&rewritten);
            }
        }
    }
}

fn rules(bits: u8) -> Rules {
    Rules {
        sort_query: bits & 1 != 0,
        drop_session_ids: bits & 2 != 0,
        drop_tracking: bits & 4 != 0,
        drop_index_files: bits & 8 != 0,
    }
}

/// What is promised of a canonical URL.
fn check(url: &str) {
    let as_base = Url::parse(url).expect("a URL");
    assert_eq!(as_base.as_str(), url);
    assert_eq!(canonical(url, None, None).as_deref(), Ok(url));
    assert_eq!(canonical("", Some(&as_base), None).as_deref(), Ok(url));

    let is_uri_byte = |byte: u8| byte.is_ascii_graphic() && !br##""#<>[\]^`{|}"##.contains(&byte);
    let server = server_of(url);
    let path = path_of(url);
    assert!(url.len() <= URL_BYTES_MAX, "{url}");
    assert!(
        path.starts_with('/') && path.bytes().all(is_uri_byte),
        "{url}"
    );
    assert!(
        as_base.username().is_empty() && as_base.password().is_none(),
        "{url}"
    );
    let parsed: Server = server.parse().expect("a server");
    assert_eq!(
        (parsed.to_string().as_str(), parsed.host.as_str()),
        (server, host_of(url))
    );
    assert!(partition(host_of(url), 64) < 64);
    assert_eq!(fingerprint(url), fingerprint(&format!("{server}{path}")));

    let surt = surt(url);
    let is_surt =
        surt.starts_with(&format!("{}://(", parsed.scheme.as_str())) && surt.contains(")/");
    assert!(
        is_surt && !surt.bytes().any(|byte| byte.is_ascii_uppercase()),
        "{surt} of {url}"
    );

    assert_eq!(is_split(url), !path.contains("%00"), "{url}");
}

/// Whether the host-splitter takes the URL for one.
fn is_split(url: &str) -> bool {
    let mut splitter = Splitter::new(Settings::from(&*PIPELINE), UrlCache::fixed(&[]), 0);
    let origin = Origin {
        page: String::new(),
        topic: "t".into(),
        depth: 0,
        redirects: 0,
        seed: true,
        again: 0,
        flow: Quality::SEED,
    };
    let input = FoundUrls {
        origin,
        urls: [url].into_iter().collect(),
        ..FoundUrls::default()
    };
    splitter
        .step(
            Timestamp::ZERO,
            Event::Message {
                ticket: Ticket(1),
                input,
            },
            &mut Output::default(),
        )
        .expect("the host-splitter has no store to fail");
    let count = |name| {
        splitter
            .counts()
            .into_iter()
            .find_map(|(known, count)| (known == name).then_some(count))
    };
    assert_eq!(count("found_total"), Some(1));
    count("filtered_form_total") == Some(0)
}
