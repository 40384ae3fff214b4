//! Shapes of a server's URLs: a part of a site that brings only itself falls behind, and one that
//! repeats itself for very long is a trap.
//!
//! In: new URLs with where they were found, pages, and sketches of their texts. Out: the lane of a
//! shape's URLs.
//!
//! Shapes feed each other: the months of a calendar lead to its days, and those to months. So what
//! is judged is a *closed* set of shapes: one with all shapes on whose pages a good part of its own
//! URLs were found. It brings only itself when next to nothing is found on its pages but its own
//! URLs, and next to none of these are found elsewhere. Only what is new counts: links to URLs that
//! are known do not come here.
//!
//! Invariant: what is known of a server is bounded, in memory and in its record.
//!
//! Sources: Heydon and Najork 1999, section 5 (crawler traps); Charikar 2002, and Manku, Jain and
//! Das Sarma 2007 (SimHash); Metwally, Agrawal and El Abbadi 2005 (Space-Saving, for where URLs are
//! found).

use crate::keys::slot::Lane;
use crate::store::codec::{Reader, Writer};
use rhumb_url::sketch::{ONE_PAGE_OF, is_near};
use std::collections::VecDeque;
use std::fmt;

/// Shapes of a server that are known at once.
const SHAPES_MAX: usize = 16;
/// Shapes on whose pages URLs of a shape are found, as far as they are told apart.
const SOURCES: usize = 4;
/// A shape is judged each time that so many new URLs of it were found.
const JUDGED_EVERY: u32 = 64;
/// Its counts are halved when so many were found, …
const REMEMBERED: u32 = 256;
/// … and those of all shapes when so many of any were: what was busy once gives way in the end.
const ALL_REMEMBERED: u32 = 4096;
/// A shape belongs to a closed set when one of so many URLs of a member was found on its pages. At
/// most one of so many may come from elsewhere, or lead elsewhere, for a set to fall behind, …
const ALONE: u32 = 50;
/// … and one of so many brings it back.
const IN_COMPANY: u32 = 10;
/// Sketches of a shape that are kept, each unlike the others.
const SKETCHES: usize = 16;
/// Bodies by which a shape is judged, at most: its last ones that were sketched.
const BODIES: u32 = 1000;
/// Where `limits.shape_pages` is small it is judged by as many as are sketched of so many pages,
/// and by so many at least.
const BODIES_MIN: u32 = 20;
/// New URLs in a row that were found on pages of the set, for a trap.
const ALONE_FOR: u32 = 256;
/// Bytes of a shape that are kept for people.
const NAME_BYTES_MAX: usize = 200;

/// The shapes of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    known: Vec<Shape>,
    /// URLs found since all grew old; a record does not say.
    found: u32,
}

/// Where a new URL of a server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// On a page of the server with this shape.
    Shape(u64),
    /// Elsewhere, or it is a seed.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    hash: u64,
    lane: Lane,
    /// For people; empty while it is ahead.
    name: Box<str>,
    /// New URLs of it.
    found: u32,
    /// Those among them that came since it was judged last.
    found_since: u32,
    /// How many of them were found on the pages of which shapes; the others came from elsewhere.
    from: [(u64, u32); SOURCES],
    /// New URLs on its pages whose shapes are not known here, or not any more.
    others: u32,
    /// New URLs of it since one was found elsewhere.
    alone_for: u32,
    /// Pages of it that were fetched.
    pages: u64,
    bodies: Option<Box<Bodies>>,
}

/// The last bodies of a shape that is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bodies {
    kept: VecDeque<u64>,
    heard: u32,
    repeats: u32,
}

/// What is told of a shape that is behind, or a trap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict<'a> {
    /// The shape.
    pub(crate) shape: &'a str,
    pub(crate) lane: Lane,
    /// Pages of it that were fetched.
    pub(crate) pages: u64,
    /// So many of its last bodies, in a thousand, were much like one before.
    pub(crate) repeats_permille: u32,
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            shape,
            lane,
            pages,
            repeats_permille,
        } = self;
        match lane {
            Lane::Ahead | Lane::Behind => write!(f, "the shape {shape} brings only itself"),
            Lane::Trapped => write!(
                f,
                "the shape {shape} brings only itself: {pages} pages, and {} % of the last ones \
                 repeat others",
                repeats_permille / 10
            ),
        }
    }
}

