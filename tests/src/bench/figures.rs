//! Figures: the numbers by which the cost of a page is judged, on three webs, by one command.
//!
//! In: how many rounds. Out: each figure's median and quarters. All ratios are those of pairs in
//! turn; where wget2 cannot run, its figures are missing, and it is said why.

use super::turns::{Contender, Round, Spread, Web, What, take_turns};
use serde::Serialize;

const ALL: &str = "all";

/// One number.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// What it tells.
    pub of: &'static str,
    /// How it lies.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Measures all of them; `set`: keys of every crawl's configuration.
///
/// # Errors
/// A contender cannot be run, or misses pages.
pub fn measure(rounds: usize, set: &[String]) -> anyhow::Result<Vec<Figure>> {
    let take = |web: Web, request_cap, contenders: &[Contender]| {
        eprintln!("the {} web", web.name());
        take_turns(
            contenders,
            &web.profile(None, None, request_cap),
            set,
            rounds,
        )
    };
    let with_wget2 = |web: Web, contenders: &mut Vec<Contender>| match Contender::wget2(web) {
        Ok(wget2) => contenders.push(wget2),
        Err(why) => eprintln!("wget2 takes no turn: {why:#}"),
    };
    let mut figures = Figures::default();

    let mut contenders = vec![Contender::this(), Contender::KnownUrls];
    with_wget2(Web::Raw, &mut contenders);
    let raw = take(Web::Raw, None, &contenders)?;
    if let [this, yardstick, rest @ ..] = &raw[..] {
        for wget2 in rest {
            figures.ratio(
                "CPU time per page to wget2's, raw web",
                What::CpuMs,
                (this, ALL),
                (wget2, ALL),
            );
        }
        figures.ratio(
            "CPU time per page to the yardstick's, raw web",
            What::CpuMs,
            (this, ALL),
            (yardstick, ALL),
        );
        figures.ratio(
            "the broker's CPU time per page to all of the yardstick's, raw web",
            What::CpuMs,
            (this, "broker"),
            (yardstick, ALL),
        );
        figures.number(
            "MB of memory of all processes at their peaks, raw web",
            What::PeakMb,
            this,
        );
        figures.number(
            "messages to the broker and from it per page, raw web",
            What::BrokerMessages,
            this,
        );
    }

    let mut contenders = vec![Contender::this()];
    with_wget2(Web::Wide, &mut contenders);
    if let [this, wget2] = &take(Web::Wide, None, &contenders)?[..] {
        figures.ratio(
            "pages a second to wget2's, wide web",
            What::PagesPerS,
            (this, ALL),
            (wget2, ALL),
        );
    }

    if let [this] = &take(Web::Modern, None, &[Contender::this()])?[..] {
        figures.number(
            "CPU ms per page, modern web, 10 requests a connection",
            What::CpuMs,
            this,
        );
    }
    let full = Contender::this_with(&["stages.fetcher.tls_sessions=0".to_owned()]);
    if let [resumed, full] = &take(Web::Modern, Some(1), &[Contender::this(), full])?[..] {
        let of =
            "CPU time per page to that with full handshakes, modern web, 1 request a connection";
        figures.ratio(of, What::CpuMs, (resumed, ALL), (full, ALL));
        let of = "the fetcher's CPU time per page to that with full handshakes, the same web";
        figures.ratio(of, What::CpuMs, (resumed, "fetcher"), (full, "fetcher"));
    }
    Ok(figures.all)
}

#[derive(Default)]
struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    fn ratio(
        &mut self,
        of: &'static str,
        what: What,
        one: (&[Round], &str),
        another: (&[Round], &str),
    ) {
        self.all
            .extend(Spread::of_ratios(what, one, another).map(|spread| Figure { of, spread }));
    }

    fn number(&mut self, of: &'static str, what: What, rounds: &[Round]) {
        self.all
            .extend(Spread::of_numbers(what, rounds).map(|spread| Figure { of, spread }));
    }
}
