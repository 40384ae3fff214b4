//! HTML: pages of plausible text around the links of the plan.
//!
//! A page is a head of its own with all links, then a slice of one filler that all pages share,
//! then a common tail. Only the head is made for each request. The rest is sent from where it lies,
//! so that a large web stays small and a page is cheap.

use std::fmt::Write as _;
use std::ops::Range;

use super::byway;
use super::dice::{Dice, Purpose};
use super::edition::Edition;
use super::hostility::Hostility;
use super::plan::{Link, Plan};
use super::profile::Profile;
use super::resource::{Form, Resource};

/// The filler is so many times as long as the median page, so that only a few of the largest pages
/// are cut to it: less than one in a hundred, with the spread of any profile here. But it is not
/// shorter than this.
const FILLER_MEDIANS: usize = 16;
const FILLER_BYTES_MIN: usize = 512 * 1024;

const WORDS: [&str; 96] = [
    "harbour", "the", "of", "and", "wind", "chart", "a", "course", "north", "in", "compass", "to",
    "vessel", "was", "island", "for", "current", "with", "latitude", "sailing", "that", "long",
    "captain", "by", "evening", "from", "rope", "on", "water", "is", "lantern", "their", "anchor",
    "bearing", "as", "distant", "cargo", "had", "river", "coast", "new", "journal", "morning",
    "his", "sextant", "tide", "which", "line", "constant", "voyage", "map", "sail", "were",
    "storm", "southern", "league", "not", "crew", "weather", "her", "after", "shore", "channel",
    "under", "light", "first", "between", "measure", "degree", "angle", "merchant", "letter",
    "are", "market", "town", "over", "bridge", "paper", "without", "reef", "quiet", "sand", "deep",
    "known", "station", "signal", "they", "bay", "winter", "stone", "small", "depth", "glass",
    "tower", "harvest", "village",
];

/// Ends every page.
pub(crate) const TAIL: &str = "</main>\n<footer><p>Set in plain type. <a name=\"end\">End of \
                               page.</a></p></footer>\n\
                               </body>\n</html>\n";

/// The base that the relative links of such a host refer to.
const BASE: &str = "/base/of/all/";
/// Directories between the root and that base.
const BASE_DEPTH: usize = 3;

/// Text without links, in whole blocks, shared by all pages.
#[derive(Debug)]
pub(crate) struct Filler {
    text: String,
    /// Where blocks begin, and the end of the last.
    boundaries: Vec<usize>,
    /// Ready phrases for anchors and for the text around them.
    phrases: Vec<String>,
}

impl Filler {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut dice = Dice::new(profile.seed, Purpose::Filler, 0, 0);
        let bytes = FILLER_BYTES_MIN.max(FILLER_MEDIANS * profile.page_bytes_median as usize);
        let mut text = String::with_capacity(bytes + 4_096);
        let mut boundaries = vec![0];
        while text.len() < bytes {
            write_block(&mut dice, &mut text);
            boundaries.push(text.len());
        }
        let phrases = (0..256).map(|_| phrase(&mut dice)).collect();
        Self {
            text,
            boundaries,
            phrases,
        }
    }

    /// Whole blocks of about `bytes` in all, at most the whole filler.
    fn slice(&self, dice: &mut Dice, bytes: usize) -> Range<usize> {
        let latest = self.text.len().saturating_sub(bytes);
        let starts = self.boundaries.partition_point(|at| *at <= latest).max(1);
        let start = self.boundaries[dice.below(starts as u32) as usize];
        let ends = self.boundaries.partition_point(|at| *at <= start + bytes);
        start..self.boundaries[ends.max(1) - 1].max(start)
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.text.as_bytes().get(range).unwrap_or_default()
    }

    fn phrase(&self, dice: &mut Dice) -> &str {
        &self.phrases[(dice.next() % 256) as usize]
    }
}

fn word(dice: &mut Dice) -> &'static str {
    WORDS[dice.below(WORDS.len() as u32) as usize]
}

fn phrase(dice: &mut Dice) -> String {
    let words: Vec<&str> = (0..2 + dice.below(4)).map(|_| word(dice)).collect();
    words.join(" ")
}

fn write_sentence(dice: &mut Dice, out: &mut String) {
    let first = word(dice);
    out.push_str(&first[..1].to_uppercase());
    out.push_str(&first[1..]);
    for _ in 0..6 + dice.below(12) {
        let word = word(dice);
        let _ = match dice.below(40) {
            0 => write!(out, " <em>{word}</em>"),
            1 => write!(out, ", {word}"),
            2 => write!(out, " <strong>{word}</strong>"),
            3 => write!(out, " {word} &amp; co."),
            _ => write!(out, " {word}"),
        };
    }
    out.push_str(". ");
}

