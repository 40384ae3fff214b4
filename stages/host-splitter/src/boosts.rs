//! Boosts: what links are worth to URLs that were found before. They are added up by URL until they
//! matter, and then go to the scheduler of the URL's partition.
//!
//! In: every link that passes the filters. Out: [`Boosts`](Message) messages.
//!
//! The first link of a URL goes on with the URL itself. What later links bring is sent when it has
//! reached [`MATTERS`] of what went before, so that a URL with many links is lifted as often as its
//! value grows by half, not with each link.
//!
//! Invariants: memory is bounded; of the links that came, a URL is given no more than they were
//! worth. It is given less where it was forgotten meanwhile, or its first link came to another
//! instance, and more where a message came twice or a page is crawled again: nothing depends on it
//! but the order.
//!
//! Sources: Abiteboul, Preda and Cobena 2003 (OPIC); Cho, Garcia-Molina and Page 1998 (backlinks).

use crate::effect::Effect;
use crate::worths::LinkWorth;
use rhumb_stage::Output;
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Boost, Boosts as Message, Quality};
use rhumb_wire::topology::Token;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A sum is sent when it is this large beside what was sent before.
const MATTERS: f32 = 0.5;
/// The sum of a URL that gives way is sent when it is this large beside it.
const MATTERS_AT_LAST: f32 = 0.25;
/// So many links from one registered domain count in full. Each further one counts the less, the
/// more came before it; those behind the 255th count nothing.
const UNDAMPED: f32 = 32.0;
/// URLs of one bucket: the one that was met longest ago gives way.
const WAYS: usize = 4;
/// Boosts of one message. More of a partition within [`LINGER`] are dropped: schedulers have other
/// work.
const BATCH: usize = 100;
/// How long a boost waits for others. Boosts that come a twentieth of a crawl later bring a fifth
/// less (docs/laboratory.md).
const LINGER: Duration = Duration::from_millis(50);

/// What is known of a URL. All bits 0: nothing.
type Row = [u64; 4];
/// In the place of sources: links are worth cash.
const CASH: u64 = u64::MAX;
/// In the place of what was sent: the page was fetched. No sum matters beside it.
const FETCHED: f32 = f32::INFINITY;

/// A bucket, in it the row of the last link first.
type Bucket = [Row; WAYS];
/// Buckets at first. There are twice as many when half of their rows are taken.
const BUCKETS_AT_FIRST: usize = 1 << 12;

/// A row, unpacked.
#[derive(Clone, Copy, Default)]
struct Known {
    url: u64,
    host: u64,
    /// What went on with the URL, and in boosts; [`FETCHED`] when it is too late for more.
    sent: f32,
    /// What came since.
    sum: f32,
    /// Where links came from; none where they are worth cash.
    sources: Option<Sources>,
}

impl Known {
    fn of([url, host, values, sources]: Row) -> Self {
        let [sent, sum] = [(values >> 32) as u32, values as u32].map(f32::from_bits);
        Known {
            url,
            host,
            sent,
            sum,
            sources: (sources != CASH).then_some(Sources(sources)),
        }
    }

    fn row(self) -> Row {
        let values = u64::from(self.sent.to_bits()) << 32 | u64::from(self.sum.to_bits());
        [
            self.url,
            self.host,
            values,
            self.sources.map_or(CASH, |sources| sources.0),
        ]
    }

    /// What is to be sent, if it is this large beside what was sent. It counts as sent.
    fn take(&mut self, least: f32) -> Option<Boost> {
        let matters = self.sum > 0.0 && self.sum >= least * self.sent;
        matters.then(|| {
            let worth = Quality::new(std::mem::take(&mut self.sum)).unwrap_or_default();
            self.sent += worth.get();
            Boost {
                host: self.host,
                url: self.url,
                worth,
                is_cash: self.sources.is_none(),
            }
        })
    }
}

/// Four domains that linked, each by 8 bits of its hash and with the number of its links, up to
/// 255: the last one in the lowest bits (Space-Saving: Metwally, Agrawal and El Abbadi 2005).
#[derive(Clone, Copy, Default)]
struct Sources(u64);