impl Shape {
    fn new(hash: u64) -> Self {
        Shape {
            hash,
            lane: Lane::Ahead,
            name: Box::default(),
            found: 0,
            found_since: 0,
            from: [(0, 0); SOURCES],
            others: 0,
            alone_for: 0,
            pages: 0,
            bodies: None,
        }
    }

    /// One of its URLs was found.
    fn count(&mut self, source: Source) {
        self.found += 1;
        self.found_since += 1;
        self.alone_for = self.alone_for.saturating_add(1);
        let Source::Shape(of) = source else {
            self.alone_for = 0;
            return;
        };
        match self
            .from
            .iter_mut()
            .find(|(known, urls)| *known == of && *urls > 0)
        {
            Some((_, urls)) => *urls += 1,
            None => {
                if let Some(fewest) = self.from.iter_mut().min_by_key(|(_, urls)| *urls) {
                    *fewest = (of, 1);
                }
            }
        }
    }

    fn halve(&mut self) {
        let elsewhere = (self.found - self.from.iter().map(|(_, urls)| urls).sum::<u32>()) / 2;
        self.others /= 2;
        self.from.iter_mut().for_each(|(_, urls)| *urls /= 2);
        self.found = elsewhere + self.from.iter().map(|(_, urls)| urls).sum::<u32>();
    }

    fn write(&self, row: &mut Writer) {
        row.number(self.hash);
        row.byte(self.lane as u8);
        row.text(&self.name);
        for number in [self.found, self.found_since, self.others, self.alone_for] {
            row.number(number.into());
        }
        let sources = || self.from.iter().filter(|(_, urls)| *urls > 0);
        row.number(sources().count() as u64);
        for (of, urls) in sources() {
            row.number(*of);
            row.number(u64::from(*urls));
        }
        row.number(self.pages);
        row.byte(u8::from(self.bodies.is_some()));
        if let Some(bodies) = &self.bodies {
            bodies.write(row);
        }
    }

    fn read(row: &mut Reader<'_>) -> Option<Self> {
        let mut shape = Shape::new(row.number()?);
        shape.lane = [Lane::Ahead, Lane::Behind, Lane::Trapped]
            .into_iter()
            .nth(row.byte()?.into())?;
        shape.name = row.text()?.into();
        (shape.found, shape.found_since) = (row.small()?, row.small()?);
        (shape.others, shape.alone_for) = (row.small()?, row.small()?);
        for at in 0..row.number()? {
            *shape.from.get_mut(usize::try_from(at).ok()?)? = (row.number()?, row.small()?);
        }
        shape.pages = row.number()?;
        if row.byte()? != 0 {
            shape.bodies = Some(Box::new(Bodies::read(row)?));
        }
        Some(shape)
    }

    /// Its URLs that were found on pages of a set of shapes.
    fn found_within(&self, set: &[u64]) -> u32 {
        self.from
            .iter()
            .filter(|(of, _)| set.contains(of))
            .map(|(_, urls)| urls)
            .sum()
    }
}

impl Bodies {
    /// Takes the sketch of one. Only so many of the last ones count, and up to as many before them.
    fn hear(&mut self, sketch: u64, bodies: u32) {
        if self.heard >= 2 * bodies {
            (self.heard, self.repeats) = (self.heard / 2, self.repeats / 2);
        }
        self.heard += 1;
        if self.kept.iter().any(|kept| is_near(*kept, sketch)) {
            self.repeats += 1;
            return;
        }
        self.kept.truncate(SKETCHES - 1);
        self.kept.push_front(sketch);
    }

    /// Returns whether there are so many, of which nine of ten repeat others.
    fn repeat_themselves(&self, bodies: u32) -> bool {
        self.heard >= bodies && 10 * self.repeats >= 9 * self.heard
    }

    fn write(&self, row: &mut Writer) {
        row.number(self.heard.into());
        row.number(self.repeats.into());
        row.number(self.kept.len() as u64);
        self.kept.iter().for_each(|kept| row.number(*kept));
    }

