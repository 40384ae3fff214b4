//! Foreign content: is a place in a document inside of SVG or MathML?
//!
//! In: start and end tags. Out: yes or no. There `title`, `style` and `script` hold markup, may
//! close themselves, and CDATA sections count.
//!
//! The elements open from the outermost `svg` or `math` on are remembered, with those of HTML
//! inside. What is open around them is not: an end tag that belongs to none of them is taken for
//! one of an element around, which it ends with all in it, when it has the name of one that often
//! is. Of the rules by which elements of HTML end one another, those for `p`, `a` and `li` are
//! kept. In XML no element ends another, and only what leads into foreign content and out of it is
//! remembered. Source: HTML Living Standard, sections 13.2.6 and 13.2.6.5.

/// Elements remembered; deeper ones count as what they stand in.
const DEPTH_MAX: usize = 64;

/// A name in lower case: all of it up to 16 bytes, which no name has that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name(u128);

impl Name {
    const fn of(name: &[u8]) -> Self {
        let mut packed = Name(0);
        let mut at = 0;
        while at < name.len() && at < 16 {
            packed = packed.and(name[at]);
            at += 1;
        }
        packed
    }

    const fn and(self, byte: u8) -> Self {
        Name(self.0 << 8 | byte.to_ascii_lowercase() as u128)
    }

    fn is_one_of(self, names: &[Name]) -> bool {
        names.contains(&self)
    }
}

/// The names of a list, of which there are `N`, with one space between two.
const fn names<const N: usize>(list: &str) -> [Name; N] {
    let mut names = [Name(0); N];
    let mut number = 0;
    let mut at = 0;
    while at < list.len() {
        let byte = list.as_bytes()[at];
        if byte == b' ' {
            number += 1;
        } else {
            names[number] = names[number].and(byte);
        }
        at += 1;
    }
    assert!(number == N - 1);
    names
}

/// Whose an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Svg,
    Math,
    Html,
}

/// What the content of an element of SVG or MathML is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Foreign, as the element.
    Foreign,
    /// The same, but that `svg` leads from MathML into SVG.
    Annotation,
    /// HTML.
    Html,
    /// HTML, but for `mglyph` and `malignmark`.
    MathText,
}

#[derive(Clone, Copy, Debug)]
struct Element {
    name: Name,
    space: Space,
    content: Content,
    /// An element of HTML that is special: end tags of most others do not end it. Known from the
    /// start, because each end tag asks this of all that is open.
    is_special: bool,
}

impl Element {
    fn html(name: Name) -> Self {
        Element {
            name,
            space: Space::Html,
            content: Content::Html,
            is_special: name.is_one_of(&SPECIAL),
        }
    }

    fn foreign(name: Name, space: Space, content: Content) -> Self {
        Element {
            name,
            space,
            content,
            is_special: false,
        }
    }

    /// Returns whether a start tag of this name in it is one of SVG or MathML.
    fn takes_as_foreign(self, name: Name) -> bool {
        match (self.space, self.content) {
            (Space::Html, _) | (_, Content::Html) => false,
            (_, Content::Foreign) => true,
            (_, Content::Annotation) => name != SVG,
            (_, Content::MathText) => name.is_one_of(&OF_MATH_TEXT),
        }
    }

    /// The same of a tag that does not end foreign content by its name.
    fn takes_here(self, name: Name) -> bool {
        self.takes_as_foreign(name) && !name.is_one_of(&ONLY_HTML)
    }

    /// Returns whether HTML begins in it or around it, where what only HTML has may stand.
    fn is_html_or_holds_it(self) -> bool {
        self.space == Space::Html || matches!(self.content, Content::Html | Content::MathText)
    }

    /// Returns whether end tags of HTML in it end nothing around it.
    fn is_boundary(self) -> bool {
        self.space != Space::Html && self.content != Content::Foreign
    }
}

/// The elements open around a place, from the outermost `svg` or `math` on.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    open: Vec<Element>,
}

impl Foreign {
    /// Returns whether the place is in no `svg` and no `math`: an end tag there changes nothing,
    /// and a start tag only if foreign content begins with it.
    #[inline]
    pub fn is_outside(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether foreign content begins with a start tag of this name in HTML.
    #[inline]
    pub fn begins_with(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"svg") || name.eq_ignore_ascii_case(b"math")
    }

