//! Sources: where a page has a link.

/// What mentions a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `a href`.
    A,
    /// `area href`.
    Area,
    /// `link href` that leads to another page or, with
    /// [`Options::embedded`](crate::options::Options), to what the page is made with.
    Link,
    /// `link rel=canonical`, of a header too.
    Canonical,
    /// `iframe src`, `frame src`.
    Frame,
    /// `form action`.
    Form,
    /// `img src`, `input type=image src`, `background`, `image` and `use` of drawings, `embed src`,
    /// `object data` and the `param` that says the same.
    Image,
    /// `srcset` of `img` and `source`, `link imagesrcset`.
    Srcset,
    /// `script src`.
    Script,
    /// `video`, `audio`, `source`, `track`: `src` and `poster`.
    Media,
    /// A style sheet or a `style` element: `@import`, `url()`, `image-set()`.
    Style,
    /// The same in markup, where character references count: a `style` attribute, or the `style`
    /// element of a drawing.
    StyleInMarkup,
    /// `iframe srcdoc`: a document, whose links have sources of their own.
    Srcdoc,
    /// A web app's manifest.
    Manifest,
    /// `meta http-equiv=refresh`.
    MetaRefresh,
    /// The header `Link`.
    LinkHeader,
    /// The header `Refresh`.
    RefreshHeader,
    /// The header `Location`.
    Location,
    /// The header `Content-Location`.
    ContentLocation,
    /// A sitemap, or an index of sitemaps.
    Sitemap,
    /// An RSS or Atom feed.
    Feed,
    /// A line of a plain-text sitemap.
    Text,
}

impl Source {
    /// Its name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Source::A => "a",
            Source::Area => "area",
            Source::Link => "link",
            Source::Canonical => "canonical",
            Source::Frame => "frame",
            Source::Form => "form",
            Source::Image => "image",
            Source::Srcset => "srcset",
            Source::Script => "script",
            Source::Media => "media",
            Source::Style | Source::StyleInMarkup => "style",
            Source::Srcdoc => "srcdoc",
            Source::Manifest => "manifest",
            Source::MetaRefresh => "meta-refresh",
            Source::LinkHeader => "link-header",
            Source::RefreshHeader => "refresh-header",
            Source::Location => "location",
            Source::ContentLocation => "content-location",
            Source::Sitemap => "sitemap",
            Source::Feed => "feed",
            Source::Text => "text",
        }
    }

    /// Returns whether it says where the page itself is or has gone: no link, so that nofollow does
    /// not concern it.
    pub const fn is_about_page(self) -> bool {
        matches!(
            self,
            Source::Canonical
                | Source::MetaRefresh
                | Source::RefreshHeader
                | Source::Location
                | Source::ContentLocation
        )
    }
}