    fn read(row: &mut Reader<'_>) -> Option<Self> {
        let heard = row.small()?;
        let repeats = row.small()?;
        let kept = (0..row.number()?)
            .map(|_| row.number())
            .collect::<Option<_>>()?;
        Some(Bodies {
            kept,
            heard,
            repeats,
        })
    }

    fn repeats_permille(&self) -> u32 {
        1000 * self.repeats / self.heard.max(1)
    }
}

impl Shapes {
    fn get(&self, hash: u64) -> Option<&Shape> {
        self.known.iter().find(|shape| shape.hash == hash)
    }

    fn get_mut(&mut self, hash: u64) -> Option<&mut Shape> {
        self.known.iter_mut().find(|shape| shape.hash == hash)
    }

    /// The lane of the URLs of a shape.
    pub(crate) fn lane(&self, hash: u64) -> Lane {
        self.get(hash).map_or(Lane::Ahead, |shape| shape.lane)
    }

    /// A new URL was found. `is_of_many`: others can have its shape, too. `name`: what people call
    /// that. Gives its lane.
    pub(crate) fn found(
        &mut self,
        hash: u64,
        source: Source,
        is_of_many: impl Fn() -> bool,
        name: impl Fn() -> String,
    ) -> Lane {
        let is_known = self.get(hash).is_some() || is_of_many() && self.make(hash);
        if let Source::Shape(of) = source
            && !is_known
            && let Some(shape) = self.get_mut(of)
        {
            shape.others += 1;
        }
        // On a page like no other.
        let is_elsewhere =
            matches!(source, Source::Shape(of) if of != hash && self.get(of).is_none());
        let Some(shape) = self.get_mut(hash) else {
            return Lane::Ahead;
        };
        shape.count(source);
        if is_elsewhere {
            shape.alone_for = 0;
        }
        if shape.found_since >= JUDGED_EVERY {
            self.judge(hash, &name);
        }
        if let Some(shape) = self.get_mut(hash).filter(|shape| shape.found >= REMEMBERED) {
            shape.halve();
        }
        self.found += 1;
        if self.found >= ALL_REMEMBERED {
            self.found = 0;
            self.known.iter_mut().for_each(Shape::halve);
        }
        self.lane(hash)
    }

    /// Takes a shape in. The one with fewest URLs gives way, one that is behind after all that are
    /// ahead, and a trap never.
    fn make(&mut self, hash: u64) -> bool {
        if self.known.len() < SHAPES_MAX {
            self.known.push(Shape::new(hash));
            return true;
        }
        let may_go = self
            .known
            .iter_mut()
            .filter(|shape| shape.lane != Lane::Trapped);
        let Some(least) = may_go.min_by_key(|shape| (shape.lane, shape.found)) else {
            return false;
        };
        let gone = std::mem::replace(least, Shape::new(hash));
        // What it was to the pages that brought it.
        for (of, urls) in gone.from {
            if let Some(shape) = self.get_mut(of) {
                shape.others = shape.others.saturating_add(urls);
            }
        }
        true
    }

    /// The shapes on whose pages URLs of this one were found, and of those ones, as far as they are
    /// known.
    fn closed_set(&self, hash: u64) -> Vec<u64> {
        let mut set = vec![hash];
        let mut next = 0;
        while let Some(shape) = set.get(next).and_then(|hash| self.get(*hash)) {
            next += 1;
            let feeds = |(of, urls): &&(u64, u32)| {
                ALONE * urls >= shape.found.max(1) && self.get(*of).is_some()
            };
            for (of, _) in shape.from.iter().filter(feeds) {
                if !set.contains(of) {
                    set.push(*of);
                }
            }
        }
        set
    }