/// Mostly a paragraph; now and then something that a link extractor must see through.
fn write_block(dice: &mut Dice, out: &mut String) {
    match dice.below(24) {
        0 => out.push_str("<!-- <a href=\"/commented-out.html\">not a link</a> -->\n"),
        1 => out.push_str(
            "<script>if (1 < 2) { note('<a href=\"/in-a-script.html\">not a link</a>'); \
             }</script>\n",
        ),
        2 => {
            out.push_str("<ul>\n");
            for _ in 0..3 + dice.below(4) {
                let _ = writeln!(out, "  <li>{}</li>", phrase(dice));
            }
            out.push_str("</ul>\n");
        }
        3 => {
            let _ = writeln!(out, "<h2 class=\"section\">{}</h2>", phrase(dice));
        }
        _ => write_paragraph(dice, out),
    }
}

fn write_paragraph(dice: &mut Dice, out: &mut String) {
    out.push_str("<p class=\"text\">");
    for _ in 0..2 + dice.below(5) {
        write_sentence(dice, out);
    }
    out.push_str("</p>\n");
}

/// What decides how the links of a page are spelled.
#[derive(Clone, Copy)]
struct Spelling<'a> {
    plan: &'a Plan,
    host: u32,
    form: Form,
    hostility: Option<Hostility>,
    /// The session of the visitor, in each link that stays on the host.
    session: Option<u32>,
}

/// A page in one piece.
pub(crate) fn whole(plan: &Plan, host: u32, page: u32, edition: Edition) -> String {
    let mut whole = String::new();
    let filler = render(plan, host, page, edition, &mut whole);
    whole.push_str(plan.filler.text.get(filler).unwrap_or_default());
    whole.push_str(TAIL);
    whole
}

/// Renders a page: appends its own part to `out` and returns which filler follows it. [`TAIL`]
/// comes last.
pub(crate) fn render(
    plan: &Plan,
    host: u32,
    page: u32,
    edition: Edition,
    out: &mut String,
) -> Range<usize> {
    let start = out.len();
    let mut dice = Dice::new(plan.profile.seed, Purpose::Spelling, host, page);
    let spelling = Spelling {
        plan,
        host,
        form: plan.shape(host, page).form,
        hostility: plan.site(host).hostility,
        session: edition.session,
    };
    let mut links = plan.links(host, page);
    if let Some(moment) = edition.moment {
        links.retain(|link| plan.is_linked_to(*link, moment.at_s));
    }
    let refreshes = spelling.hostility == Some(Hostility::Refreshes);
    let (refresh, links) = links.split_at(usize::from(refreshes).min(links.len()));
    write_head(spelling, page, refresh.first(), &mut dice, out);
    let (nav, text) = links.split_at(links.len().min(8));
    out.push_str("<nav>\n<ul>\n");
    for link in nav {
        out.push_str("<li>");
        write_anchor(spelling, *link, &mut dice, out);
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n</nav>\n");
    if let Some(counter) = edition.counter {
        let _ = writeln!(out, "<aside>Visitor {counter}</aside>");
    }
    out.push_str("<main>\n");
    write_text(spelling, text, &mut dice, out);
    if spelling.hostility == Some(Hostility::TagSoup) {
        out.push_str(OPEN_COMMENT);
    }
    let mut dice = Dice::new(plan.profile.seed, Purpose::Size, host, page);
    let size = dice.lognormal(
        f64::from(plan.profile.page_bytes_median),
        plan.profile.page_bytes_sigma,
    ) as usize;
    if edition.version() > 0 {
        // Another version has another text, of the same size.
        dice = version_dice(plan, host, page, edition.version());
        write_paragraph(&mut dice, out);
    }
    let own = out.len() - start + TAIL.len();
    plan.filler.slice(
        &mut dice,
        size.saturating_sub(own).min(plan.filler.text.len()),
    )
}

/// Paragraphs around links.
fn write_text(spelling: Spelling<'_>, links: &[Link], dice: &mut Dice, out: &mut String) {
    for group in links.chunks(6) {
        out.push_str("<p>");
        for link in group {
            out.push_str(spelling.plan.filler.phrase(dice));
            out.push(' ');
            write_anchor(spelling, *link, dice, out);
            out.push_str(", ");
        }
        out.push_str("and more.</p>\n");
    }
}

fn version_dice(plan: &Plan, host: u32, page: u32, version: u64) -> Dice {
    let seed = Dice::new(version, Purpose::Version, 0, 0).next();
    Dice::new(plan.profile.seed ^ seed, Purpose::Version, host, page)
}

/// The beginning of a page that is badly written, up to its first link: its head is never closed.
const SOUP: &str =
    "</div></table><p<b>>1 < 2 && 3 > 2 &nosuch; <![CDATA[ x ]]> <?php echo ?> \0 \u{fffd}\n";
/// It hides all that comes before the end of the next comment: those are no links.
const OPEN_COMMENT: &str = "<!-- never closed here <a href=\"/in-an-open-comment.html\">\n";

fn write_head(
    spelling: Spelling<'_>,
    page: u32,
    refresh: Option<&Link>,
    dice: &mut Dice,
    out: &mut String,
) {
    let Spelling {
        plan,
        host,
        hostility,
        ..
    } = spelling;
    let title = plan.filler.phrase(dice);
    let charset = match hostility {
        Some(Hostility::Cyrillic) => {
            "<meta http-equiv=content-type content='text/html; charset=windows-1251'>"
        }
        // The charset is said elsewhere.
        Some(Hostility::Japanese | Hostility::Utf16) => "",
        _ => "<meta charset=\"utf-8\">",
    };
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{charset}\n\
         <title>{title} ({page}) - h{host:04}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body {{ margin: 2em }} .text {{ line-height: 1.4 }}</style>\n"
    );
    if hostility == Some(Hostility::Based) {
        let _ = writeln!(out, "<base href=\"http://{}{BASE}\">", plan.authority(host));
    }
    if let Some(link) = refresh {
        out.push_str("<meta http-equiv=\"Refresh\" content=\"30; URL='");
        write_reference(spelling, *link, dice, out);
        out.push_str("'\">\n");
    }
    match hostility {
        Some(Hostility::TagSoup) => out.push_str(SOUP),
        _ => out.push_str("</head>\n<body id=\"top\">\n"),
    }
    // Where there is a base, even this would lead to the base.
    let page_itself = if hostility == Some(Hostility::Based) {
        "/"
    } else {
        ""
    };
    let _ = write!(
        out,
        "<h1>{title}</h1>\n<p><a href=\"{page_itself}#end\">Down</a> <a \
         href=\"mailto:keeper@h{host:04}.test\">write</a></p>\n"
    );
    if hostility == Some(Hostility::Srcset) {
        write_images(spelling, page, out);
    }
}

