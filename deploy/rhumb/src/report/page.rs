//! A report as one HTML page that needs nothing else: no script, no font, no picture from
//! elsewhere.
//!
//! In: the model. Out: the page. Invariants: all text that is not ours is escaped and shown as
//! text; a policy in the page forbids whatever is not its one style sheet; nothing that comes from
//! the web is a link.

use super::curves::curve;
use super::model::{Report, State};
use super::tables::{Row, foreign, own, table};
use super::words::{self, bytes, number, share, span};
use crate::status::walls_text;
use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rhumb_stage::report::{DEPTHS, OTHER_STATUS};
use rhumb_stage::{HostTold, Slot};
use sha2::{Digest as _, Sha256};
use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

const STYLE: &str = include_str!("page.css");
/// Rows of the table beside the curves, at most.
const TIMES_MAX: usize = 24;
/// Slots that are shown, at most; what is beyond is empty.
const SLOTS_SHOWN_MAX: usize = 1000;
/// Topics and keys of the configuration that are shown, at most.
const SHOWN_MAX: usize = 100;

/// The sections: their anchors, headings and contents.
type Section = (&'static str, &'static str, fn(&Report) -> Markup);
const SECTIONS: [Section; 11] = [
    ("outcomes", "Outcomes", outcomes),
    ("visits", "Visits of known pages", visits),
    ("speed", "Speed", speed),
    ("hosts", "Hosts", hosts),
    ("servers", "Slow and troubled servers", servers),
    ("depth", "Depth", depth),
    ("pages", "Size and time", sizes_and_times),
    ("types", "Media types and languages", media_types),
    ("filtered", "Filtered", filtered),
    ("topics", "Topics", topics),
    ("configuration", "Configuration", configuration),
];

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let hash = BASE64.encode(&Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    let title = format!("Crawl {}", words::foreign(&report.crawl));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p.soft { (state(report)) }
                }
                nav aria-label="Sections" {
                    ul { @for (anchor, heading, _) in SECTIONS { li { a href={ "#" (anchor) } { (heading) } } } }
                }
                main {
                    (summary(report))
                    @for (anchor, heading, content) in SECTIONS {
                        section aria-labelledby=(anchor) {
                            h2 id=(anchor) { (heading) }
                            (content(report))
                        }
                    }
                }
                footer { p { "Made by rhumb " (report.program) ", " (moment(report.at_s)) "." } }
            }
        }
    };
    page.into_string()
}

/// A point of time, in UTC.
fn moment(at_s: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at_s));
    at.map_or_else(String::new, |at| {
        humantime::format_rfc3339_seconds(at)
            .to_string()
            .replace('T', " ")
    })
}

fn state(report: &Report) -> String {
    let began = moment(report.at_s.saturating_sub(report.elapsed_s as u64));
    let elapsed = span(report.elapsed_s);
    let this_run = match report.state {
        State::Complete => format!("Complete. This run began {began} and took {elapsed}."),
        State::Stopped => format!("Stopped. This run began {began} and took {elapsed}."),
        State::Running => format!("Running since {began}, for {elapsed}."),
    };
    match report.ran_s > report.elapsed_s + 1.0 {
        true => format!(
            "{this_run} With earlier runs the crawl has run for {}.",
            span(report.ran_s)
        ),
        false => this_run,
    }
}

fn summary(report: &Report) -> Markup {
    let urls = &report.urls;
    let ended: u64 = report.outcomes.values().sum();
    let mut tiles = vec![
        ("Pages", number(report.pages)),
        ("Bytes of pages", bytes(report.bytes)),
        (
            "Pages a second",
            if report.ran_s > 0.0 {
                words::decimal(report.pages as f64 / report.ran_s)
            } else {
                "–".into()
            },
        ),
        ("URLs found", number(urls.found)),
        ("of them filtered", number(urls.filtered)),
        ("of them repeated", number(urls.repeated)),
        ("of them new", number(urls.new)),
        ("New URLs that ended", number(ended)),
        ("Waiting", number(urls.waiting)),
        ("In flight", number(urls.in_flight)),
    ];
    let more = [
        ("Waiting for a larger budget", urls.waiting_over_budget),
        ("Kept back in traps", urls.waiting_trapped),
        ("Lost, and accepted as lost", urls.lost),
        ("Requests made again", report.refetched),
        ("Processes started again", report.restarts),
        ("Dead letters", report.dead),
    ];
    tiles.extend(
        more.into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| (name, number(n))),
    );
    html! {
        section aria-label="Summary" {
            dl.tiles { @for (name, value) in tiles { div { dt { (name) } dd { (value) } } } }
            @if !report.missing.is_empty() {
                div.missing {
                    p { b { "What is missing in this report" } }
                    ul { @for what in &report.missing { li { (words::foreign(what)) } } }
                }
            }
        }
    }
}

