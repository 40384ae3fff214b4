//! Resource: what a path on a host stands for, and how it is spelled.

use std::fmt::Write as _;

use super::byway;
use super::plan::Plan;
use super::tongue::Tongue;

const SITEMAP: &str = "/sitemap.xml";

/// What a path names. Host and resource together are one URL, except for `Unknown`, which is any
/// path of no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    /// `/robots.txt`
    Robots,
    /// `/sitemap.xml` of a host whose pages change.
    Sitemap,
    /// A page of the host, redirecting and disallowed ones included.
    Page(u32),
    /// A path that pages link to and that answers 404.
    Gone(u32),
    /// What a hostile host has beside its pages.
    Byway(u32),
    /// A path that no page links to.
    Unknown,
}

/// How a page's path is spelled. All forms are canonical: lower case, parameters sorted. On hosts
/// whose pages are not in English, Flat and View have an escaped word of their language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/`
    Root,
    /// `/p/123.html`
    Flat,
    /// `/a/1/123.html`
    Deep,
    /// `/item?id=123`
    Item,
    /// `/view?id=123&v=4`
    View,
    /// `/private/123.html`, disallowed by prefix.
    Private,
    /// `/run/123.cgi`, disallowed by pattern.
    Script,
    /// `/private/open/123.html`, allowed by the longer rule.
    Public,
}

/// Spelling and fate of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) redirect: bool,
}

impl Shape {
    /// Returns whether robots.txt of the host forbids the page.
    pub(crate) fn is_disallowed(self) -> bool {
        matches!(self.form, Form::Private | Form::Script)
    }

    /// Returns whether it answers 200 and may be fetched.
    pub(crate) fn is_open(self) -> bool {
        !self.redirect && !self.is_disallowed()
    }
}

impl Form {
    /// Number of directories between the root and the page: how many `../` lead back.
    pub(crate) fn depth(self) -> usize {
        match self {
            Self::Root | Self::Item | Self::View => 0,
            Self::Flat | Self::Private | Self::Script => 1,
            Self::Deep | Self::Public => 2,
        }
    }

    fn write_path(self, page: u32, word: &Word, ampersand: &str, out: &mut String) {
        let written = match self {
            Self::Root => out.write_str("/"),
            Self::Flat if !word.in_path.is_empty() => write!(out, "/{}/{page}.html", word.in_path),
            Self::View if !word.in_query.is_empty() => {
                write!(
                    out,
                    "/view?id={page}{ampersand}v={}{ampersand}q={}",
                    page % 7,
                    word.in_query
                )
            }
            Self::Flat => write!(out, "/p/{page}.html"),
            Self::Deep => write!(out, "/a/{}/{page}.html", page / 100),
            Self::Item => write!(out, "/item?id={page}"),
            Self::View => write!(out, "/view?id={page}{ampersand}v={}", page % 7),
            Self::Private => write!(out, "/private/{page}.html"),
            Self::Script => write!(out, "/run/{page}.cgi"),
            Self::Public => write!(out, "/private/open/{page}.html"),
        };
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
}

/// A word in some paths and queries of a host; empty on most.
#[derive(Clone, Debug, Default)]
struct Word {
    in_path: String,
    in_query: String,
}

impl Word {
    fn escaped(tongue: Option<Tongue>) -> Self {
        tongue.map_or_else(Self::default, |tongue| Self {
            in_path: tongue.in_path(),
            in_query: tongue.in_query(),
        })
    }

    fn as_it_is(tongue: Option<Tongue>) -> Self {
        let word = tongue.map_or("", |tongue| tongue.word).to_owned();
        Self {
            in_path: word.clone(),
            in_query: word,
        }
    }
}

impl Resource {
    /// Appends path and query. `ampersand` is `&`, or `&amp;` inside HTML. `Unknown` has no path.
    pub(crate) fn write_path(self, plan: &Plan, host: u32, ampersand: &str, out: &mut String) {
        self.write(
            plan,
            host,
            &Word::escaped(plan.tongue(host)),
            ampersand,
            out,
        );
    }