/// Writes each image in three sizes: none is a link, and none must be taken for one.
fn write_images(spelling: Spelling<'_>, page: u32, out: &mut String) {
    let [small, medium, large] = byway::images(page).map(|image| {
        let mut path = String::new();
        image.write_path(spelling.plan, spelling.host, "&amp;", &mut path);
        path
    });
    let _ = writeln!(
        out,
        "<picture><source srcset=\"{large} 2x, {medium} 1.5x\" media=\"(min-width: 800px)\">\
         <img src=\"{small}\" srcset=\"{medium} 640w,{large} 1280w\" alt=\"a > b\"></picture>"
    );
}

fn write_anchor(spelling: Spelling<'_>, link: Link, dice: &mut Dice, out: &mut String) {
    if spelling.hostility == Some(Hostility::TagSoup) {
        return write_bad_anchor(spelling, link, dice, out);
    }
    let (open, close, end) = match dice.below(20) {
        0 => ("<A HREF=\"", "\">", "</A>"),
        1 => ("<a class='link' href='", "'>", "</a>"),
        2 => ("<a\n  title=\"see\" href = \" ", " \">", "</a>"),
        _ => ("<a href=\"", "\">", "</a>"),
    };
    out.push_str(open);
    write_reference(spelling, link, dice, out);
    if dice.chance(0.1) {
        let _ = write!(out, "#s{}", dice.below(9));
    }
    out.push_str(close);
    out.push_str(spelling.plan.filler.phrase(dice));
    out.push_str(end);
}

