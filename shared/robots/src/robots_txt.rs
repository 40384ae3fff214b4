//! robots.txt by RFC 9309: what our crawler may fetch from a server.
//!
//! In: the body of a robots.txt and our product token; out: a verdict for each path, the
//! Crawl-delay and the sitemaps. Only what applies to us is kept: the rules of the groups that name
//! our product token, merged, or of the `*` groups when none does (2.2.1).
//!
//! Invariants: no input makes parsing or matching panic; a verdict costs time linear in rules and
//! path, wildcards included. A line that is neither a record nor one of the common misspellings is
//! skipped (2.2).
//!
//! Comparison (2.2.2): octets outside unreserved characters count as percent-encoded on both sides,
//! escaped unreserved ones as decoded; `/`, `?`, `&`, `=` and `+` stay apart from their escapes,
//! because they separate. In the query a `/` separates nothing, so there a slash and its escape are
//! one, as in the RFC's example.
//!
//! What it says of the use of pages ([`Robots::usage`]) is kept beside the rules and decides nothing
//! here.

mod usage;

use self::usage::{UsageLine, lines_for};
use crate::product_token;
use encoding_rs::Encoding;
use rhumb_url::URL_BYTES_MAX;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::Duration;

/// Bytes of a robots.txt that are parsed, at most: the least that RFC 9309, section 2.5, demands.
pub const BYTES_MAX: usize = 500 * 1024;
/// Sitemaps that are taken from one robots.txt, at most.
pub const SITEMAPS_MAX: usize = 1_000;

/// What a robots.txt says to our crawler.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Robots {
    /// A rule a line, the most specific first, `allow` before `disallow` where they tie: `+` or
    /// `-`, then the pattern, normalised, in which `*` and a final `$` are the special characters.
    /// Behind them the lines on usage, as `usage` writes them: they match no path as a rule does, so
    /// that a build which knows rules alone reads them as none.
    rules: String,
    crawl_delay_ms: Option<u32>,
    sitemaps: Vec<String>,
    /// See [`Robots::sitemaps_left_out`].
    sitemaps_left_out: u32,
}

impl Robots {
    /// Reads a robots.txt as the crawler with this product token has to.
    ///
    /// At most `BYTES_MAX` bytes are read; the line that this cuts is dropped, for half a path
    /// would forbid more than was meant. The text may be UTF-8 or, behind a byte order mark,
    /// UTF-16.
    pub fn parse(body: &[u8], product_token: &str) -> Robots {
        let mut reader = Reader::new(product_token.as_bytes());
        for line in text_of(body).split(|byte| matches!(byte, b'\r' | b'\n')) {
            if let Some((record, value)) = record_of(line) {
                reader.read(record, value);
            }
        }
        reader.finish()
    }

    /// What holds when there is no robots.txt (RFC 9309, 2.3.1.3).
    pub fn allow_all() -> Robots {
        Robots {
            rules: String::new(),
            crawl_delay_ms: None,
            sitemaps: Vec::new(),
            sitemaps_left_out: 0,
        }
    }

    /// What holds while robots.txt cannot be reached (RFC 9309, 2.3.1.4).
    pub fn disallow_all() -> Robots {
        Robots {
            rules: "-/\n".to_owned(),
            ..Robots::allow_all()
        }
    }

    /// Returns whether our agent may fetch the path with its query, as [`rhumb_url::path_of`] gives
    /// it.
    ///
    /// The most specific rule that matches decides, the one with the most octets; `allow` wins
    /// ties, and what no rule matches is allowed (2.2.2). `/robots.txt` itself always is.
    pub fn allows(&self, path_and_query: &str) -> bool {
        if self.rules.is_empty() {
            return true;
        }
        let path = normalised(path_and_query);
        if path == "/robots.txt" {
            return true;
        }
        let spellings = spellings(path);
        for rule in self.rules() {
            let (verdict, pattern) = rule.split_at(1);
            if spellings.iter().any(|path| matches(pattern, path)) {
                return verdict == "+";
            }
        }
        true
    }

