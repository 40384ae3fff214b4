//! The scanner against html5ever's tokenizer: the same tags, attributes and titles, whatever the
//! document.

mod oracle;

use oracle::{Piece, scanned, tokenized, tree};
use proptest::prelude::*;
use rhumb_markup::scanner::{Dialect, Scanner, Token};

fn names(document: &str) -> Vec<String> {
    let name = |piece| match piece {
        Piece::Start(name, ..) => Some(name),
        Piece::End(name) => Some(format!("/{name}")),
        Piece::Text(_) => None,
    };
    scanned(document).into_iter().filter_map(name).collect()
}

/// Odd markup, and the names of the tags that the standard finds in it.
const ODD_MARKUP: &[(&str, &[&str])] = &[
    ("<a<b>", &["a<b"]),
    ("< a><1><a>", &["a"]),
    ("a < b <<a>", &["a"]),
    ("<a", &[]),
    ("<a b='>'", &[]),
    ("<a b='><i>'><b>", &["a", "b"]),
    ("<a b=\"'\" c='\"'><b>", &["a", "b"]),
    ("<a b\"><i>\"><b>", &["a", "i", "b"]),
    ("<a ='><i>'><b>", &["a", "i", "b"]),
    ("<a =='><i>'><b>", &["a", "b"]),
    ("<a b=c/><b/>", &["a", "b"]),
    ("</a b='>'><b>", &["/a", "b"]),
    ("</><a></ a><i>", &["a", "i"]),
    ("</1 '><a>", &["a"]),
    ("<?x '><a>?><b>", &["a", "b"]),
    ("<!x '><a>", &["a"]),
    ("<!doctype html public '><a>", &["a"]),
    ("<!--><a>", &["a"]),
    ("<!---><a>", &["a"]),
    ("<!----><a>", &["a"]),
    ("<!--!><a>--><b>", &["b"]),
    ("<!---!><a>--><b>", &["b"]),
    ("<!----!><a>", &["a"]),
    ("<!--x--!><a>", &["a"]),
    ("<!--x--!-><a>--><b>", &["b"]),
    ("<!--x--!--><a>", &["a"]),
    ("<!--x-- ><a>--><b>", &["b"]),
    ("<!--<!--><a>", &["a"]),
    ("<!--<!-><a>--><b>", &["b"]),
    ("<!-<a>--><b>", &["b"]),
    ("<!--", &[]),
    ("<![CDATA[<a>]]><b>", &["b"]),
    ("<svg><![CDATA[<a>]]><b>", &["svg", "b"]),
    (
        "<svg><title><![CDATA[<a>]]><b><![CDATA[<a>]]><i>",
        &["svg", "title", "b", "i"],
    ),
    (
        "<svg><font color=x><style><a></style>",
        &["svg", "font", "style", "/style"],
    ),
    (
        "<svg><font><style><a></style>",
        &["svg", "font", "style", "a", "/style"],
    ),
    (
        "<math></br><style><a></style>",
        &["math", "/br", "style", "/style"],
    ),
    (
        "<math><annotation-xml encoding=text/html><style><a></style>",
        &["math", "annotation-xml", "style", "/style"],
    ),
    (
        "<svg><title><a></a></title><style><i></style></svg><title><b></title>",
        &[
            "svg", "title", "a", "/a", "/title", "style", "i", "/style", "/svg", "title", "/title",
        ],
    ),
    // What is open in it is of HTML, where the end tag ends nothing.
    (
        "<svg><title><a></title><style><i></style></svg>",
        &["svg", "title", "a", "/title", "style", "/style", "/svg"],
    ),
    ("<svg><script/><a>", &["svg", "script", "a"]),
    ("<script/><a></script x><b>", &["script", "/script", "b"]),
    (
        "<script></scripty><a></SCRIPT\n><b>",
        &["script", "/script", "b"],
    ),
    ("<script><!--</script><a>", &["script", "/script", "a"]),
    (
        "<script><!--<script></script><a></script><b>",
        &["script", "/script", "b"],
    ),
    (
        "<script><!--<script>--></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!--<script></script></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!--><script></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!---><script></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!-- <scripts></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!--<b>script></script><a>",
        &["script", "/script", "a"],
    ),
    (
        "<script><!--<script/ x></script ><a></script><b>",
        &["script", "/script", "b"],
    ),
    ("<style><a></style ><b>", &["style", "/style", "b"]),
    ("<title><a></titles></title/><b>", &["title", "/title", "b"]),
    (
        "<iframe><a></iframe><xmp><a></xmp><noembed><a></noembed><noframes><a></noframes><b>",
        &[
            "iframe",
            "/iframe",
            "xmp",
            "/xmp",
            "noembed",
            "/noembed",
            "noframes",
            "/noframes",
            "b",
        ],
    ),
    ("<noscript><a></noscript>", &["noscript", "a", "/noscript"]),
    ("<plaintext><a></plaintext><b>", &["plaintext"]),
    ("<title>x", &["title"]),
    ("<textarea></textarea", &["textarea"]),
];

