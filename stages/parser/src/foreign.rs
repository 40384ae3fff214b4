//! Foreign content: is a place in a document inside of SVG or MathML?
//!
//! In: start and end tags. Out: yes or no. There `title`, `style` and `script` hold markup, may close themselves, and
//! CDATA sections count.
//!
//! A tree would know exactly; this keeps only the elements that lead into foreign content and out of it. Where a
//! document leaves them open the next element that can only be HTML ends them, as it does for browsers.
//! Source: HTML Living Standard, sections 13.2.6 and 13.2.6.5.

/// Elements remembered; deeper ones count as what they stand in.
const DEPTH_MAX: usize = 32;

/// An element that leads into foreign content or, inside of that, back to HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// `svg`, `math`.
    Foreign(&'static str),
    /// What holds HTML in them.
    Html(&'static str),
}

impl Element {
    fn name(self) -> &'static str {
        match self {
            Element::Foreign(name) | Element::Html(name) => name,
        }
    }
}

/// The elements open around a place.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    open: [Option<Element>; DEPTH_MAX],
    depth: usize,
}

impl Foreign {
    /// Says whether the place is inside of SVG or MathML, and not of HTML in that.
    pub fn is_inside(&self) -> bool {
        matches!(self.last(), Some(Element::Foreign(_)))
    }

    /// A start tag. Afterwards the place is that of its content.
    pub fn start(&mut self, name: &[u8], closes_itself: bool) {
        if self.depth == 0 && !matches!(name.first(), Some(b's' | b'S' | b'm' | b'M')) {
            return;
        }
        if self.is_inside() && is_only_html(name) {
            self.leave();
            return;
        }
        let element = one_of(&["svg", "math"], name)
            .map(Element::Foreign)
            .or_else(|| one_of(&HTML_INSIDE, name).filter(|_| self.is_inside()).map(Element::Html));
        if let Some(element) = element
            && !closes_itself
            && self.depth < DEPTH_MAX
        {
            self.open[self.depth] = Some(element);
            self.depth += 1;
        }
    }

    /// An end tag.
    pub fn end(&mut self, name: &[u8]) {
        if self.depth == 0 {
            return;
        }
        let is_it = |element: &Option<Element>| {
            element.is_some_and(|element| element.name().as_bytes().eq_ignore_ascii_case(name))
        };
        if let Some(at) = self.open[..self.depth].iter().rposition(is_it) {
            self.depth = at;
        } else if self.is_inside() && is_only_html(name) {
            self.leave();
        }
    }

    /// Out of foreign content, to the HTML around it.
    fn leave(&mut self) {
        while self.is_inside() {
            self.depth -= 1;
        }
    }

    fn last(&self) -> Option<Element> {
        self.depth.checked_sub(1).and_then(|last| self.open[last])
    }
}

/// Elements of SVG and MathML that hold HTML.
const HTML_INSIDE: [&str; 9] = ["foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"];

/// Elements that end foreign content wherever they stand.
const ONLY_HTML: [&str; 44] = [
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "img",
    "li",
    "listing",
    "menu",
    "meta",
    "nobr",
    "ol",
    "p",
    "pre",
    "ruby",
    "s",
    "small",
    "span",
    "strong",
    "strike",
    "sub",
    "sup",
    "table",
    "tt",
    "u",
    "ul",
    "var",
];

fn is_only_html(name: &[u8]) -> bool {
    one_of(&ONLY_HTML, name).is_some()
}

fn one_of(names: &[&'static str], name: &[u8]) -> Option<&'static str> {
    names.iter().copied().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_foreign_inside_of_svg_and_math_but_not_of_html_in_them() {
        let cases = [
            ("svg", true),
            ("svg path", true),
            ("svg /svg", false),
            ("SVG svg /svg", true),
            ("svg svg /svg /svg", false),
            ("svg/", false),
            ("svg foreignObject", false),
            ("svg foreignObject div svg", true),
            ("svg foreignObject div svg /svg", false),
            ("svg foreignObject p /foreignObject", true),
            ("svg title", false),
            ("svg title /title", true),
            ("svg title/", true),
            ("title", false),
            ("math mi", false),
            ("math mi /mi mrow", true),
            ("svg p", false),
            ("svg /p", false),
            ("svg desc svg p", false),
            ("svg desc svg p /desc", true),
            ("/svg", false),
            ("style script", false),
        ];
        for (tags, expected) in cases {
            let mut foreign = Foreign::default();
            for tag in tags.split(' ') {
                match tag.strip_prefix('/') {
                    Some(name) => foreign.end(name.as_bytes()),
                    None => foreign.start(tag.trim_end_matches('/').as_bytes(), tag.ends_with('/')),
                }
            }
            assert_eq!(foreign.is_inside(), expected, "{tags}");
        }
    }

    #[test]
    fn deep_nesting_takes_no_more_memory_and_is_left_again() {
        let mut foreign = Foreign::default();
        for _ in 0..1000 {
            foreign.start(b"svg", false);
        }
        assert!(foreign.is_inside());
        foreign.start(b"p", false);
        assert!(!foreign.is_inside());
    }
}