    /// Returns whether start tags at the place are of SVG or MathML.
    pub fn is_inside(&self) -> bool {
        self.open
            .last()
            .is_some_and(|element| !element.is_html_or_holds_it())
    }

    /// Returns whether a start tag of this name at the place is one of SVG or MathML. `font` is
    /// left out of this: it depends on its attributes.
    #[inline]
    pub fn takes(&self, name: &[u8]) -> bool {
        self.open
            .last()
            .is_some_and(|element| element.takes_here(Name::of(name)))
    }

    /// Returns whether CDATA sections count: the element around the place is of SVG or MathML,
    /// whatever it holds.
    pub fn has_data(&self) -> bool {
        self.open
            .last()
            .is_some_and(|element| element.space != Space::Html)
    }

    /// A start tag with these attributes. Afterwards the place is that of its content.
    pub fn start<'v>(
        &mut self,
        name: &[u8],
        closes_itself: bool,
        attribute: impl Fn(&str) -> Option<&'v [u8]>,
    ) {
        let name = Name::of(name);
        let around = self
            .open
            .last()
            .filter(|element| element.takes_as_foreign(name))
            .copied();
        match around {
            Some(_) if is_only_html(name, &attribute) => {
                self.leave();
                self.start_html(name);
            }
            Some(Element { space, .. }) if !closes_itself => {
                self.push(Element::foreign(
                    name,
                    space,
                    content(space, name, &attribute),
                ));
            }
            Some(_) => {}
            None if name == SVG || name == MATH => {
                let space = if name == SVG { Space::Svg } else { Space::Math };
                if !closes_itself {
                    self.push(Element::foreign(name, space, Content::Foreign));
                }
            }
            None => self.start_html(name),
        }
    }

    /// An end tag.
    pub fn end(&mut self, name: &[u8]) {
        let name = Name::of(name);
        if self.has_data() && (name == P || name == BR) {
            self.leave();
        }
        for (at, element) in self.open.iter().enumerate().rev() {
            if element.space == Space::Html {
                break;
            }
            if element.name == name {
                self.open.truncate(at);
                return;
            }
        }
        self.end_html(name);
    }

    /// A start tag of XML, of this name without its prefix.
    pub fn start_in_xml(&mut self, name: &[u8], closes_itself: bool) {
        let is_inside = self.is_inside();
        let (space, content) = match name {
            b"svg" => (Space::Svg, Content::Foreign),
            b"math" => (Space::Math, Content::Foreign),
            b"foreignObject" | b"annotation-xml" if is_inside => (Space::Svg, Content::Html),
            _ => return,
        };
        if !closes_itself {
            self.push(Element::foreign(Name::of(name), space, content));
        }
    }

    /// An end tag of XML, of this name without its prefix.
    pub fn end_in_xml(&mut self, name: &[u8]) {
        if self.open.is_empty() {
            return;
        }
        let name = Name::of(name);
        if let Some(at) = self.open.iter().rposition(|element| element.name == name) {
            self.open.truncate(at);
        }
    }

    /// A start tag of HTML.
    fn start_html(&mut self, name: Name) {
        if self.open.is_empty() || name.is_one_of(&EMPTY) {
            return;
        }
        if name.is_one_of(&OF_TABLES) && self.opened(TABLE).is_none() {
            return;
        }
        if name.is_one_of(&END_PARAGRAPHS) {
            self.end_html(P);
        }
        if name == A || name == LI {
            self.end_html(name);
        }
        self.push(Element::html(name));
    }

    /// An end tag of HTML.
    fn end_html(&mut self, name: Name) {
        let Some(at) = self.opened(name) else {
            let is_of_outside = !self.open.iter().any(|element| element.is_boundary());
            if is_of_outside && (name.is_one_of(&ONLY_HTML) || name.is_one_of(&OFTEN_AROUND)) {
                self.open.clear();
            }
            return;
        };
        let holds_special = self.open[at + 1..].iter().any(|element| element.is_special);
        if !holds_special || name.is_one_of(&SPECIAL) {
            self.open.truncate(at);
        } else if name.is_one_of(&FORMATTING) {
            self.open.remove(at);
        }
    }

    /// Where an element of HTML of this name is open that its end tag would end.
    fn opened(&self, name: Name) -> Option<usize> {
        for (at, element) in self.open.iter().enumerate().rev() {
            if element.is_boundary() {
                return None;
            }
            if element.space == Space::Html && element.name == name {
                return Some(at);
            }
        }
        None
    }

    /// Out of foreign content, to the HTML around it.
    fn leave(&mut self) {
        while self.is_inside() {
            self.open.pop();
        }
    }

    fn push(&mut self, element: Element) {
        if self.open.len() < DEPTH_MAX {
            self.open.push(element);
        }
    }
}