fn outcomes(report: &Report) -> Markup {
    let ended: u64 = report.outcomes.values().sum();
    let mut had: Vec<_> = report.outcomes.iter().filter(|(_, n)| **n > 0).collect();
    had.sort_by_key(|(_, n)| Reverse(**n));
    let totals: Vec<Row> = had
        .into_iter()
        .map(|(outcome, n)| Row::counted(foreign(outcome, "?"), *n, ended))
        .collect();
    let mut reasons: Vec<(&str, &str, u64)> = Vec::new();
    for (outcome, of) in &report.ended.ends {
        reasons.extend(
            of.iter()
                .filter(|(why, _)| !why.is_empty())
                .map(|(why, n)| (outcome.as_str(), why.as_str(), *n)),
        );
    }
    reasons.sort_by_key(|(.., n)| Reverse(*n));
    let counted = report.ended.counted();
    let reasons: Vec<Row> = reasons
        .into_iter()
        .map(|(outcome, why, n)| {
            Row::counted(
                html! { (foreign(outcome, "?")) ": " (foreign(why, "no reason")) },
                n,
                counted,
            )
        })
        .collect();
    let with_status: u64 = report.ended.statuses.values().sum();
    let status = |(status, n): (&u16, &u64)| {
        let name = if *status == OTHER_STATUS {
            own("others")
        } else {
            own(&status.to_string())
        };
        Row::counted(name, *n, with_status)
    };
    let statuses: Vec<Row> = report.ended.statuses.iter().map(status).collect();
    html! {
        (table("How new URLs ended", &["Outcome", "URLs", "Share"], &totals))
        @if let Some(walls) = walls_text(report.walls, report.pages) {
            p.soft { "Refused by challenges in the place of pages: " (walls) "." }
        }
        (table("Why, where a reason is known", &["Outcome and reason", "URLs", "Share"], &reasons))
        (table("HTTP status of the last response", &["Status", "URLs", "Share"], &statuses))
    }
}

fn visits(report: &Report) -> Markup {
    let recrawl = report.recrawl.clone().unwrap_or_default();
    let ended: u64 = recrawl.visits.values().sum();
    let mut found: Vec<_> = recrawl.visits.iter().filter(|(_, n)| **n > 0).collect();
    found.sort_by_key(|(_, n)| Reverse(**n));
    let rows: Vec<Row> = found
        .into_iter()
        .map(|(change, n)| Row::counted(foreign(change, "?"), *n, ended))
        .collect();
    html! {
        @if recrawl.known == 0 { p.none { "No page is visited again." } } @else {
            p.soft {
                (number(recrawl.known)) " pages are known, " (number(recrawl.planned))
                " visits were planned, " (number(recrawl.withdrawn)) " of them withdrawn."
                @if let Some(copies) = recrawl.copies { " Copies: " (copies) "." }
            }
            (table("What visits after the first found", &["Change", "Visits", "Share"], &rows))
        }
    }
}

/// What ended in a second of each slot, by the time that the slot covers. The last one has not
/// lasted as long as the others: before it is half as long, it says little by itself, and has one
/// rate with the slot before.
fn rates(slots: &[Slot], slot_s: u64, ran_s: f64, of: fn(&Slot) -> u64) -> Vec<f64> {
    let length = slot_s as f64;
    let mut rates: Vec<f64> = slots.iter().map(|slot| of(slot) as f64 / length).collect();
    let Some((last, over)) = slots.split_last() else {
        return rates;
    };
    let lasted = (ran_s - length * over.len() as f64).clamp(0.0, length);
    let at = over.len();
    match over.last() {
        Some(before) if lasted < length / 2.0 => {
            let rate = (of(before) + of(last)) as f64 / (length + lasted);
            rates[at - 1..].fill(rate);
        }
        _ => rates[at] = of(last) as f64 / lasted.max(1.0),
    }
    rates
}

/// All slots of the time that the crawl has run: behind the last one that is told nothing ended.
fn slots(report: &Report) -> Vec<Slot> {
    let length = report.ended.pace.slot_s() as f64;
    let mut slots = report.ended.pace.slots.clone();
    let all = (report.ran_s / length).ceil() as usize;
    slots.resize(
        all.clamp(slots.len(), slots.len().max(SLOTS_SHOWN_MAX)),
        Slot::default(),
    );
    slots
}