    /// The wait between two contacts that the server asks for; not part of the RFC, but widely
    /// used. Where our groups give several, it is the longest.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay_ms
            .map(|ms| Duration::from_millis(u64::from(ms)))
    }

    /// The rules for our agent, the most specific first: `+` (allowed) or `-`, then the pattern.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules
            .lines()
            .take_while(|line| !line.starts_with(usage::MARK))
    }

    /// What the file says of the use of the page at this path with its query: each line that
    /// applies, as `content-signal: VALUE` or `content-usage: VALUE`, ended by a line feed. Empty
    /// when it says nothing.
    ///
    /// A line in a group applies to the agents of the group; a Content-Signal before the first group
    /// to all. Of the Content-Usage lines those with the most specific path that matches apply
    /// (draft-ietf-aipref-attach, Content-Usage Rule Semantics).
    pub fn usage(&self, path_and_query: &str) -> String {
        // They stand behind all rules, which need not be searched where there are none.
        let last = self.rules.lines().next_back();
        if !last.is_some_and(|line| line.starts_with(usage::MARK)) {
            return String::new();
        }
        let at = self.rules.find(usage::MARK).unwrap_or_default();
        lines_for(&self.rules[at..], path_and_query)
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let sitemaps: usize = self
            .sitemaps
            .iter()
            .map(|sitemap| size_of::<String>() + sitemap.len())
            .sum();
        size_of::<Robots>() + self.rules.len() + sitemaps
    }

    /// The sitemaps, each once, in the order and spelling of the file: absolute as a rule, relative
    /// at times. At most `SITEMAPS_MAX`. They belong to no group (2.2.4).
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// Lines with sitemaps that are not among them: too long, or behind `SITEMAPS_MAX` others.
    pub fn sitemaps_left_out(&self) -> u32 {
        self.sitemaps_left_out
    }
}

// ---- from bytes to records ----

/// The text without byte order mark, in an encoding that has ASCII for its first 128 bytes.
fn text_of(body: &[u8]) -> Cow<'_, [u8]> {
    let is_cut = body.len() >= BYTES_MAX;
    let body = &body[..body.len().min(BYTES_MAX)];
    let mut text = match Encoding::for_bom(body) {
        Some((encoding, mark_bytes)) if encoding == encoding_rs::UTF_8 => {
            Cow::Borrowed(&body[mark_bytes..])
        }
        Some((encoding, mark_bytes)) => {
            let (text, _) = encoding.decode_without_bom_handling(&body[mark_bytes..]);
            Cow::Owned(text.into_owned().into_bytes())
        }
        None => Cow::Borrowed(body),
    };
    if is_cut {
        let whole_lines = text
            .iter()
            .rposition(|byte| matches!(byte, b'\r' | b'\n'))
            .unwrap_or(0);
        match &mut text {
            Cow::Borrowed(bytes) => *bytes = &bytes[..whole_lines],
            Cow::Owned(bytes) => bytes.truncate(whole_lines),
        }
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    ContentSignal,
    ContentUsage,
}

/// Keys in lower case. Besides the RFC's, misspellings that are frequent enough for the large
/// search engines to accept them: what their authors meant is beyond doubt.
const KEYS: &[(Record, &[&str])] = &[
    (
        Record::UserAgent,
        &["user-agent", "useragent", "user agent", "useg-agent"],
    ),
    (Record::Allow, &["allow"]),
    (
        Record::Disallow,
        &[
            "disallow",
            "dissallow",
            "dissalow",
            "disalow",
            "diasllow",
            "disallaw",
            "desallow",
        ],
    ),
    (Record::CrawlDelay, &["crawl-delay", "crawldelay"]),
    (Record::Sitemap, &["sitemap", "site-map"]),
    (Record::ContentSignal, &["content-signal"]),
    (Record::ContentUsage, &["content-usage"]),
];

/// Record and value of a line; `None` for blank lines, comments and what we do not know. Where the
/// colon is missing, white space may stand for it if the line is two words.
fn record_of(line: &[u8]) -> Option<(Record, &[u8])> {
    let line = line.split(|&byte| byte == b'#').next()?.trim_ascii();
    let (key, value) = match line.iter().position(|&byte| byte == b':') {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => {
            let space = line.iter().position(u8::is_ascii_whitespace)?;
            let value = line[space..].trim_ascii();
            if value.iter().any(u8::is_ascii_whitespace) {
                return None;
            }
            (&line[..space], value)
        }
    };
    let key = key.trim_ascii_end();
    let is_key = |known: &&str| known.as_bytes().eq_ignore_ascii_case(key);
    let (record, _) = KEYS
        .iter()
        .find(|(_, spellings)| spellings.iter().any(is_key))?;
    Some((*record, value.trim_ascii()))
}

// ---- from records to rules ----

/// The groups of one audience, merged.
#[derive(Default)]
struct Group {
    /// Returns whether a user-agent line names the audience: a group without rules is one, too.
    exists: bool,
    /// Returns whether the group being read belongs to it.
    is_open: bool,
    /// Content-Usage lines are for it.
    takes_usage: bool,
    rules: Vec<Rule>,
    crawl_delay_ms: Option<u32>,
    usage: Vec<UsageLine>,
}

struct Rule {
    octets: usize,
    allow: bool,
    pattern: String,
}