/// What an element of SVG or MathML holds.
fn content<'v>(space: Space, name: Name, attribute: impl Fn(&str) -> Option<&'v [u8]>) -> Content {
    match space {
        Space::Svg if name.is_one_of(&HOLD_HTML) => Content::Html,
        Space::Math if name.is_one_of(&HOLD_MATH_TEXT) => Content::MathText,
        Space::Math if name == ANNOTATION => {
            let encoding = attribute("encoding").unwrap_or_default();
            let is_html = |known: &str| encoding.eq_ignore_ascii_case(known.as_bytes());
            if is_html("text/html") || is_html("application/xhtml+xml") {
                Content::Html
            } else {
                Content::Annotation
            }
        }
        _ => Content::Foreign,
    }
}

/// Returns whether a start tag ends foreign content wherever it stands.
fn is_only_html<'v>(name: Name, attribute: impl Fn(&str) -> Option<&'v [u8]>) -> bool {
    name.is_one_of(&ONLY_HTML)
        || name == FONT
            && ["color", "face", "size"]
                .into_iter()
                .any(|known| attribute(known).is_some())
}

const A: Name = Name::of(b"a");
const ANNOTATION: Name = Name::of(b"annotation-xml");
const BR: Name = Name::of(b"br");
const FONT: Name = Name::of(b"font");
const LI: Name = Name::of(b"li");
const MATH: Name = Name::of(b"math");
const P: Name = Name::of(b"p");
const SVG: Name = Name::of(b"svg");
const TABLE: Name = Name::of(b"table");

/// Elements of SVG that hold HTML.
const HOLD_HTML: [Name; 3] = names("foreignobject desc title");
/// Elements of MathML that hold HTML, but for two.
const HOLD_MATH_TEXT: [Name; 5] = names("mi mo mn ms mtext");
const OF_MATH_TEXT: [Name; 2] = names("mglyph malignmark");

/// Elements that end foreign content wherever they stand.
const ONLY_HTML: [Name; 44] = names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li \
     listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
);

/// Other elements of HTML that drawings often stand in.
const OFTEN_AROUND: [Name; 18] = names(
    "a article aside button figure font footer form header label main nav section tbody td \
     template th tr",
);

/// Elements of HTML that have no content.
const EMPTY: [Name; 18] = names(
    "area base basefont bgsound br col embed frame hr image img input link meta param source track \
     wbr",
);

/// Elements of HTML that are nothing outside of tables, or inside of other documents' elements.
const OF_TABLES: [Name; 12] =
    names("body caption colgroup frameset head html tbody td tfoot th thead tr");

/// Elements of HTML that end a paragraph when they begin.
const END_PARAGRAPHS: [Name; 41] = names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption \
     figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext \
     pre search section summary table ul xmp",
);

/// Elements of HTML that go on where their end tag stands in a special element in them.
const FORMATTING: [Name; 14] = names("a b big code em font i nobr s small strike strong tt u");

