//! Options: which links an operator wants, and what is kept of them.

use crate::news::News;
use rhumb_config::{Nofollow, Pipeline};

/// What is taken beside links to other pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What browsers load, too: images, scripts, media, icons, style sheets and what these load,
    /// manifests.
    pub embedded: bool,
    /// Where forms lead that are sent by GET.
    pub forms: bool,
    /// `link rel=amphtml`: the same page again, for slow devices.
    pub amphtml: bool,
    /// The text of links and around them.
    pub anchors: bool,
    /// A sketch of the text, of some pages.
    pub sketch: bool,
    /// The document is named as a sitemap, by robots.txt or by an index: text is read as one.
    pub is_named_sitemap: bool,
    /// Which dates of entries are told; none: no dates are read.
    pub news: Option<News>,
    /// What a page's wish not to be followed means.
    pub nofollow: Nofollow,
}

impl From<&Pipeline> for Options {
    fn from(pipeline: &Pipeline) -> Self {
        let parser = &pipeline.stages.parser;
        Options {
            embedded: parser.embedded,
            forms: parser.forms,
            amphtml: parser.amphtml,
            anchors: parser.anchors,
            sketch: pipeline.limits.shape_pages > 0,
            is_named_sitemap: false,
            news: None,
            nofollow: parser.nofollow,
        }
    }
}

impl Options {
    /// Returns whether links that say `nofollow` and the like are left out.
    pub fn obeys_nofollow(&self) -> bool {
        self.nofollow == Nofollow::Obey
    }
}