/// Reads records in order and keeps what concerns the agent.
struct Reader<'a> {
    token: &'a [u8],
    ours: Group,
    everyones: Group,
    /// Returns whether the last allow, disallow or user-agent line was a user-agent line: the next
    /// one then joins the same group. Other records do not end a group (2.2.4).
    in_header: bool,
    /// The same, where Content-Usage is a rule.
    in_header_of_usage: bool,
    sitemaps: Vec<String>,
    sitemaps_left_out: u32,
    /// Lines on usage that stand before the first group.
    usage_of_all: Vec<UsageLine>,
    has_groups: bool,
}

impl<'a> Reader<'a> {
    fn new(token: &'a [u8]) -> Self {
        let ours = Group::default();
        let everyones = Group::default();
        Reader {
            token,
            ours,
            everyones,
            in_header: false,
            in_header_of_usage: false,
            sitemaps: Vec::new(),
            sitemaps_left_out: 0,
            usage_of_all: Vec::new(),
            has_groups: false,
        }
    }

    fn read(&mut self, record: Record, value: &[u8]) {
        match record {
            Record::UserAgent => self.open(value),
            Record::Allow => self.rule(true, value),
            Record::Disallow => self.rule(false, value),
            Record::CrawlDelay => self.crawl_delay(value),
            Record::Sitemap => self.sitemap(value),
            Record::ContentSignal => self.content_signal(value),
            Record::ContentUsage => self.content_usage(value),
        }
    }

    fn open(&mut self, agent: &[u8]) {
        if !self.in_header {
            self.ours.is_open = false;
            self.everyones.is_open = false;
        }
        if !self.in_header_of_usage {
            self.ours.takes_usage = false;
            self.everyones.takes_usage = false;
        }
        self.in_header = true;
        self.in_header_of_usage = true;
        self.has_groups = true;
        let named = if matches!(agent, [b'*'] | [b'*', b' ' | b'\t', ..]) {
            &mut self.everyones
        } else if !self.token.is_empty()
            && product_token::at_start_of(agent).eq_ignore_ascii_case(self.token)
        {
            &mut self.ours
        } else {
            return;
        };
        named.exists = true;
        named.is_open = true;
        named.takes_usage = true;
    }

    fn rule(&mut self, allow: bool, pattern: &[u8]) {
        self.in_header = false;
        self.in_header_of_usage = false;
        // an empty pattern matches nothing; one that starts otherwise is not in the grammar (2.2)
        // and cannot match
        if !matches!(pattern.first(), Some(b'/' | b'*')) {
            return;
        }
        for group in [&mut self.ours, &mut self.everyones] {
            if group.is_open {
                let (pattern, octets) = normalised_pattern(pattern);
                group.rules.push(Rule {
                    octets,
                    allow,
                    pattern,
                });
            }
        }
    }

    /// Applies to the agents named so far, also when more follow in the same header.
    fn crawl_delay(&mut self, value: &[u8]) {
        let Some(ms) = milliseconds(value) else {
            return;
        };
        for group in [&mut self.ours, &mut self.everyones] {
            if group.is_open {
                group.crawl_delay_ms = group.crawl_delay_ms.max(Some(ms));
            }
        }
    }

    /// Joins no group to another, as all that the RFC does not know (2.2.4).
    fn content_signal(&mut self, value: &[u8]) {
        let Some(line) = UsageLine::content_signal(value) else {
            return;
        };
        if !self.has_groups {
            usage::keep(&mut self.usage_of_all, &line);
        }
        for group in [&mut self.ours, &mut self.everyones] {
            if group.is_open {
                usage::keep(&mut group.usage, &line);
            }
        }
    }

    /// A rule of its group (draft-ietf-aipref-attach): the next line of an agent begins another
    /// one. For the rules of the RFC it does not, whose readers need not know it.
    fn content_usage(&mut self, value: &[u8]) {
        self.in_header_of_usage = false;
        let Some(line) = UsageLine::content_usage(value) else {
            return;
        };
        for group in [&mut self.ours, &mut self.everyones] {
            if group.takes_usage {
                usage::keep(&mut group.usage, &line);
            }
        }
    }

    fn sitemap(&mut self, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        if value.len() > URL_BYTES_MAX || self.sitemaps.len() >= SITEMAPS_MAX {
            self.sitemaps_left_out += 1;
            return;
        }
        let sitemap = String::from_utf8_lossy(value);
        // at most a thousand short strings: a set would cost more than it saves
        if !self.sitemaps.iter().any(|known| *known == sitemap) {
            self.sitemaps.push(sitemap.into_owned());
        }
    }

