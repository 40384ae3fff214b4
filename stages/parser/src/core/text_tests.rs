//! Examples of the core: what it says of the texts of pages that are visited again.

use super::tests::{message, page, settings};
use super::*;
use rhumb_wire::message::{KnownText, PageSignals, SeenText, Truncation, decode};

const HTML: [(&str, &str); 1] = [("content-type", "text/html")];

/// Five letters in gzip, and then what is none (RFC 1951, section 3.2.3: a block of the reserved
/// type).
const BROKEN: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\0\x05\0\xfa\xffhello\x07";

/// What is said of a page: its document, and its signal.
fn said(page: &Page) -> (Option<Document>, Option<PageSignal>) {
    let mut parser = Parser::new(Settings {
        content_seen: false,
        documents: true,
        ..settings()
    });
    let mut out = Output::default();
    parser
        .step(Timestamp::ZERO, message(7, page), &mut out)
        .unwrap();
    parser
        .step(Timestamp::ZERO, Event::Drain, &mut out)
        .unwrap();
    let of = |edge| out.publishes.iter().find(|publish| publish.edge == edge);
    let document = of(Edge::Documents).map(|publish| {
        let mut documents: Documents = decode(&publish.payload).unwrap();
        documents.entries.remove(0)
    });
    let signal = of(Edge::PagesSignals).map(|publish| {
        let signals: PageSignals = decode(&publish.payload).unwrap();
        signals.pages[0]
    });
    (document, signal)
}

/// A visit of a page of which this is known.
fn visit(number: u32, known: KnownText, body: &str) -> Page {
    Page {
        visit: number,
        text: Some(known),
        ..page(200, &HTML, body)
    }
}

fn seen(page: &Page) -> SeenText {
    let signal = said(page).1.expect("a signal");
    signal.text.expect("something of its text")
}

/// A text of a hundred paragraphs, of which one may be another.
fn text(paragraph: usize, word: &str) -> String {
    let of = |number: usize| {
        let word = if number == paragraph { word } else { "sails" };
        let letters = ["north", "east", "south", "west"][number % 4];
        let name = char::from(b'a' + (number % 26) as u8);
        format!(
            "<p>Ship {name}{letters} of line {name} {word} {letters} past {name}{name} cape</p>"
        )
    };
    (0..100).map(of).collect()
}

#[test]
fn the_first_visit_says_what_later_ones_are_compared_with() {
    let first = seen(&visit(1, KnownText::default(), &text(0, "sails")));
    assert_eq!((first.visit, first.is_changed), (1, None));
    assert_eq!((first.is_https, first.port), (false, 80));
    assert!(first.known.body != 0 && first.known.sketch.is_some());
    assert_eq!(first.known.noise, 0);
}

/// Goal: what counts is the text: not its markup, numbers or content coding, nor a word of it.
#[test]
fn another_text_is_told_from_other_bytes() {
    let body = text(0, "sails");
    let known = seen(&visit(1, KnownText::default(), &body)).known;
    let with_script = format!("{body}<script>seen(1234)</script>");
    let with_counter = format!("{body}<i class=x></i>");
    let with_word = text(7, "drifts");
    let other = body.replace("cape", "reef").replace("sails", "drifts");
    for (body, is_changed) in [
        (&body, false),
        (&with_script, false),
        (&with_counter, false),
        (&with_word, false),
        (&other, true),
    ] {
        let page = visit(2, known, body);
        let seen = seen(&page);
        assert_eq!(seen.is_changed, Some(is_changed));
        assert_eq!(seen.known.sketch != known.sketch, is_changed);
        let document = said(&page).0.expect("a document");
        assert_eq!(document.text_changed, Some(is_changed));
        let similarity = document.similarity.expect("two texts");
        assert_eq!(similarity > 90, !is_changed, "{similarity}");
    }
    let again = seen(&visit(2, KnownText { noise: 80, ..known }, &body));
    let expected = KnownText { noise: 40, ..known };
    assert_eq!(again.known, expected, "the same body");
}

#[test]
fn of_what_has_no_text_nobody_can_tell_and_what_gets_one_has_changed() {
    let known = seen(&visit(1, KnownText::default(), "<p>Short</p>")).known;
    assert_eq!(known.sketch, None);
    let other = seen(&visit(2, known, "<p>Other</p>"));
    assert_eq!(other.is_changed, None);
    assert_eq!(
        said(&visit(2, known, "<p>Other</p>")).0.unwrap().similarity,
        None
    );
    let long = seen(&visit(3, other.known, &text(0, "sails")));
    assert_eq!(long.is_changed, Some(true));
    let gone = seen(&visit(4, long.known, "<p>Short</p>"));
    assert_eq!(gone.is_changed, Some(true));
}

#[test]
fn nothing_is_said_where_nobody_asks_or_the_body_is_not_whole() {
    let body = text(0, "sails");
    assert_eq!(said(&page(200, &HTML, &body)).1, None);
    let known = KnownText::default();
    for cut in [
        Page {
            truncated: Some(Truncation::Time),
            ..visit(2, known, &body)
        },
        Page {
            text: Some(known),
            body: BROKEN.to_vec(),
            ..page(200, &[HTML[0], ("content-encoding", "gzip")], "")
        },
        Page {
            text: Some(known),
            ..page(404, &HTML, &body)
        },
        Page {
            text: Some(known),
            ..page(301, &[("location", "/y")], "")
        },
    ] {
        let Page { status, .. } = cut;
        assert_eq!(said(&cut).1, None, "{status}");
    }
}
