//! Lines of a robots.txt on the use of pages: Content-Signal and Content-Usage.
//!
//! In: the values of such lines. Out: the lines that apply to a path, with their values as written.
//! What a value means is not known here: `rhumb-usage` reads it.
//!
//! Invariants: a value takes at most [`VALUE_BYTES_MAX`] as sent, a group has at most [`LINES_MAX`],
//! and those that apply to a path take about [`LINES_BYTES_MAX`]; no value has a line feed or a tab,
//! which separate lines and fields where they are kept.
//!
//! Sources: contentsignals.org (2025-09-24), lines of a group; draft-ietf-aipref-attach, section
//! "Robots Exclusion Protocol Content-Usage Rule", rules with a path. The drafts differ in whether
//! a path has to be there: without one a rule is for all paths.

use super::{matches, normalised, normalised_pattern, spellings};

/// What a kept line begins with.
pub(super) const MARK: &str = "=\t";
/// Bytes of a value; of a longer one the last preferences are left out.
const VALUE_BYTES_MAX: usize = 1024;
/// Lines of a group. The first count.
const LINES_MAX: usize = 1000;
/// Bytes of the lines that apply to a path: they travel with each of its pages. The first count.
const LINES_BYTES_MAX: usize = 8 << 10;

/// A line on usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsageLine {
    record: &'static str,
    /// Normalised; empty for all paths.
    pattern: String,
    /// How specific the pattern is.
    octets: usize,
    value: String,
}

impl UsageLine {
    pub(super) fn content_signal(value: &[u8]) -> Option<UsageLine> {
        UsageLine::new("content-signal", b"", value)
    }

    pub(super) fn content_usage(value: &[u8]) -> Option<UsageLine> {
        if value.first() != Some(&b'/') {
            return UsageLine::new("content-usage", b"", value);
        }
        let end = value.iter().position(u8::is_ascii_whitespace)?;
        let (path, preference) = value.split_at(end);
        UsageLine::new("content-usage", path, preference.trim_ascii())
    }

    /// None when there is nothing in it.
    fn new(record: &'static str, path: &[u8], value: &[u8]) -> Option<UsageLine> {
        let value = match value.get(..VALUE_BYTES_MAX) {
            Some(start) => &start[..start.iter().rposition(|byte| *byte == b',')?],
            None => value,
        };
        if value.is_empty() {
            return None;
        }
        let (pattern, octets) = normalised_pattern(path);
        let value = String::from_utf8_lossy(value).replace(['\t', '\0'], " ");
        Some(UsageLine {
            record,
            pattern,
            octets,
            value,
        })
    }

    /// Appends the line as it is kept: mark, record, octets, pattern, value.
    pub(super) fn write(&self, to: &mut String) {
        to.push_str(MARK);
        let octets = self.octets.to_string();
        for field in [self.record, &octets, &self.pattern] {
            to.push_str(field);
            to.push('\t');
        }
        to.push_str(&self.value);
        to.push('\n');
    }
}

/// Adds a line to those of a group, each once.
pub(super) fn keep(lines: &mut Vec<UsageLine>, line: &UsageLine) {
    if lines.len() < LINES_MAX && !lines.contains(line) {
        lines.push(line.clone());
    }
}