impl Sources {
    /// A link from a domain. Gives how many came before from there.
    fn add(&mut self, domain: u64) -> u8 {
        let hash = domain as u8;
        let all = self.0.to_le_bytes();
        let places = all.chunks_exact(2).map(|place| (place[0], place[1]));
        let met = places
            .clone()
            .position(|(of, links)| of == hash && links > 0);
        // A new one takes the place of the one with fewest links, and its number: several in turn
        // count as one.
        let place = met.or_else(|| {
            (0..)
                .zip(places.clone())
                .min_by_key(|(_, (_, links))| *links)
                .map(|(at, _)| at)
        });
        let before = place
            .and_then(|at| places.clone().nth(at))
            .map_or(0, |(_, links)| links);
        let others = places
            .enumerate()
            .filter(|(at, _)| Some(*at) != place)
            .map(|(_, of)| of);
        let mut next = [0; 8];
        let first = std::iter::once((hash, before.saturating_add(1)));
        for (to, (of, links)) in next.chunks_exact_mut(2).zip(first.chain(others)) {
            to.copy_from_slice(&[of, links]);
        }
        self.0 = u64::from_le_bytes(next);
        before
    }
}

/// The bucket of a URL: the upper half of a product, so that every bucket is as likely.
fn bucket_of(url: u64, buckets: usize) -> usize {
    ((u128::from(url) * buckets as u128) >> 64) as usize
}

/// What is left of the worth of a link before which so many came from its domain.
fn damping(before: u8) -> f32 {
    if before == u8::MAX {
        0.0
    } else {
        (UNDAMPED / (f32::from(before) + 1.0)).min(1.0)
    }
}

/// A URL that a link leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Its fingerprint.
    pub(crate) url: u64,
    /// The hash of its host.
    pub(crate) host: u64,
    /// It was found before, and this link of it goes no further.
    pub(crate) is_repeated: bool,
}

/// The boosts that are added up, and those that wait for others.
pub(crate) struct Boosts {
    /// Empty while nothing is added up.
    buckets: Vec<Bucket>,
    buckets_max: usize,
    /// Rows that are taken.
    urls: usize,
    /// Boosts that wait, with when they are due, by partition.
    waiting: BTreeMap<u16, (Timestamp, Vec<Boost>)>,
    /// When they are due, in order; an entry whose boosts have left means nothing.
    due: VecDeque<(Timestamp, u16)>,
    sent: u64,
    dropped: u64,
}