/// An anchor that is badly written. Browsers find its link all the same, and nothing else (HTML
/// Living Standard, section 13.2.5).
fn write_bad_anchor(spelling: Spelling<'_>, link: Link, dice: &mut Dice, out: &mut String) {
    let (open, close) = match dice.below(8) {
        0 => ("<a href=", ">"),
        1 => ("<a title=\"a > b\" href=\"", "\">"),
        2 => ("<a/href=\"", "\"/>"),
        // The first of the two attributes counts.
        3 => ("<a href=\"", "\" href=\"/second.html\">"),
        4 => ("<A\tHREF\n=\r\n'", "'class=x\"y>"),
        // Line ends and tabs in a URL do not count.
        5 => ("<a href=\"\t", "\n\t\">"),
        6 => (
            "<p <b <a><i><a =x href=\"",
            "\"onclick=\"<a href=/quoted.html>\">",
        ),
        _ => ("<<a href = \"", "\" / / data-x='<!-- >"),
    };
    // The last one quotes all that comes before this.
    let end = if close.ends_with("<!-- >") {
        "'></a >"
    } else {
        "</b>"
    };
    out.push_str(open);
    write_reference(spelling, link, dice, out);
    out.push_str(close);
    out.push_str(spelling.plan.filler.phrase(dice));
    out.push_str(end);
}

/// Spells a link: absolute, without scheme, from the root, or from the page it stands on.
fn write_reference(spelling: Spelling<'_>, link: Link, dice: &mut Dice, out: &mut String) {
    let Spelling {
        plan, host: from, ..
    } = spelling;
    let ampersand = if dice.chance(0.8) { "&amp;" } else { "&" };
    let roll = dice.below(100);
    if link.host != from || roll < 20 {
        let scheme = plan.scheme(link.host);
        // A link without a scheme has the scheme of the page.
        if roll.is_multiple_of(10) && scheme == plan.scheme(from) {
            out.push_str("//");
        } else {
            let _ = write!(out, "{scheme}://");
        }
        write_authority(plan, link.host, out);
        write_path(spelling, link, ampersand, out);
    } else if roll < 35 {
        write_relative(spelling, link, ampersand, out);
    } else {
        write_path(spelling, link, ampersand, out);
    }
}

fn write_authority(plan: &Plan, host: u32, out: &mut String) {
    out.push_str(&plan.authority(host));
}

fn write_path(spelling: Spelling<'_>, link: Link, ampersand: &str, out: &mut String) {
    let start = out.len();
    if link.host != spelling.host {
        return link
            .resource
            .write_path(spelling.plan, link.host, ampersand, out);
    }
    link.resource
        .write_own_path(spelling.plan, link.host, ampersand, out);
    if let Some(session) = spelling.session {
        let _ = match out[start..].contains('?') {
            true => write!(out, "{ampersand}PHPSESSID={session:08x}"),
            false if session.is_multiple_of(2) => write!(out, "?PHPSESSID={session:08x}"),
            false => write!(out, ";jsessionid={session:08x}"),
        };
    }
}

fn write_relative(spelling: Spelling<'_>, link: Link, ampersand: &str, out: &mut String) {
    let depth = if spelling.hostility == Some(Hostility::Based) {
        BASE_DEPTH
    } else {
        spelling.form.depth()
    };
    if depth == 0 {
        out.push_str("./");
    }
    for _ in 0..depth {
        out.push_str("../");
    }
    if link.resource != Resource::Page(0) {
        let slash = out.len();
        write_path(spelling, link, ampersand, out);
        out.remove(slash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn page_bytes(plan: &Plan, host: u32, page: u32) -> Vec<u8> {
        let mut own = String::new();
        let filler = render(plan, host, page, Edition::default(), &mut own);
        [own.as_bytes(), plan.filler.bytes(filler), TAIL.as_bytes()].concat()
    }

    #[test]
    fn equal_seeds_render_equal_pages_and_other_seeds_do_not() {
        let plan = |seed| {
            Plan::new(
                Profile {
                    seed,
                    hosts: 5,
                    ..Profile::mixed()
                },
                8080,
            )
        };
        let one = plan(3);
        let same = plan(3);
        let other = plan(4);
        for host in 0..5 {
            for page in 0..one.site(host).pages.min(50) {
                assert_eq!(page_bytes(&one, host, page), page_bytes(&same, host, page));
            }
            assert_ne!(page_bytes(&one, host, 0), page_bytes(&other, host, 0));
        }
    }

    #[test]
    fn pages_have_the_size_of_the_profile() {
        let plan = Plan::new(Profile::raw(), 8080);
        let mut sizes: Vec<usize> = (0..50u32)
            .flat_map(|host| (0..200).map(move |page| (host, page)))
            .map(|(host, page)| page_bytes(&plan, host, page).len())
            .collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        let median = sizes[sizes.len() / 2];
        assert!((11_000..13_500).contains(&median), "median {median}");
        assert!((15_500..18_500).contains(&mean), "mean {mean}");
    }
}