    fn finish(self) -> Robots {
        let mut group = if self.ours.exists {
            self.ours
        } else {
            self.everyones
        };
        group.rules.sort_unstable_by(|a, b| {
            let key = |rule: &Rule| (Reverse(rule.octets), Reverse(rule.allow));
            key(a).cmp(&key(b)).then_with(|| a.pattern.cmp(&b.pattern))
        });
        group
            .rules
            .dedup_by(|a, b| a.allow == b.allow && a.pattern == b.pattern);
        let mut rules =
            String::with_capacity(group.rules.iter().map(|rule| rule.pattern.len() + 2).sum());
        for rule in &group.rules {
            rules.push(if rule.allow { '+' } else { '-' });
            rules.push_str(&rule.pattern);
            rules.push('\n');
        }
        for line in self.usage_of_all.iter().chain(&group.usage) {
            line.write(&mut rules);
        }
        Robots {
            rules,
            crawl_delay_ms: group.crawl_delay_ms,
            sitemaps: self.sitemaps,
            sitemaps_left_out: self.sitemaps_left_out,
        }
    }
}

/// Milliseconds of a number of seconds such as `5`, `0.5`; saturates. Signs, exponents and units
/// are garbage.
fn milliseconds(seconds: &[u8]) -> Option<u32> {
    let is_number = seconds
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let seconds: f64 = std::str::from_utf8(seconds)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()?;
    Some((seconds * 1_000.0).round() as u32)
}

// ---- comparing ----

/// A pattern ready for [`matches`], and its octets: how specific it is.
///
/// An octet is a byte as written or the escape it needs outside ASCII, so that `ツ` and `%E3%83%84`
/// weigh the same.
fn normalised_pattern(pattern: &[u8]) -> (String, usize) {
    let (pattern, end) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, "$"),
        None => (pattern, ""),
    };
    let mut out = String::with_capacity(pattern.len() + 1);
    let mut octets = end.len();
    for (n, literal) in pattern.split(|&byte| byte == b'*').enumerate() {
        if n > 0 && !out.ends_with('*') {
            out.push('*');
            octets += 1;
        }
        octets += push_normalised(&mut out, literal);
    }
    out.push_str(end);
    (out, octets)
}

/// A path with its query ready for [`matches`]: special characters of patterns are escaped in it.
fn normalised(path_and_query: &str) -> Cow<'_, str> {
    if path_and_query.starts_with('/') && path_and_query.bytes().all(is_kept) {
        return Cow::Borrowed(path_and_query);
    }
    let mut out = String::with_capacity(path_and_query.len() + 16);
    if !path_and_query.starts_with('/') {
        out.push('/');
    }
    push_normalised(&mut out, path_and_query.as_bytes());
    Cow::Owned(out)
}

/// Appends literal text in the form that is compared; returns its octets.
fn push_normalised(out: &mut String, text: &[u8]) -> usize {
    let mut octets = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escaped = escaped_byte(&text[at..]);
        let byte = escaped.unwrap_or(byte);
        at += if escaped.is_some() { 3 } else { 1 };
        // an escaped separator stays escaped
        let is_plain = if escaped.is_some() {
            is_unreserved(byte)
        } else {
            is_kept(byte)
        };
        if is_plain {
            out.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let digits = [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 0x0f)],
            ];
            out.extend(['%', char::from(digits[0]), char::from(digits[1])]);
        }
        let was_escape = !is_plain && (escaped.is_some() || !byte.is_ascii());
        octets += if was_escape { 3 } else { 1 };
    }
    octets
}

/// The byte that an escape at the start of the text stands for.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let &[b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    // two hexadecimal digits always fit
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_kept(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'/' | b'?' | b'&' | b'=' | b'+')
}

/// The path in each spelling of the slashes in its query: as it is, all raw, all escaped. A rule
/// matches if it matches one of them; which slashes of a pattern lie in the query cannot be told
/// when it has wildcards.
fn spellings(path: Cow<'_, str>) -> Vec<Cow<'_, str>> {
    let Some((before, query)) = path
        .split_once('?')
        .filter(|(_, query)| query.contains('/') || query.contains("%2F"))
    else {
        return vec![path];
    };
    let raw = format!("{before}?{}", query.replace("%2F", "/"));
    let escaped = format!("{before}?{}", query.replace('/', "%2F"));
    vec![path, raw.into(), escaped.into()]
}

/// Returns whether the pattern matches from the start of the path: `*` stands for any octets, `$`
/// at the end for the end.
///
/// Each literal between wildcards is looked for once, leftmost, behind the one before it. That is
/// enough, because a later place for it leaves less for the rest; so there is no backtracking, and
/// the time is linear.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let Some((head, tail)) = pattern.split_once('*') else {
        return if to_the_end {
            path == pattern
        } else {
            path.starts_with(pattern)
        };
    };
    let Some(mut rest) = path.strip_prefix(head) else {
        return false;
    };
    let (middle, last) = tail.rsplit_once('*').unwrap_or(("", tail));
    for literal in middle.split('*') {
        match rest.find(literal) {
            Some(at) => rest = &rest[at + literal.len()..],
            None => return false,
        }
    }
    if to_the_end {
        rest.ends_with(last)
    } else {
        rest.contains(last)
    }
}

#[cfg(test)]
mod tests;
