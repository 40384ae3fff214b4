//! What the tree of html5ever says of the links and bases of a document, and what the parser does.
//!
//! The parser builds no tree. So these documents are of pieces of which it promises to know what a
//! tree would: each end tag of an element of HTML stands beside its start tag, but for those that
//! end foreign content. Documents with elements of HTML that are named like those of SVG and MathML
//! are left out: the parser does not know which are open around one.

use encoding_rs::UTF_8;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, ExpandedName, QualName, ns};
use parser::links::mentions;
use parser::options::Options;
use rhumb_markup::scanner::Dialect;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// What documents are made of; `#` is the number of the piece.
const PIECES: [&str; 66] = [
    "<svg>",
    "<svg>",
    "<SVG/>",
    "</svg>",
    "<math>",
    "</math>",
    "<g>",
    "</g>",
    "<path/>",
    "</path>",
    "<mi>",
    "</mi>",
    "<mo/>",
    "<mtext>",
    "</mtext>",
    "<mglyph>",
    "<malignmark/>",
    "<foreignObject>",
    "</foreignobject>",
    "<desc>",
    "</desc>",
    "<title>",
    "</title>",
    "<annotation-xml>",
    "<annotation-xml encoding='text/html'>",
    "<annotation-xml Encoding=Application/XHTML+xml>",
    "<annotation-xml encoding=text/htm>",
    "</annotation-xml>",
    "<font></font>",
    "<font color=x></font>",
    "<font FACE></font>",
    "<font size=1 id=x></font>",
    "<font lang=x>",
    "<p>",
    "</p>",
    "<br>",
    "</br>",
    "<img>",
    "<div>",
    "<ul>",
    "<h1>",
    "<center>",
    "<section>",
    "<x-y>",
    "<style>",
    "</style>",
    "<style/>",
    "<script>",
    "</script>",
    "<textarea></textarea>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "t",
    "<a href=#></a>",
    "<a href='#\0'></a>",
    "<a xlink:href=#></a>",
    "<a href=# xlink:href=no></a>",
    "<a xlink:href=no href=\"\0#\"></a>",
    "<a hr\0ef=no></a\0></a>",
    "<a\0 href=no></a\0>",
    "<base href=#>",
    "<base href='#\0'/>",
    "<base target=#>",
    "<template><base href=no></template>",
];

/// Names of SVG and MathML among them.
const FOREIGN: [&str; 9] = [
    "g",
    "path",
    "mi",
    "mo",
    "mtext",
    "mglyph",
    "foreignobject",
    "desc",
    "annotation-xml",
];

/// A document of the pieces that these bytes choose.
pub(crate) fn document(chosen: &[u8]) -> String {
    let piece = |(number, byte): (usize, &u8)| {
        let piece = PIECES[usize::from(*byte) % PIECES.len()];
        piece.replace('#', &format!("/{number}"))
    };
    "<!doctype html><body><svg>".to_owned()
        + &chosen.iter().enumerate().map(piece).collect::<String>()
}

/// The base of a document, and its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    base: Option<String>,
    links: Vec<String>,
}

/// By the parser.
pub(crate) fn read(document: &str) -> Said {
    let found = mentions(
        document.as_bytes(),
        Dialect::Html,
        UTF_8,
        &Options::default(),
        "rhumb",
    );
    let said = |at: std::ops::Range<usize>| document[at].replace('\0', "\u{FFFD}");
    Said {
        base: found.base.map(said),
        links: found
            .values
            .into_iter()
            .map(|value| said(value.at))
            .collect(),
    }
}

/// By html5ever; none when the document is left out.
pub(crate) fn built(document: &str) -> Option<Said> {
    let options = TreeBuilderOpts {
        scripting_enabled: false,
        ..TreeBuilderOpts::default()
    };
    let builder = TreeBuilder::new(Tree::default(), options);
    let tokenizer = Tokenizer::new(
        builder,
        TokenizerOpts {
            discard_bom: false,
            ..TokenizerOpts::default()
        },
    );
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(document));
    // Scripts are not run, but the tokenizer pauses behind them.
    while !matches!(tokenizer.feed(&input), html5ever::TokenizerResult::Done) {}
    tokenizer.end();
    let tree = &tokenizer.sink.sink;
    (!tree.nodes.borrow().iter().any(|node| node.is_misplaced())).then(|| tree.said())
}

