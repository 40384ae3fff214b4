//! What no link leads to is crawled when that is wanted, each once: what browsers load, through
//! style sheets and their imports, documents in attributes, drawings and a manifest; and a sitemap
//! that nobody names. On the site of a test.

use rhumb_tests::harness::{Answer, Site, World, assert_conserved, json};
use std::collections::BTreeMap;
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const AT_MOST: Duration = Duration::from_secs(60);
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css";

/// What is a link with and without embedded resources, by path: type and body.
const PAGES: &[(&str, &str, &str)] = &[
    (
        "/",
        HTML,
        "<html><head><base href='/dir/'><link rel=stylesheet href=/css/main.css><link rel=manifest \
         href=/app.json><link rel='shortcut icon' href=/icon.ico><link rel=preload as=font \
         href=/font/preloaded.woff2><link rel=preload as=image imagesrcset='/image/wide.png \
         2x'><style>@import 'inline.css'; b { background: url(/image/style.png) \
         }</style></head><body background=/image/body.png><p style=\"background: \
         url(&quot;attribute.png&quot;)\"><img src=/image/img.png srcset='/image/large.png \
         2x'><input type=image src=/image/input.png><svg><image href=/image/drawn.png /><use \
         xlink:href='/image/used.svg#part'/><use href='#own'/></svg><object \
         data=/media/object.swf><param name=movie value=/media/movie.swf></object><embed \
         src=/media/embed.swf><video src=/media/video.mp4 poster=/image/poster.png><track \
         src=/media/track.vtt></video><audio><source src=/media/audio.ogg></audio><script \
         src=/script.js></script><iframe srcdoc=\"<img src=written.png><p style='background: \
         url(deep.png)'>\"></iframe><a href=/other.html>other</a> <a \
         href='data:,x'>no</a></body></html>",
    ),
    (
        "/other.html",
        HTML,
        "<html><link rel=stylesheet href=/css/main.css><p style='background: \
         url(/image/style.png)'></html>",
    ),
];

/// What a page is made with.
const EMBEDDED: &[(&str, &str, &str)] = &[
    (
        "/css/main.css",
        CSS,
        "@charset \"utf-8\"; @import 'import.css' layer(a) supports(display: grid) screen; \
         @namespace url(/no/namespace);@font-face { src: url(../font/a.woff2) format('woff2'), \
         url(\"/font/b\\2ewoff\") }i { background: image-set('/image/one.png' 1x, \
         url(/image/two.png) 2x); --later: url(/image/later.png) }u { background: \
         url(data:image/png;base64,AAAA); mask: url(#no); content: 'url(/no/string)' } /* \
         url(/no/comment) */",
    ),
    (
        "/css/import.css",
        CSS,
        "@import url(nested/last.css); a { background: url(/image/img.png) }",
    ),
    (
        "/css/nested/last.css",
        CSS,
        "a { background: url(last.png) } @import '/no/late.css';",
    ),
    ("/css/nested/last.png", "image/png", ""),
    (
        "/app.json",
        "application/manifest+json",
        r#"{"start_url": "/other.html", "icons": [{"src": "app/icon.png"}], "screenshots": [{"src": "app/shot.png"}],
            "shortcuts": [{"icons": [{"src": "app/short.png"}]}]}"#,
    ),
    ("/app/icon.png", "image/png", ""),
    ("/app/shot.png", "image/png", ""),
    ("/app/short.png", "image/png", ""),
    ("/dir/inline.css", CSS, ""),
    ("/dir/attribute.png", "image/png", ""),
    ("/dir/written.png", "image/png", ""),
    ("/dir/deep.png", "image/png", ""),
    ("/font/a.woff2", "font/woff2", ""),
    ("/font/b.woff", "font/woff", ""),
    ("/font/preloaded.woff2", "font/woff2", ""),
    ("/icon.ico", "image/x-icon", ""),
    ("/image/body.png", "image/png", ""),
    ("/image/drawn.png", "image/png", ""),
    ("/image/img.png", "image/png", ""),
    ("/image/input.png", "image/png", ""),
    ("/image/large.png", "image/png", ""),
    ("/image/later.png", "image/png", ""),
    ("/image/one.png", "image/png", ""),
    ("/image/poster.png", "image/png", ""),
    ("/image/style.png", "image/png", ""),
    ("/image/two.png", "image/png", ""),
    ("/image/used.svg", "image/svg+xml", ""),
    ("/image/wide.png", "image/png", ""),
    ("/media/audio.ogg", "audio/ogg", ""),
    ("/media/embed.swf", "application/x-shockwave-flash", ""),
    ("/media/movie.swf", "application/x-shockwave-flash", ""),
    ("/media/object.swf", "application/x-shockwave-flash", ""),
    ("/media/track.vtt", "text/vtt", ""),
    ("/media/video.mp4", "video/mp4", ""),
    ("/script.js", "text/javascript", ""),
];

/// What a sitemap leads to that stands where most do.
const GUESSED: &[(&str, &str, &str)] = &[
    (
        "/sitemap.xml",
        "application/xml",
        "<urlset><url><loc>/lonely.html</loc></url></urlset>",
    ),
    ("/lonely.html", HTML, "<a href=/>home</a>"),
];

fn site() -> Site {
    Site::serve(|path, _| {
        let known = PAGES
            .iter()
            .chain(EMBEDDED)
            .chain(GUESSED)
            .find(|(known, ..)| *known == path);
        known.map_or_else(Answer::missing, |(_, content_type, body)| Answer {
            content_type: (*content_type).to_owned(),
            ..Answer::html((*body).to_owned())
        })
    })
}

/// Crawls the site; how often each path was asked for.
fn crawl(settings: &[&str]) -> BTreeMap<String, usize> {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let site = site();
    let prepared = world.bare("crawl").arguments(&[format!("{}/", site.name)]);
    let finished = settings
        .iter()
        .fold(prepared, |crawl, setting| crawl.set(setting))
        .run(AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);
    let mut asked: BTreeMap<String, usize> = site
        .sent()
        .into_iter()
        .map(|(path, sent)| (path, sent.len()))
        .collect();
    assert_eq!(asked.remove("/robots.txt"), Some(1));
    asked
}

fn once(of: &[&[(&str, &str, &str)]]) -> BTreeMap<String, usize> {
    of.concat()
        .iter()
        .map(|(path, ..)| ((*path).to_owned(), 1))
        .collect()
}

#[test]
fn what_browsers_load_is_fetched_once_when_wanted_and_not_otherwise() {
    assert_eq!(
        crawl(&["stages.parser.embedded=true"]),
        once(&[PAGES, EMBEDDED])
    );
    assert_eq!(crawl(&[]), once(&[PAGES]));
}

/// A font that an import of an import names is as many links away from the page.
#[test]
fn depth_ends_what_is_loaded_too() {
    let asked = crawl(&["stages.parser.embedded=true", "scope.max_depth=2"]);
    let is_asked = |path: &str| asked.contains_key(path);
    assert!(
        is_asked("/css/main.css") && is_asked("/css/import.css") && is_asked("/font/a.woff2"),
        "{asked:?}"
    );
    assert!(
        !is_asked("/css/nested/last.css") && !is_asked("/css/nested/last.png"),
        "{asked:?}"
    );
}

#[test]
fn a_sitemap_is_guessed_when_wanted_where_robots_txt_is_missing() {
    assert_eq!(
        crawl(&["limits.sitemap_guess=true"]),
        once(&[PAGES, GUESSED])
    );
}