fn speed(report: &Report) -> Markup {
    let slots = &slots(report);
    let rates = |of| rates(slots, report.ended.pace.slot_s(), report.ran_s, of);
    let pages = rates(|slot| slot.pages);
    let sizes = rates(|slot| slot.bytes);
    let others = rates(|slot| slot.others);
    let until = span(report.ran_s);
    let step = slots.len().div_ceil(TIMES_MAX).max(1);
    let rows = slots.chunks(step).enumerate().map(|(at, chunk)| {
        let mut sum = Slot::default();
        chunk.iter().for_each(|slot| sum.add(*slot));
        let from = span((report.ended.pace.slot_s() * (at * step) as u64) as f64);
        let cells = vec![number(sum.pages), bytes(sum.bytes), number(sum.others)];
        Row {
            name: own(&from),
            cells,
            bar: Some(sum.pages),
        }
    });
    let rows: Vec<Row> = rows.collect();
    html! {
        p.soft {
            "By the time that the crawl has run, in slots of " (span(report.ended.pace.slot_s() as f64))
            ". While it is stopped no time passes here."
        }
        h3 { "Pages a second" }
        (curve(&pages, "Pages a second over the time that the crawl has run; the table below has the numbers", words::decimal, &until))
        h3 { "Bytes a second" }
        (curve(&sizes, "Bytes a second over the time that the crawl has run; the table below has the numbers", |n| bytes(n as u64), &until))
        h3 { "URLs a second that ended otherwise" }
        (curve(&others, "URLs a second that ended otherwise; the table below has the numbers", words::decimal, &until))
        (table("The same as numbers", &["From", "Pages", "Bytes", "Other ends"], &rows))
    }
}

fn hosts(report: &Report) -> Markup {
    let rows = |hosts: &[HostTold], of: fn(&HostTold) -> u64| -> Vec<Row> {
        let row = |host: &HostTold| Row {
            name: foreign(&host.host, "not known"),
            cells: vec![number(host.pages), bytes(host.bytes), number(host.errors)],
            bar: Some(of(host)),
        };
        hosts.iter().map(row).collect()
    };
    let heads = ["Host", "Pages", "Bytes", "Errors"];
    let leaders = &report.leaders;
    html! {
        p.soft { "An error is a URL that ended as failed or refused." }
        (table("Hosts with most pages", &heads, &rows(&leaders.by_pages, |host| host.pages)))
        (table("Hosts with most bytes", &heads, &rows(&leaders.by_bytes, |host| host.bytes)))
        (table("Hosts with most errors", &heads, &rows(&leaders.by_errors, |host| host.errors)))
    }
}

fn servers(report: &Report) -> Markup {
    let ms = |us: u32| format!("{} ms", number(u64::from(us) / 1000));
    let slowest: Vec<Row> = report
        .leaders
        .slowest
        .iter()
        .map(|server| Row {
            name: foreign(&server.server, "?"),
            cells: vec![ms(server.response_us)],
            bar: Some(server.response_us.into()),
        })
        .collect();
    let troubled: Vec<Row> = report
        .leaders
        .troubled
        .iter()
        .map(|server| Row {
            name: foreign(&server.server, "?"),
            cells: vec![number(server.failures.into()), ms(server.response_us)],
            bar: None,
        })
        .collect();
    html! {
        (table("Slowest servers, by the smoothed time of a request", &["Server", "Time"], &slowest))
        (table("Servers that failed last, by failures in a row", &["Server", "Failures", "Time before"], &troubled))
    }
}

fn depth(report: &Report) -> Markup {
    let all: u64 = report.ended.depths.iter().sum();
    let name = |at: usize| {
        own(&if at == DEPTHS {
            format!("{DEPTHS} or more")
        } else {
            at.to_string()
        })
    };
    let rows: Vec<Row> = report
        .ended
        .depths
        .iter()
        .enumerate()
        .map(|(at, n)| Row::counted(name(at), *n, all))
        .collect();
    html! { (table("URLs that ended, by the links between a seed and them", &["Depth", "URLs", "Share"], &rows)) }
}

/// The rows of a histogram, from the first place with anything to the last.
fn histogram(places: &[u64], name: impl Fn(usize) -> String) -> Vec<Row> {
    let all: u64 = places.iter().sum();
    let empty = places.iter().take_while(|n| **n == 0).count();
    places
        .iter()
        .enumerate()
        .skip(empty)
        .map(|(at, n)| Row::counted(own(&name(at)), *n, all))
        .collect()
}