/// Elements of HTML in which an end tag of one around them that is none of these ends nothing.
const SPECIAL: [Name; 65] = names(
    "address applet article aside blockquote body button caption center colgroup dd details dir \
     div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header \
     hgroup html iframe li listing main marquee menu nav noembed noframes noscript object ol p \
     plaintext pre script search section select style summary table tbody td template textarea \
     tfoot th thead title tr ul xmp",
);

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag: `name`, `name/`, `/name` or `name=value`, of which name and value are an attribute's.
    fn tag(foreign: &mut Foreign, tag: &str) {
        let (tag, attribute) = tag.split_once('?').unwrap_or((tag, ""));
        let (known, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let values = |name: &str| (name == known).then_some(value.as_bytes());
        match tag.strip_prefix('/') {
            Some(name) => foreign.end(name.as_bytes()),
            None => foreign.start(
                tag.trim_end_matches('/').as_bytes(),
                tag.ends_with('/'),
                values,
            ),
        }
    }

    /// Tags, and whether the place behind them is foreign.
    const PLACES: &[(&str, bool)] = &[
        ("svg", true),
        ("svg path", true),
        ("svg /svg", false),
        ("SVG svg /svg", true),
        ("svg svg /svg /svg", false),
        ("svg/", false),
        ("svg foreignObject", false),
        ("svg foreignObject div svg", true),
        ("svg foreignObject div svg /svg", false),
        ("svg foreignObject p /foreignObject", false),
        ("svg foreignObject p /p /foreignObject", true),
        ("svg foreignObject p div /div /foreignObject", true),
        ("svg foreignObject b p /b /p /foreignObject", true),
        ("svg foreignObject x p /x /p /foreignObject", false),
        ("svg foreignObject br td img /foreignObject", true),
        ("svg foreignObject table td /table /foreignObject", true),
        ("svg foreignObject div /svg", false),
        ("svg foreignObject /svg", false),
        ("svg title", false),
        ("svg title /title", true),
        ("svg title/", true),
        ("title", false),
        ("math mi", false),
        ("math mi mglyph", true),
        ("math mi /mi mrow", true),
        ("math desc", true),
        ("svg mi", true),
        ("svg math mi", true),
        ("math annotation-xml", true),
        ("math annotation-xml svg desc", false),
        ("math annotation-xml?encoding=Text/HTML", false),
        ("math annotation-xml?encoding=application/xhtml+xml", false),
        ("math annotation-xml?encoding=text/plain", true),
        ("svg p", false),
        ("svg /p", false),
        ("svg /br", false),
        ("svg font", true),
        ("svg font?color=x", false),
        ("svg font?face", false),
        ("svg font?size=1", false),
        ("svg font?id=1", true),
        ("svg desc svg p", false),
        ("svg desc svg p /p /desc", true),
        ("svg desc svg /p", false),
        ("svg g desc /g", true),
        ("svg /div", false),
        ("svg g /a", false),
        ("svg a /a", true),
        ("svg /path", true),
        ("svg desc /div", false),
        ("/svg", false),
        ("style script", false),
    ];

    #[test]
    fn a_place_is_foreign_inside_of_svg_and_math_but_not_of_html_in_them() {
        for &(tags, expected) in PLACES {
            let mut foreign = Foreign::default();
            tags.split(' ')
                .for_each(|written| tag(&mut foreign, written));
            assert_eq!(foreign.is_inside(), expected, "{tags}");
        }
    }

    #[test]
    fn what_only_html_has_is_not_taken_and_cdata_counts_where_an_element_is_foreign() {
        let mut foreign = Foreign::default();
        tag(&mut foreign, "svg");
        assert!(foreign.takes(b"style") && !foreign.takes(b"IMG") && foreign.has_data());
        tag(&mut foreign, "title");
        assert!(!foreign.takes(b"style") && foreign.has_data());
        tag(&mut foreign, "div");
        assert!(!foreign.takes(b"style") && !foreign.has_data());
    }

    #[test]
    fn in_xml_only_end_tags_end_elements() {
        let mut foreign = Foreign::default();
        for (name, is_start, expected) in [
            (&b"foreignObject"[..], true, false),
            (b"svg", true, true),
            (b"p", true, true),
            (b"title", true, true),
            (b"foreignObject", true, false),
            (b"math", true, true),
            (b"math", false, false),
            (b"foreignObject", false, true),
            (b"svg", false, false),
        ] {
            if is_start {
                foreign.start_in_xml(name, false)
            } else {
                foreign.end_in_xml(name)
            }
            assert_eq!(
                foreign.is_inside(),
                expected,
                "{}",
                String::from_utf8_lossy(name)
            );
        }
    }

    #[test]
    fn deep_nesting_takes_no_more_memory_and_is_left_again() {
        let mut foreign = Foreign::default();
        for _ in 0..1000 {
            tag(&mut foreign, "svg");
        }
        assert!(foreign.is_inside() && foreign.open.len() == DEPTH_MAX);
        tag(&mut foreign, "p");
        assert!(!foreign.is_inside());
    }
}