    /// The same, as pages of the host spell it: in their language, nothing escaped.
    pub(crate) fn write_own_path(self, plan: &Plan, host: u32, ampersand: &str, out: &mut String) {
        self.write(
            plan,
            host,
            &Word::as_it_is(plan.tongue(host)),
            ampersand,
            out,
        );
    }

    fn write(self, plan: &Plan, host: u32, word: &Word, ampersand: &str, out: &mut String) {
        match self {
            Self::Robots => out.push_str("/robots.txt"),
            Self::Sitemap => out.push_str(SITEMAP),
            Self::Page(page) => plan
                .shape(host, page)
                .form
                .write_path(page, word, ampersand, out),
            Self::Byway(number) => byway::write_path(plan, host, number, ampersand, out),
            Self::Gone(number) => {
                let written = write!(out, "/gone/{number}.html");
                debug_assert!(written.is_ok(), "writing to a string cannot fail");
            }
            Self::Unknown => {}
        }
    }

    /// What `path` (with its query) stands for on `host`. Only the spelling that pages link to
    /// counts.
    pub(crate) fn of_path(plan: &Plan, host: u32, path: &str) -> Self {
        if path == "/robots.txt" {
            return Self::Robots;
        }
        if path == SITEMAP && plan.site(host).has_sitemap() {
            return Self::Sitemap;
        }
        let byway = byway::candidate(plan, host, path).map(Self::Byway);
        if let Some(byway) = byway.filter(|byway| byway.is_spelled(plan, host, path)) {
            return byway;
        }
        let site = plan.site(host);
        let resource = match number_in(path) {
            None => Self::Page(0),
            Some(number) if path.starts_with("/gone/") && number < site.gone_max() => {
                Self::Gone(number)
            }
            Some(number) if number < site.pages => Self::Page(number),
            Some(_) => return Self::Unknown,
        };
        if resource.is_spelled(plan, host, path) {
            resource
        } else {
            Self::Unknown
        }
    }

    fn is_spelled(self, plan: &Plan, host: u32, path: &str) -> bool {
        let mut spelled = String::with_capacity(40);
        self.write_path(plan, host, "&", &mut spelled);
        spelled == path
    }

    /// A number that differs between most resources of a host, for seeding.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Page(page) => page,
            Self::Gone(number) => !number,
            Self::Byway(number) => number ^ (1 << 30),
            Self::Robots => u32::MAX / 2,
            Self::Sitemap => u32::MAX / 4,
            Self::Unknown => u32::MAX / 3,
        }
    }
}

/// The page number in a path: after `id=` if there is a query, otherwise between the last `/` and
/// the extension.
fn number_in(path: &str) -> Option<u32> {
    let tail = match path.split_once("?id=") {
        Some((_, query)) => query,
        None => path.rsplit('/').next()?,
    };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    tail[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn every_path_leads_back_to_its_page_and_no_other_spelling_does() {
        let plan = Plan::new(
            Profile {
                hosts: 5,
                ..Profile::mixed()
            },
            8080,
        );
        for host in 0..5 {
            for page in 0..plan.site(host).pages {
                let mut path = String::new();
                Resource::Page(page).write_path(&plan, host, "&", &mut path);
                assert_eq!(
                    Resource::of_path(&plan, host, &path),
                    Resource::Page(page),
                    "{path}"
                );
                path.push('x');
                assert_eq!(
                    Resource::of_path(&plan, host, &path),
                    Resource::Unknown,
                    "{path}"
                );
            }
        }
        for path in [
            "",
            "x",
            "/p/",
            "/p/0.html",
            "/p/0001.html",
            "/p/99999999999.html",
            "/view?id=",
            "/p/é.html",
        ] {
            assert_eq!(
                Resource::of_path(&plan, 0, path),
                Resource::Unknown,
                "{path}"
            );
        }
        assert_eq!(
            Resource::of_path(&plan, 0, "/gone/0.html"),
            Resource::Gone(0)
        );
    }
}