impl Boosts {
    /// Takes so many bytes at most, and none before the first link.
    pub(crate) fn new(bytes_max: u64) -> Self {
        // Half as many are held beside them while they become twice as many.
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX) / size_of::<Bucket>() * 2 / 3;
        let buckets_max = (0..)
            .map(|times| BUCKETS_AT_FIRST << times)
            .take_while(|buckets| *buckets <= most)
            .last();
        let buckets_max = buckets_max.unwrap_or(1);
        Boosts {
            buckets: Vec::new(),
            buckets_max,
            urls: 0,
            waiting: BTreeMap::new(),
            due: VecDeque::new(),
            sent: 0,
            dropped: 0,
        }
    }

    /// Nothing is to be added up any more.
    pub(crate) fn forget(&mut self) {
        (self.buckets, self.urls) = (Vec::new(), 0);
    }

    /// Makes room for more URLs.
    fn grow(&mut self) {
        let buckets = (2 * self.buckets.len())
            .max(BUCKETS_AT_FIRST)
            .min(self.buckets_max);
        let before = std::mem::replace(&mut self.buckets, vec![[[0; 4]; WAYS]; buckets]);
        for row in before
            .iter()
            .flat_map(|bucket| bucket.iter().rev())
            .filter(|row| **row != [0; 4])
        {
            let bucket = &mut self.buckets[bucket_of(row[0], buckets)];
            // Those of two buckets are never in one.
            bucket.copy_within(..WAYS - 1, 1);
            bucket[0] = *row;
        }
    }

    /// A link was found. `partition_of`: that of a hash.
    pub(crate) fn add(
        &mut self,
        now: Timestamp,
        link: LinkWorth,
        target: Target,
        partition_of: impl Fn(u64) -> u16,
    ) {
        if self.urls >= self.buckets.len() * WAYS / 2 && self.buckets.len() < self.buckets_max {
            self.grow();
        }
        let at = bucket_of(target.url, self.buckets.len());
        let bucket = &mut self.buckets[at];
        let met = bucket.iter().position(|row| row[0] == target.url);
        let place = met.unwrap_or(WAYS - 1);
        self.urls += usize::from(bucket[place] == [0; 4]);
        let mut given_way = if met.is_none() {
            Known::of(bucket[place])
        } else {
            Known::default()
        };
        let mut known = met.map_or(Known::default(), |met| Known::of(bucket[met]));
        if known.sent == FETCHED {
            bucket[..=place].rotate_right(1);
            return;
        }
        if met.is_none() {
            known.sources = link.damped_for.map(|_| Sources::default());
        }
        let worth = match (link.damped_for, &mut known.sources) {
            (Some(domain), Some(sources)) => link.worth.get() * damping(sources.add(domain)),
            (None, None) => link.worth.get(),
            // Topics that value links otherwise have no say about each other's URLs.
            _ => return,
        };
        if met.is_some() {
            known.sum += worth;
        } else if target.is_repeated {
            // It was met before and forgotten. Nobody knows how much of it went on: more than this.
            let sent = 2.0 * worth / MATTERS;
            known = Known {
                url: target.url,
                host: target.host,
                sent,
                sum: worth,
                ..known
            };
        } else {
            known = Known {
                url: target.url,
                host: target.host,
                sent: worth,
                ..known
            };
        }
        let boosts = [known.take(MATTERS), given_way.take(MATTERS_AT_LAST)];
        bucket.copy_within(..place, 1);
        bucket[0] = known.row();
        for boost in boosts.into_iter().flatten() {
            self.wait(now, partition_of(boost.host), boost);
        }
    }

    /// A page was fetched: what links to it are worth matters no more.
    pub(crate) fn fetched(&mut self, url: &str) {
        self.set_sent(url, FETCHED);
    }

    /// A URL that was found before is to be fetched again: all links to it count as new ones.
    pub(crate) fn waits_again(&mut self, url: &str) {
        self.set_sent(url, 0.0);
    }

    /// What counts as sent of a URL that is known.
    fn set_sent(&mut self, url: &str, sent: f32) {
        if self.buckets.is_empty() {
            return;
        }
        let url = fingerprint(url);
        let at = bucket_of(url, self.buckets.len());
        if let Some(row) = self.buckets[at].iter_mut().find(|row| row[0] == url) {
            *row = Known {
                sent,
                sum: 0.0,
                ..Known::of(*row)
            }
            .row();
        }
    }

    fn wait(&mut self, now: Timestamp, partition: u16, boost: Boost) {
        let due = &mut self.due;
        let (_, boosts) = self.waiting.entry(partition).or_insert_with(|| {
            due.push_back((now + LINGER, partition));
            (now + LINGER, Vec::new())
        });
        match boosts.len() < BATCH {
            true => boosts.push(boost),
            false => self.dropped += 1,
        }
    }

    fn flush(&mut self, partition: u16, out: &mut Output<Effect>) {
        if let Some((_, boosts)) = self.waiting.remove(&partition) {
            self.sent += boosts.len() as u64;
            out.send(Token::Partition(partition), &Message { partition, boosts });
        }
    }

    /// Sends what has waited long enough; everything when the process ends.
    pub(crate) fn flush_due(&mut self, now: Timestamp, draining: bool, out: &mut Output<Effect>) {
        while let Some(&(due, partition)) =
            self.due.front().filter(|(due, _)| *due <= now || draining)
        {
            self.due.pop_front();
            if self
                .waiting
                .get(&partition)
                .is_some_and(|(of, _)| *of == due)
            {
                self.flush(partition, out);
            }
        }
    }

    /// When to send next.
    pub(crate) fn flush_at(&self) -> Option<Timestamp> {
        self.due.front().map(|&(due, _)| due)
    }

    /// Boosts that were too many, in this life.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Boosts sent in this life.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}
