//! Sources: in which elements and headers links stand, and in which they do not.

use super::{DEFAULT, HTML, found_by, html, paths};
use parser::options::Options;

#[test]
fn what_a_page_embeds_is_taken_when_wanted() {
    let cases: &[(&str, &[&str])] = &[
        ("<img src=/a>", &["image /a"]),
        (
            "<img src=/a srcset='/b 1x, /c 2x, /d'>",
            &["image /a", "srcset /b", "srcset /c", "srcset /d"],
        ),
        (
            "<picture><source srcset='/a 2x' media=x><img src=/b></picture>",
            &["srcset /a", "image /b"],
        ),
        ("<script src=/a>'<img src=/no>'</script>", &["script /a"]),
        (
            "<video src=/a poster=/b><source src=/c><track src=/d></video>",
            &["media /a", "media /b", "media /c", "media /d"],
        ),
        ("<audio src=/a>", &["media /a"]),
        ("<embed src=/a><object data=/b>", &["image /a", "image /b"]),
        (
            "<link rel='shortcut icon' href=/a><link rel='alternate stylesheet' href=/b>",
            &["link /a", "link /b"],
        ),
        (
            "<link rel=preload href=/a><link rel=manifest href=/b>",
            &["link /a", "link /b"],
        ),
        (
            "<link rel=preconnect href=/a><link rel=dns-prefetch href=/b>",
            &[],
        ),
        ("<img src='data:image/png;base64,x'>", &[]),
    ];
    for (body, expected) in cases {
        assert_eq!(
            paths(&found_by(
                &Options {
                    embedded: true,
                    ..DEFAULT
                },
                &[HTML],
                body
            )),
            *expected,
            "{body}"
        );
        assert_eq!(paths(&found_by(&DEFAULT, &[HTML], body)), [""; 0], "{body}");
    }
}

#[test]
fn forms_and_amp_pages_are_taken_when_wanted() {
    let cases: &[(&str, &[&str])] = &[
        ("<form action=/a>", &["form /a"]),
        ("<form action=/a method=GET>", &["form /a"]),
        ("<form action=/a method=nonsense>", &["form /a"]),
        ("<form action=/a method=Post>", &[]),
        ("<form action=/a method=dialog>", &[]),
        ("<form action=''><form>", &[]),
        ("<form action=/a rel=nofollow>", &[]),
        ("<link rel=amphtml href=/a>", &["link /a"]),
    ];
    for (body, expected) in cases {
        let options = Options {
            forms: true,
            amphtml: true,
            ..DEFAULT
        };
        assert_eq!(
            paths(&found_by(&options, &[HTML], body)),
            *expected,
            "{body}"
        );
        assert_eq!(paths(&found_by(&DEFAULT, &[HTML], body)), [""; 0], "{body}");
    }
}

#[test]
fn headers_have_links_too_whatever_the_body() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "Link",
            "</a>; rel=next, <b>; rel=\"prev\"",
            &["link-header /a", "link-header /dir/b"],
        ),
        ("link", "</a>; rel=canonical", &["canonical /a"]),
        ("link", "</a>; rel=stylesheet, </b>; rel=amphtml, </c>", &[]),
        ("link", "</a>; rel=next; anchor=\"/other\"", &[]),
        (
            "link",
            "</a>; rel=\"next prefetch\", </b>; rel=prefetch",
            &["link-header /a"],
        ),
        ("Refresh", "3; url=/a", &["refresh-header /a"]),
        ("refresh", "3", &[]),
        ("Content-Location", "/a", &["content-location /a"]),
        (
            "content-location",
            "/caf\u{E9}",
            &["content-location /caf%C3%A9"],
        ),
        ("Location", "/a", &["location /a"]),
        ("content-location", "mailto:a@b", &[]),
    ];
    for (name, value, expected) in cases {
        let pdf: (&str, &[u8]) = ("content-type", b"application/pdf");
        assert_eq!(
            paths(&found_by(
                &DEFAULT,
                &[pdf, (name, value.as_bytes())],
                "%PDF"
            )),
            *expected,
            "{name}: {value}"
        );
    }
    let both = found_by(
        &DEFAULT,
        &[HTML, ("link", b"</a>; rel=next")],
        "<base href=/x/><a href=b><a href=/a>",
    );
    assert_eq!(paths(&both), ["link-header /a", "a /x/b"]);
}

#[test]
fn every_source_of_links_is_read_and_nothing_else() {
    let cases: &[(&str, &[&str])] = &[
        ("<a href=/a>x</a>", &["http://h.example/a"]),
        ("<A HREF='b'>", &["http://h.example/dir/b"]),
        (
            "<a\nclass=x\nhref\n=\n\" ../c \"\n>",
            &["http://h.example/c"],
        ),
        ("<a href=//o.example/d>", &["http://o.example/d"]),
        ("<a href=?q>", &["http://h.example/dir/page?q"]),
        ("<a href='/a\n\tb'>", &["http://h.example/ab"]),
        ("<a href=/1 href=/2>", &["http://h.example/1"]),
        ("<a href>", &["http://h.example/dir/page"]),
        ("<a name=/a>", &[]),
        ("<a data-href=/a>", &[]),
        ("<area href=/a>", &["http://h.example/a"]),
        (
            "<iframe src=/a><a href=/inside></iframe>",
            &["http://h.example/a"],
        ),
        (
            "<frameset><frame src=/a><frame src=/b></frameset>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<link rel=canonical href=/a>", &["http://h.example/a"]),
        (
            "<link rel='NEXT' href=/a><link rel=prev href=/b>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<link rel='x alternate' href=/a>", &["http://h.example/a"]),
        ("<link rel='alternate stylesheet' href=/a>", &[]),
        (
            "<link rel='shortcut icon' href=/a><link rel=preconnect href=/b><link href=/c>",
            &[],
        ),
        (
            "<meta http-equiv=Refresh content=\"5; URL='/a?x=1&amp;y=2'\">",
            &["http://h.example/a?x=1&y=2"],
        ),
        (
            "<meta http-equiv=refresh content=5><meta name=refresh content='0;url=/a'>",
            &[],
        ),
        (
            "<img src=/a><script src=/b></script><embed src=/c><object data=/d></object><form \
             action=/e>",
            &[],
        ),
        (
            "<!-- <a href=/a> --><script>'<a href=/b>'</script><style><a href=/c></style>",
            &[],
        ),
        (
            "<textarea><a href=/a></textarea><title><a href=/b></title><xmp><a href=/c></xmp>",
            &[],
        ),
        (
            "<script><!-- <script> </script> <a href=/no> --></script><a href=/a>",
            &["http://h.example/a"],
        ),
        (
            "<noscript><a href=/a></noscript><NoScript><iframe src=/b>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<template><a href=/a></template>", &["http://h.example/a"]),
        (
            "<svg><title><a href=/a></a></title></svg>",
            &["http://h.example/a"],
        ),
        (
            "<div a='<a href=/no>'><a href=/a title='>'>",
            &["http://h.example/a"],
        ),
        (
            "<table><a href=/a><b><p></table></i></b><a href=/b",
            &["http://h.example/a"],
        ),
        ("<plaintext><a href=/a>", &[]),
    ];
    for (body, expected) in cases {
        assert_eq!(html(body).urls, *expected, "{body}");
    }
}