/// The nodes of a tree in the order in which they were made.
#[derive(Debug, Default)]
struct Tree {
    nodes: RefCell<Vec<Rc<Node>>>,
}

#[derive(Debug)]
struct Node {
    name: QualName,
    attributes: Vec<Attribute>,
    is_integration_point: bool,
    parent: RefCell<Option<Rc<Node>>>,
}

impl Tree {
    fn add(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        is_integration_point: bool,
    ) -> Rc<Node> {
        let node = Rc::new(Node {
            name,
            attributes,
            is_integration_point,
            parent: RefCell::default(),
        });
        self.nodes.borrow_mut().push(Rc::clone(&node));
        node
    }

    fn said(&self) -> Said {
        let mut said = Said::default();
        for node in self.nodes.borrow().iter() {
            let value = |ns: &str, local: &str| {
                let is_it =
                    |known: &&Attribute| *known.name.ns == *ns && *known.name.local == *local;
                node.attributes
                    .iter()
                    .find(is_it)
                    .map(|attribute| attribute.value.to_string())
            };
            let is_html = node.name.ns == ns!(html);
            let href =
                value("", "href").or_else(|| value(&ns!(xlink), "href").filter(|_| !is_html));
            match (&*node.name.local, href) {
                // An element that is opened again is another with the same attributes.
                ("a", Some(href)) if !said.links.contains(&href) => said.links.push(href),
                ("base", Some(href)) if is_html && said.base.is_none() && node.is_of_document() => {
                    said.base = Some(href);
                }
                _ => {}
            }
        }
        said
    }
}

impl Node {
    /// Returns whether it is one of HTML that should be one of SVG or MathML.
    fn is_misplaced(&self) -> bool {
        let is_font = *self.name.local == *"font"
            && self.attributes.iter().any(|one| *one.name.local == *"lang");
        self.name.ns == ns!(html) && (is_font || FOREIGN.contains(&&*self.name.local))
    }

    fn is_of_document(&self) -> bool {
        self.parent
            .borrow()
            .as_ref()
            .map_or(*self.name.local == *"#document", |parent| {
                parent.is_of_document()
            })
    }
}

fn plain(name: &str) -> QualName {
    QualName::new(None, ns!(), name.into())
}

impl TreeSink for Tree {
    type Handle = Rc<Node>;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) {}

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Rc<Node> {
        let first = self.nodes.borrow().first().cloned();
        first.unwrap_or_else(|| self.add(plain("#document"), Vec::new(), false))
    }

    fn elem_name<'a>(&'a self, target: &'a Rc<Node>) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> Rc<Node> {
        self.add(
            name,
            attributes,
            flags.mathml_annotation_xml_integration_point,
        )
    }

    fn create_comment(&self, _text: StrTendril) -> Rc<Node> {
        self.add(plain("#comment"), Vec::new(), false)
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Rc<Node> {
        self.add(plain("#instruction"), Vec::new(), false)
    }

    fn append(&self, parent: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        if let NodeOrText::AppendNode(child) = child {
            *child.parent.borrow_mut() = Some(Rc::clone(parent));
        }
    }

    fn append_based_on_parent_node(
        &self,
        element: &Rc<Node>,
        previous: &Rc<Node>,
        child: NodeOrText<Rc<Node>>,
    ) {
        let parent = element.parent.borrow().clone();
        self.append(parent.as_ref().unwrap_or(previous), child);
    }

    fn append_doctype_to_document(
        &self,
        _name: StrTendril,
        _public: StrTendril,
        _system: StrTendril,
    ) {
    }

    fn get_template_contents(&self, _target: &Rc<Node>) -> Rc<Node> {
        self.add(plain("#contents"), Vec::new(), false)
    }

    fn same_node(&self, one: &Rc<Node>, other: &Rc<Node>) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        let parent = sibling.parent.borrow().clone();
        if let Some(parent) = parent {
            self.append(&parent, child);
        }
    }

    fn add_attrs_if_missing(&self, _target: &Rc<Node>, _attributes: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &Rc<Node>) {
        *target.parent.borrow_mut() = None;
    }

    fn reparent_children(&self, node: &Rc<Node>, parent: &Rc<Node>) {
        for child in self.nodes.borrow().iter() {
            let mut around = child.parent.borrow_mut();
            if around.as_ref().is_some_and(|known| Rc::ptr_eq(known, node)) {
                *around = Some(Rc::clone(parent));
            }
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, node: &Rc<Node>) -> bool {
        node.is_integration_point
    }
}