#[test]
fn odd_markup_has_the_tags_that_the_standard_finds() {
    for (document, expected) in ODD_MARKUP {
        assert_eq!(names(document), *expected, "{document}");
        assert_eq!(scanned(document), tokenized(document), "{document}");
    }
}

#[test]
fn xml_has_no_raw_text_and_cdata_everywhere() {
    let document = b"<!DOCTYPE x [<!ENTITY y '<z>'>]><title><a/></title><![CDATA[<b>]]>t<c>";
    let mut scanner = Scanner::new(document, Dialect::Xml);
    let mut found = Vec::new();
    while let Some(token) = scanner.next() {
        match token {
            Token::Start(name) | Token::End(name) => {
                found.push(String::from_utf8_lossy(name).into_owned())
            }
            Token::Data(data) => found.push(format!("[{}]", String::from_utf8_lossy(data))),
            Token::Other => {}
        }
    }
    assert_eq!(found, ["title", "a", "title", "[<b>]", "c"]);
    assert_eq!(&document[scanner.text()], b"t");
}

/// Pieces of markup of the kind that tells tokenizers apart.
const PIECES: [&str; 74] = [
    "<",
    ">",
    "/",
    "=",
    "'",
    "\"",
    " ",
    "\n",
    "\r",
    "\t",
    "\u{C}",
    "-",
    "!",
    "?",
    "[",
    "]",
    "&",
    ";",
    "\0",
    "é",
    "a",
    "<a",
    "<A ",
    "</a",
    "<a href=",
    "href",
    " href='",
    " x=\"",
    "<b>",
    "</b>",
    "<br/>",
    "/>",
    "&amp;",
    "&lt",
    "&#65;",
    "&not",
    "=x",
    "<!--",
    "-->",
    "--!>",
    "<!-",
    "--",
    "->",
    "<!",
    "<!doctype html",
    "<?xml",
    "<![CDATA[",
    "]]>",
    "<script>",
    "</script>",
    "<script",
    "</script",
    "<SCRIPT ",
    "script>",
    "script ",
    "<style>",
    "</style>",
    "<title>",
    "</title>",
    "</title ",
    "<textarea>",
    "</textarea>",
    "<xmp>",
    "</xmp",
    "<iframe src=x>",
    "</iframe>",
    "<noscript>",
    "<plaintext>",
    "<svg>",
    "</svg>",
    "<svg><title>",
    "<foreignObject>",
    "<math><mi>",
    "<script/>",
];

/// Markup of such pieces, with a few characters of any kind between them.
fn markup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        12 => (0..PIECES.len()).prop_map(|piece| PIECES[piece].to_owned()),
        1 => "[ -~]{0,6}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn any_markup_has_the_tags_that_html5ever_finds(document in markup()) {
        prop_assert_eq!(scanned(&document), tokenized(&document));
    }

    #[test]
    fn links_and_bases_of_html_svg_and_mathml_are_those_of_the_tree(chosen in proptest::collection::vec(any::<u8>(), 0..24)) {
        let document = tree::document(&chosen);
        if let Some(built) = tree::built(&document) {
            prop_assert_eq!(tree::read(&document), built, "{:?}", document);
        }
    }
}
