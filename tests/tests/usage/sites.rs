//! Sites whose owners say in many ways what may be done with their pages.

use rhumb_tests::harness::{Answer, Site};

/// Pages of [`owners`], at `/p/0` and so on.
pub(crate) const PAGES: usize = 2000;

/// Headers of pages.
const HEADERS: &[&str] = &[
    "",
    "",
    "",
    "X-Robots-Tag: noai\r\n",
    "X-Robots-Tag: noindex, nofollow\r\n",
    "X-Robots-Tag: otherbot: noai, noindex\r\n",
    "X-Robots-Tag: rhumbline: noai\r\nX-Robots-Tag: noarchive, RHUMB: noai\r\n",
    "X-Robots-Tag: unavailable_after: 25 Jun 2010 15:00:00 GMT\r\n",
    "X-Robots-Tag: unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, noarchive\r\n",
    "X-Robots-Tag: unavailable_after: 2999-01-01T00:00:00Z\r\n",
    "X-Robots-Tag: max-snippet: 0, noimageai\r\n",
    "X-Robots-Tag: noindex nosnippet max-image-preview:large\r\n",
    "Content-Signal: search=yes, ai-train=no\r\n",
    "Content-Signal: ai-train=yes, ai-input=maybe, other=no\r\n",
    "Content-Usage: train-ai=n\r\n",
    "Content-Usage: train-ai=n\r\nContent-Usage: train-ai=y, search=n\r\n",
    "Content-Usage: Train-AI=n\r\n",
    "Content-Usage: train-ai=n;why=\"ours\", ai-use=\"n\"\r\n",
    "TDM-Reservation: 1\r\nTDM-Policy: https://example.org/policy.json\r\n",
    "tdm-reservation: 0\r\n",
    "tdm-reservation: yes\r\n",
];

/// Metas of pages.
const METAS: &[&str] = &[
    "",
    "",
    "<meta name=\"viewport\" content=\"noai\">",
    "<meta name=\"robots\" content=\"noai, noimageai\">",
    "<META CONTENT='NOINDEX,FOLLOW' NAME=' Robots '>",
    "<meta content=noarchive name=robots />",
    "<meta name=\"rhumb\" content=\"noai\">",
    "<meta name=\"googlebot\" content=\"noai\"><meta name=\"rhumbline\" content=\"noai\">",
    "<!-- <meta name=\"robots\" content=\"noai\"> -->",
    "<script>document.write('<meta name=\"robots\" content=\"noai\">')</script>",
    "<meta name=\"robots\" content=\"index, follow, max-snippet:-1\">",
    "<meta name=\"robots\" content=\"noindex nofollow max-snippet:0\">",
    "<meta name=\"robots\" content=\"none\"><meta name=\"robots\" content=\"all\">",
    "<meta name=\"TDM-Reservation\" content=\"1\">",
    "<meta name=\"tdm-reservation\" content=\"0\"><meta name=tdm-policy content=/p>",
    "<meta http-equiv=\"robots\" content=\"noai\">",
    "<meta name=\"robots\" content=\"unavailable_after: 25 Jun 2010 15:00:00 GMT\">",
];

/// Rules of [`owners`]: a few paths have preferences of their own.
const RULES: &str = "Content-Signal: search=yes\nUser-agent: otherbot\nContent-Signal: ai-train=no\nDisallow: /\n\n\
                     User-agent: *\nContent-Usage: /p/11 train-ai=n\nContent-Usage: /p/1*9$ ai-use=n\n\
                     Content-Usage: /p/111 train-ai=y\nAllow: /\n";

/// A site of [`PAGES`] pages, with each header beside each meta, and texts by which a page's body
/// is known wherever it is kept.
pub(crate) fn owners() -> Site {
    Site::serve(|path, _| {
        if path == "/robots.txt" {
            return plain(RULES);
        }
        if path == "/" {
            let links = (0..PAGES).map(|number| format!("<a href=/p/{number}>x</a>"));
            return Answer::html(links.collect());
        }
        let number = path
            .strip_prefix("/p/")
            .and_then(|number| number.parse().ok());
        number.map_or_else(Answer::missing, page)
    })
}

fn page(number: usize) -> Answer {
    let fields = HEADERS[number % HEADERS.len()].to_owned();
    let meta = METAS[number / HEADERS.len() % METAS.len()];
    let body = format!(
        "<html><head><title>SECRET-{number}-title</title>{meta}</head>\
         <body>SECRET-{number}-text</body></html>"
    );
    let content_type = match number % 10 {
        7 => "image/png",
        8 => "text/plain",
        _ => "text/html; charset=utf-8",
    };
    // What is no HTML may quote some.
    let is_html = content_type.starts_with("text/html");
    let body = if is_html {
        body
    } else {
        format!("Quoted: {body}")
    };
    Answer {
        content_type: content_type.to_owned(),
        fields,
        ..Answer::html(body)
    }
}

/// A site of four pages: `/` leads to `/mine`, `/yours`, and `/header`, which says it in a header.
/// `name` is in the text, so that no other site has the same body.
pub(crate) fn author(name: &str, rules: &str) -> Site {
    let rules = rules.to_owned();
    let name = name.to_owned();
    Site::serve(move |path, _| match path {
        "/robots.txt" => plain(&rules),
        "/" => Answer::html("<a href=/mine>x</a><a href=/yours>x</a><a href=/header>x</a>".into()),
        "/header" => Answer {
            fields: "X-Robots-Tag: noai\r\n".to_owned(),
            ..Answer::html("<p>said in a header</p>".to_owned())
        },
        "/mine" | "/yours" => Answer::html(format!("<p>{name} {path}</p>")),
        _ => Answer::missing(),
    })
}

/// A site whose robots.txt lies elsewhere, with headers that are hard to read.
pub(crate) fn with_robots_at(rules: String) -> Site {
    let long = format!("X-Robots-Tag: {}noindex\r\n", "x, ".repeat(2700));
    Site::serve(move |path, _| {
        let fields = match path {
            "/robots.txt" => {
                return Answer {
                    status: 301,
                    fields: format!("Location: {rules}\r\n"),
                    ..Answer::html(String::new())
                };
            }
            "/" => {
                let links = "<a href=/long>x</a><a href=/odd>x</a><a href=/theirs>x</a>";
                return Answer::html(links.to_owned());
            }
            "/long" => long.clone(),
            "/odd" => {
                "Content-Signal: =;\t\"\r\nContent-Usage: (((\r\nX-Robots-Tag: ::,:\r\n".into()
            }
            "/theirs" => "X-Robots-Tag: rhumbbot: noarchive\r\n".to_owned(),
            _ => return Answer::missing(),
        };
        Answer {
            fields,
            ..Answer::html(format!("<p>{path}</p>"))
        }
    })
}

fn plain(text: &str) -> Answer {
    Answer {
        content_type: "text/plain".to_owned(),
        ..Answer::html(text.to_owned())
    }
}