    /// Judges a shape, and those that it belongs to.
    fn judge(&mut self, hash: u64, name: &dyn Fn() -> String) {
        let set = self.closed_set(hash);
        let members = || self.known.iter().filter(|shape| set.contains(&shape.hash));
        let found: u32 = members().map(|shape| shape.found).sum();
        let elsewhere = found - members().map(|shape| shape.found_within(&set)).sum::<u32>();
        let strangers = self.known.iter().filter(|shape| !set.contains(&shape.hash));
        let brought = members().map(|shape| shape.others).sum::<u32>()
            + strangers.map(|shape| shape.found_within(&set)).sum::<u32>();
        let most = elsewhere.max(brought);
        let Some(shape) = self.get_mut(hash) else {
            return;
        };
        shape.found_since = 0;
        if elsewhere > 0 {
            shape.alone_for = 0;
        }
        match shape.lane {
            Lane::Ahead if ALONE * most <= found => {
                shape.name = cut(name()).into();
                shape.lane = Lane::Behind;
                shape.bodies = Some(Box::default());
            }
            Lane::Behind if IN_COMPANY * most > found => {
                (shape.lane, shape.bodies, shape.name) = (Lane::Ahead, None, Box::default());
            }
            _ => {}
        }
    }

    /// A page was fetched. `hash`: that of its shape, which is not needed where no shape is known.
    pub(crate) fn fetched(&mut self, hash: impl FnOnce() -> u64) {
        if self.known.is_empty() {
            return;
        }
        if let Some(shape) = self.get_mut(hash()) {
            shape.pages += 1;
        }
    }

    /// The sketch of a page's text came. The shape is a trap when it is behind, has brought at
    /// least `pages_max` pages (0: no matter how many), nine of ten of its last bodies repeat
    /// others, and no URL of it has been found elsewhere for long. Returns whether it is one from
    /// now on.
    pub(crate) fn sketched(&mut self, hash: u64, sketch: u64, pages_max: u64) -> bool {
        let Some(shape) = self
            .get_mut(hash)
            .filter(|shape| shape.lane == Lane::Behind)
        else {
            return false;
        };
        let bodies_wanted = u32::try_from(pages_max / ONE_PAGE_OF)
            .unwrap_or(u32::MAX)
            .clamp(BODIES_MIN, BODIES);
        let is_long = pages_max > 0 && shape.pages >= pages_max && shape.alone_for >= ALONE_FOR;
        let bodies = shape.bodies.get_or_insert_default();
        bodies.hear(sketch, bodies_wanted);
        if !is_long || !bodies.repeat_themselves(bodies_wanted) {
            return false;
        }
        shape.lane = Lane::Trapped;
        true
    }

    /// A trap is behind again. It is a trap again when it has repeated itself for as long once
    /// more.
    pub(crate) fn release(&mut self, hash: u64) {
        if let Some(shape) = self
            .get_mut(hash)
            .filter(|shape| shape.lane == Lane::Trapped)
        {
            (shape.lane, shape.pages, shape.bodies) = (Lane::Behind, 0, None);
        }
    }

    /// What is told of a shape; none while it is ahead.
    pub(crate) fn verdict(&self, hash: u64) -> Option<Verdict<'_>> {
        self.verdicts()
            .find(|(of, _)| *of == hash)
            .map(|(_, verdict)| verdict)
    }

    /// What is told of all shapes that are not ahead.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (u64, Verdict<'_>)> {
        self.known
            .iter()
            .filter(|shape| shape.lane != Lane::Ahead)
            .map(|shape| {
                let verdict = Verdict {
                    shape: &shape.name,
                    lane: shape.lane,
                    pages: shape.pages,
                    repeats_permille: shape
                        .bodies
                        .as_ref()
                        .map_or(0, |bodies| bodies.repeats_permille()),
                };
                (shape.hash, verdict)
            })
    }

    /// Writes them: a server may leave memory between any two of its pages.
    pub(crate) fn write(&self, row: &mut Writer) {
        row.number(self.known.len() as u64);
        self.known.iter().for_each(|shape| shape.write(row));
    }

    pub(crate) fn read(row: &mut Reader<'_>) -> Option<Self> {
        let known = (0..row.number()?)
            .map(|_| Shape::read(row))
            .collect::<Option<_>>()?;
        Some(Shapes { known, found: 0 })
    }
}

/// A name that is not too long. A cut one is none of a shape.
fn cut(name: String) -> String {
    match name
        .get(..NAME_BYTES_MAX)
        .filter(|_| name.len() > NAME_BYTES_MAX)
    {
        Some(beginning) => format!("{beginning}…"),
        None => name,
    }
}

#[cfg(test)]
mod tests;
