//! Markup: which bodies are HTML, and the tags of a document.
//!
//! - [`media_type`]: what a body is, by its type and its start;
//! - [`scanner`]: its tags one by one, without building a tree;
//! - [`metas`]: the `meta` elements of wanted names;
//! - [`foreign`]: which of them are inside of SVG or MathML.
//!
//! Invariants: any bytes are accepted; nothing panics; the same bytes are read alike by every stage.

pub mod foreign;
pub mod media_type;
pub mod metas;
pub mod scanner;
