//! Visits: which known page is visited next, as often as it pays.
//!
//! In: what each visit found ([`Visit`]), and signals of changes. Out: the page that is worth most
//! now ([`Heads::pick`]), the threshold ([`Threshold`]), and a scheduler's share of the budget.
//!
//! A page is worth its importance times the time for which a visit makes its copy current: the
//! value. What is known of its rate of change is a probability for each of twelve rates
//! ([`Posterior`]): the likelihood of its own visits ([`Estimate`]) times the [`Prior`] of all
//! pages. Each request of the budget goes to the page of the largest value. Nothing has a due time.
//! Rows lie by server, class and last visit ([`VisitKey`]); within a [`Class`] the page that was
//! visited longest ago has the largest value, so the heads of the classes are enough to choose
//! from.
//!
//! Invariants: no clock and no chance of its own: times and random numbers are arguments. A value
//! never falls while a page waits, and is at most its importance divided by its rate of change.
//!
//! Sources: Cho and Garcia-Molina 2000 (freshness and its optimum) and 2003 (estimates of rates);
//! Azar, Horvitz, Lubetzky, Peres and Shahaf 2018 (the threshold, and the page of the largest value
//! next); Kolobov, Peres, Lubetzky and Horvitz 2019 and Busa-Fekete and others 2025 (signals).

mod census;
mod class;
mod dates;
mod estimate;
mod evidence;
mod heads;
mod hub;
mod interval;
mod key;
mod known_page;
mod posterior;
mod prior;
mod rates;
mod renewal;
mod share;
mod signal_trust;
mod signalled;
mod signals;
mod threshold;
mod visit;

pub use census::Census;
pub use class::Class;
pub use dates::{DateTrust, Dated, Dates};
pub use estimate::Estimate;
pub use evidence::Evidence;
pub use heads::{Heads, Pick};
pub use hub::Hub;
pub use interval::Interval;
pub use key::VisitKey;
pub use known_page::{KnownPage, Rule};
pub use posterior::Posterior;
pub use prior::Prior;
pub use rates::{RATES, Rates};
pub use renewal::Renewal;
pub use share::{Stake, nearer, shares};
pub use signal_trust::{Heeded, SignalTrust};
pub use signalled::{OfKind, Signalled};
pub use signals::Signals;
pub use threshold::Threshold;
pub use visit::Visit;