/// The lines among those kept that apply to a path, as `record: value`.
pub(super) fn lines_for(kept: &str, path_and_query: &str) -> String {
    // They stand behind the rules; most files have none.
    let Some(at) = kept.find(MARK) else {
        return String::new();
    };
    let kept = &kept[at..];
    let paths = spellings(normalised(path_and_query));
    let applies =
        |pattern: &str| pattern.is_empty() || paths.iter().any(|path| matches(pattern, path));
    let lines = kept.lines().filter_map(|line| {
        let mut fields = line.strip_prefix(MARK)?.splitn(4, '\t');
        let record = fields.next()?;
        let octets: usize = fields.next()?.parse().ok()?;
        let pattern = fields.next()?;
        applies(pattern).then(|| (record, octets, fields.next().unwrap_or_default()))
    });
    let lines: Vec<_> = lines.collect();
    let most_specific = lines
        .iter()
        .filter(|(record, ..)| *record == "content-usage")
        .map(|(_, octets, _)| *octets)
        .max();
    let mut out = String::new();
    for (record, octets, value) in lines {
        if record == "content-usage" && Some(octets) != most_specific {
            continue;
        }
        if out.len() + value.len() > LINES_BYTES_MAX {
            break;
        }
        out.extend([record, ": ", value, "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::Robots;

    fn usage(text: &str, path: &str) -> String {
        Robots::parse(text.as_bytes(), "rhumb").usage(path)
    }

    /// The example of draft-ietf-aipref-attach, section "Example" of the rule.
    const DRAFT: &str = "User-Agent: *\nAllow: /\nDisallow: /never/\n\
                         Content-Usage: / train-ai=n\nContent-Usage: /ai-ok/ train-ai=y\n\n\
                         User-Agent: ExampleBot\nAllow: /\nContent-Usage: / train-ai=y\n";

    #[test]
    fn the_most_specific_path_of_content_usage_counts_in_the_group_of_the_agent() {
        assert_eq!(usage(DRAFT, "/test"), "content-usage: train-ai=n\n");
        assert_eq!(usage(DRAFT, "/ai-ok/test"), "content-usage: train-ai=y\n");
        let theirs = Robots::parse(DRAFT.as_bytes(), "ExampleBot");
        assert_eq!(theirs.usage("/test"), "content-usage: train-ai=y\n");
        assert!(theirs.allows("/never/test"));
    }

    #[test]
    fn rules_of_one_path_apply_both_and_patterns_match_as_those_of_rules() {
        let text = "User-agent: *\nContent-Usage: /a train-ai=y\nContent-Usage: /%61 train-ai=n\n\
                    Content-Usage: /*.pdf$ search=n # scans\n";
        assert_eq!(
            usage(text, "/a"),
            "content-usage: train-ai=y\ncontent-usage: train-ai=n\n"
        );
        assert_eq!(usage(text, "/x.pdf"), "content-usage: search=n\n");
        assert_eq!(usage(text, "/x.pdf?y"), "");
    }

    #[test]
    fn a_signal_belongs_to_its_group_and_before_all_groups_to_everybody() {
        let text = "Content-Signal: search=yes\nUser-agent: a\nUser-agent: rhumb\n\
                    Content-Signal: ai-train=no\nDisallow: /x\nUser-agent: *\n\
                    Content-Signal: ai-input=no\n";
        assert_eq!(
            usage(text, "/"),
            "content-signal: search=yes\ncontent-signal: ai-train=no\n"
        );
        let other = Robots::parse(text.as_bytes(), "other");
        assert_eq!(
            other.usage("/"),
            "content-signal: search=yes\ncontent-signal: ai-input=no\n"
        );
        // A group that is addressed to somebody whose name begins like ours is not ours.
        let text = "User-agent: rhumbline\nContent-Signal: ai-train=no\n";
        assert_eq!(usage(text, "/"), "");
    }

    /// draft-ietf-aipref-attach: Content-Usage is a rule of a group, so the next line of an agent
    /// begins another one.
    #[test]
    fn content_usage_ends_the_agents_of_its_group_and_stands_in_no_other() {
        let text = "Content-Usage: /public/ train-ai=y\n\
                    User-agent: rhumb\nContent-Usage: / train-ai=n\n\n\
                    User-agent: *\nContent-Usage: /public/ train-ai=y\nDisallow: /x\n";
        assert_eq!(usage(text, "/public/x"), "content-usage: train-ai=n\n");
        let other = Robots::parse(text.as_bytes(), "other");
        assert_eq!(other.usage("/public/x"), "content-usage: train-ai=y\n");
        // Whom the rules are for is as before: a crawler that does not know the line reads on.
        assert!(!Robots::parse(text.as_bytes(), "rhumb").allows("/x"));
    }

    #[test]
    fn a_signal_between_agent_lines_splits_no_group() {
        let text = "User-agent: rhumb\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /x\n";
        assert!(!Robots::parse(text.as_bytes(), "rhumb").allows("/x"));
        assert_eq!(usage(text, "/"), "content-signal: ai-train=no\n");
    }

    #[test]
    fn lines_on_usage_are_no_rules() {
        let robots = Robots::parse(DRAFT.as_bytes(), "rhumb");
        assert_eq!(robots.rules().collect::<Vec<_>>(), ["-/never/", "+/"]);
        assert!(robots.allows("=") && robots.allows("/") && robots.allows("\t"));
    }

    #[test]
    fn ten_thousand_lines_and_hostile_values_are_bounded() {
        let many: String = (0..10_000)
            .map(|n| format!("Content-Usage: /{n} train-ai=n\n"))
            .collect();
        let text = format!("User-agent: *\n{many}");
        let robots = Robots::parse(text.as_bytes(), "rhumb");
        assert_eq!(robots.usage("/999"), "content-usage: train-ai=n\n");
        assert_eq!(robots.usage("/x"), "");
        assert!(robots.bytes() < 64 << 10);

        let long = format!("User-agent: *\nContent-Signal: {}\n", "a".repeat(8 << 10));
        assert_eq!(usage(&long, "/"), "");
        let long = format!(
            "User-agent: *\nContent-Signal: ai-train=no, {}\n",
            "a".repeat(8 << 10)
        );
        assert_eq!(usage(&long, "/"), "content-signal: ai-train=no\n");
        let many: String = (0..1000)
            .map(|n| format!("Content-Signal: a{n}={}\n", "b".repeat(1000)))
            .collect();
        let lines = usage(&format!("User-agent: *\n{many}"), "/");
        assert_eq!(lines.lines().count(), 8);
        let odd = "User-agent: *\nContent-Signal: \u{fffd}\ta\0=no\nContent-Usage: /only-a-path\n";
        assert_eq!(usage(odd, "/"), "content-signal: \u{fffd} a =no\n");
    }
}