fn sizes_and_times(report: &Report) -> Markup {
    let size = |at: usize| match (at, at / 10) {
        (0, _) => "empty".to_owned(),
        (_, 0) => format!("below {} B", 1 << at),
        (_, 1) => format!("below {} KiB", 1 << (at - 10)),
        (_, 2) => format!("below {} MiB", 1 << (at - 20)),
        (_, _) => format!("below {} GiB", number(1 << (at - 30).min(60))),
    };
    let time = |at: usize| format!("below {} ms", number(1 << at.min(60)));
    let ended = &report.ended;
    html! {
        (table("Pages by the size of their bodies", &["Size", "Pages", "Share"], &histogram(&ended.sizes, size)))
        p { (number(ended.truncated)) " bodies were cut, " (share(ended.truncated, report.pages)) " of all pages." }
        (table("Pages by the time of their request", &["Time", "Pages", "Share"], &histogram(&ended.times, time)))
    }
}

fn media_types(report: &Report) -> Markup {
    let all: u64 = report.ended.media_types.values().sum();
    let mut types: Vec<(&String, &u64)> = report.ended.media_types.iter().collect();
    types.sort_by_key(|(_, n)| Reverse(**n));
    let rows: Vec<Row> = types
        .into_iter()
        .map(|(name, n)| Row::counted(foreign(name, "none was given"), *n, all))
        .collect();
    html! {
        (table("Pages by media type, as servers give it", &["Media type", "Pages", "Share"], &rows))
        p.soft {
            "Languages are not counted: only who parses a page knows its language. An archiver \
             writes it into crawl.jsonl, for each "
            "document."
        }
    }
}

fn filtered(report: &Report) -> Markup {
    let means = |reason: &str| match reason {
        "scope" => "the host is not followed",
        "depth" => "deeper than scope.max_depth",
        "redirects" => "more redirects in a row than limits.redirects",
        "form" => "too long, or not of the form of a URL",
        "pattern" => "scope.prefixes, scope.accept or scope.reject",
        "segments" => "a segment repeats in the path: a trap",
        "parameters" => "more than limits.query_parameters",
        _ => "",
    };
    let rows: Vec<Row> = report
        .filtered
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(reason, n)| {
            let name = html! { (foreign(reason, "?")) " " span.soft { (means(reason)) } };
            Row::counted(name, *n, report.urls.filtered)
        })
        .collect();
    html! { (table("URLs that were found and not followed", &["Reason", "URLs", "Share"], &rows)) }
}

fn topics(report: &Report) -> Markup {
    let mut topics: Vec<_> = report.topics.iter().collect();
    topics.sort_by_key(|(_, has)| Reverse(has.fetched));
    let left = topics.len().saturating_sub(SHOWN_MAX);
    let rows: Vec<Row> = topics
        .into_iter()
        .take(SHOWN_MAX)
        .map(|(name, has)| Row {
            name: foreign(name, "?"),
            cells: vec![
                number(has.new),
                number(has.waiting),
                number(has.fetched),
                bytes(has.bytes),
                span(has.connection_s as f64),
            ],
            bar: Some(has.fetched),
        })
        .collect();
    html! {
        @if rows.is_empty() { p.none { "No topic is configured." } } @else {
            (table("What each topic has", &["Topic", "New", "Waiting", "Pages", "Bytes", "Connections"], &rows))
        }
        @if left > 0 { p.soft { "And " (number(left as u64)) " more." } }
    }
}

fn configuration(report: &Report) -> Markup {
    let left = report.configuration.len().saturating_sub(SHOWN_MAX);
    html! {
        p.soft { "What differs from the shipped configuration. What may be secret and places on a \
                  machine are left out." }
        @if report.configuration.is_empty() { p.none { "Nothing that may be shown." } } @else {
            div.scrolls.wide role="region" tabindex="0" aria-label="Configuration" {
                table {
                    thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "Shipped" } } }
                    tbody {
                        @for of in report.configuration.iter().take(SHOWN_MAX) {
                            tr {
                                th scope="row" { (foreign(&of.key, "?")) }
                                td { (foreign(&of.value.to_string(), "")) }
                                td { (foreign(&of.default.to_string(), "")) }
                            }
                        }
                    }
                }
            }
        }
        @if left > 0 { p.soft { "And " (number(left as u64)) " more keys." } }
    }
}

#[cfg(test)]
mod tests;
