//! Shapes of a server's URLs: a part of a site that brings only itself falls behind, and one that repeats itself for very long
//! is a trap.
//!
//! In: new URLs with where they were found, pages, and sketches of their texts. Out: the lane of a shape's URLs.
//!
//! Shapes feed each other: the months of a calendar lead to its days, and those to months. So what is judged is a *closed*
//! set of shapes: one with all shapes on whose pages a good part of its own URLs were found. It brings only itself when next to
//! nothing is found on its pages but its own URLs, and next to none of these are found elsewhere. Only what is new counts:
//! links to URLs that are known do not come here.
//!
//! Invariant: what is known of a server is bounded, in memory and in its record.
//!
//! Sources: Heydon and Najork 1999, section 5 (crawler traps); Charikar 2002, and Manku, Jain and Das Sarma 2007 (SimHash);
//! Metwally, Agrawal and El Abbadi 2005 (Space-Saving, for where URLs are found).

use crate::keys::slot::Lane;
use crate::store::codec::{Reader, Writer};
use shared::sketch::is_near;
use std::collections::VecDeque;
use std::fmt;

/// Shapes of a server that are known at once.
const SHAPES_MAX: usize = 16;
/// Shapes on whose pages URLs of a shape are found, as far as they are told apart.
const SOURCES: usize = 4;
/// A shape is judged each time that so many new URLs of it were found.
const JUDGED_EVERY: u32 = 64;
/// Counts are halved when so many were found.
const REMEMBERED: u32 = 256;
/// A shape belongs to a closed set when one of so many URLs of a member was found on its pages.
const BELONGS: u32 = 8;
/// At most one of so many may come from elsewhere, or lead elsewhere, for a set to fall behind, …
const ALONE: u32 = 50;
/// … and one of so many brings it back.
const IN_COMPANY: u32 = 10;
/// Sketches of a shape that are kept, each unlike the others.
const SKETCHES: usize = 8;
/// Bodies by which a shape is judged: its last ones.
const BODIES: u32 = 1000;
/// Bytes of a shape that are kept for people.
const NAME_BYTES_MAX: usize = 200;

/// The shapes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shapes(Vec<Shape>);

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
    /// New URLs on its pages whose shapes are not known here.
    others: u32,
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
        let Verdict { shape, lane, pages, repeats_permille } = self;
        match lane {
            Lane::Ahead => write!(f, "the shape {shape}"),
            Lane::Behind => write!(f, "the shape {shape} brings only itself"),
            Lane::Trapped => write!(
                f,
                "the shape {shape} brings only itself: {pages} pages, and {} % of the last ones repeat others",
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
            pages: 0,
            bodies: None,
        }
    }

    /// One of its URLs was found.
    fn count(&mut self, source: Source) {
        self.found += 1;
        self.found_since += 1;
        let Source::Shape(of) = source else { return };
        match self.from.iter_mut().find(|(known, urls)| *known == of && *urls > 0) {
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
        for number in [self.found, self.found_since, self.others] {
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
        shape.lane = [Lane::Ahead, Lane::Behind, Lane::Trapped].into_iter().nth(row.byte()?.into())?;
        shape.name = row.text()?.into();
        (shape.found, shape.found_since, shape.others) = (row.small()?, row.small()?, row.small()?);
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
    fn from_within(&self, set: &[u64]) -> u32 {
        self.from.iter().filter(|(of, _)| set.contains(of)).map(|(_, urls)| urls).sum()
    }
}

impl Bodies {
    /// Takes the sketch of one.
    fn hear(&mut self, sketch: u64) {
        if self.heard == 2 * BODIES {
            (self.heard, self.repeats) = (BODIES, self.repeats / 2);
        }
        self.heard += 1;
        if self.kept.iter().any(|kept| is_near(*kept, sketch)) {
            self.repeats += 1;
            return;
        }
        self.kept.truncate(SKETCHES - 1);
        self.kept.push_front(sketch);
    }

    /// Says whether nine of ten of them repeat others.
    fn repeat_themselves(&self) -> bool {
        self.heard >= BODIES && 10 * self.repeats >= 9 * self.heard
    }

    fn write(&self, row: &mut Writer) {
        row.number(self.heard.into());
        row.number(self.repeats.into());
        row.number(self.kept.len() as u64);
        self.kept.iter().for_each(|kept| row.number(*kept));
    }

    fn read(row: &mut Reader<'_>) -> Option<Self> {
        let (heard, repeats) = (row.small()?, row.small()?);
        let kept = (0..row.number()?).map(|_| row.number()).collect::<Option<_>>()?;
        Some(Bodies { kept, heard, repeats })
    }

    fn repeats_permille(&self) -> u32 {
        1000 * self.repeats / self.heard.max(1)
    }
}

impl Shapes {
    fn get(&self, hash: u64) -> Option<&Shape> {
        self.0.iter().find(|shape| shape.hash == hash)
    }

    fn get_mut(&mut self, hash: u64) -> Option<&mut Shape> {
        self.0.iter_mut().find(|shape| shape.hash == hash)
    }

    /// The lane of the URLs of a shape.
    pub(crate) fn lane(&self, hash: u64) -> Lane {
        self.get(hash).map_or(Lane::Ahead, |shape| shape.lane)
    }

    /// A new URL was found. `name`: what people call its shape; none when no other URL can have it. Gives its lane.
    pub(crate) fn found(&mut self, hash: u64, source: Source, name: impl Fn() -> Option<String>) -> Lane {
        let is_known = self.get(hash).is_some() || self.make(hash, &name);
        if let Source::Shape(of) = source
            && !is_known
            && let Some(shape) = self.get_mut(of)
        {
            shape.others += 1;
        }
        let Some(shape) = self.get_mut(hash) else { return Lane::Ahead };
        shape.count(source);
        if shape.found_since >= JUDGED_EVERY {
            self.judge(hash, &name);
        }
        if let Some(shape) = self.get_mut(hash).filter(|shape| shape.found >= REMEMBERED) {
            shape.halve();
        }
        self.lane(hash)
    }

    /// Takes a shape in, if another URL can have it. The one with fewest URLs gives way; one that is behind never does.
    fn make(&mut self, hash: u64, name: &dyn Fn() -> Option<String>) -> bool {
        if name().is_none() {
            return false;
        }
        if self.0.len() < SHAPES_MAX {
            self.0.push(Shape::new(hash));
            return true;
        }
        let ahead = self.0.iter_mut().filter(|shape| shape.lane == Lane::Ahead);
        let least = ahead.min_by_key(|shape| shape.found);
        least.map(|least| *least = Shape::new(hash)).is_some()
    }

    /// The shapes on whose pages URLs of this one were found, and of those ones, as far as they are known.
    fn closed_set(&self, hash: u64) -> Vec<u64> {
        let mut set = vec![hash];
        let mut next = 0;
        while let Some(shape) = set.get(next).and_then(|hash| self.get(*hash)) {
            next += 1;
            let feeds = |(of, urls): &&(u64, u32)| BELONGS * urls >= shape.found.max(1) && self.get(*of).is_some();
            for (of, _) in shape.from.iter().filter(feeds) {
                if !set.contains(of) {
                    set.push(*of);
                }
            }
        }
        set
    }

    /// Judges a shape, and those that it belongs to.
    fn judge(&mut self, hash: u64, name: &dyn Fn() -> Option<String>) {
        let set = self.closed_set(hash);
        let members = || self.0.iter().filter(|shape| set.contains(&shape.hash));
        let found: u32 = members().map(|shape| shape.found).sum();
        let elsewhere = found - members().map(|shape| shape.from_within(&set)).sum::<u32>();
        let strangers = self.0.iter().filter(|shape| !set.contains(&shape.hash));
        let brought = members().map(|shape| shape.others).sum::<u32>()
            + strangers.map(|shape| shape.from_within(&set)).sum::<u32>();
        let most = elsewhere.max(brought);
        let Some(shape) = self.get_mut(hash) else { return };
        shape.found_since = 0;
        match shape.lane {
            Lane::Ahead if ALONE * most <= found => {
                let mut name = name().unwrap_or_default();
                name.truncate(NAME_BYTES_MAX);
                shape.name = name.into();
                shape.lane = Lane::Behind;
                shape.bodies = Some(Box::default());
            }
            Lane::Behind if IN_COMPANY * most > found => {
                (shape.lane, shape.bodies, shape.name) = (Lane::Ahead, None, Box::default());
            }
            _ => {}
        }
    }

    /// A page of a shape was fetched.
    pub(crate) fn fetched(&mut self, hash: u64) {
        if let Some(shape) = self.get_mut(hash) {
            shape.pages += 1;
        }
    }

    /// The sketch of a page's text came. The shape is a trap when it is behind, has brought at least `pages_max` pages, of which
    /// nine of ten of the last repeat others, and no URL of it has been found elsewhere for long. Says whether it is one from now
    /// on.
    pub(crate) fn sketched(&mut self, hash: u64, sketch: u64, pages_max: u64) -> bool {
        let set = self.closed_set(hash);
        let Some(shape) = self.get_mut(hash).filter(|shape| shape.lane == Lane::Behind) else { return false };
        let is_long = pages_max > 0 && shape.pages >= pages_max;
        let is_alone = shape.from_within(&set) == shape.found;
        let bodies = shape.bodies.get_or_insert_default();
        bodies.hear(sketch);
        if !(is_long && is_alone && bodies.repeat_themselves()) {
            return false;
        }
        shape.lane = Lane::Trapped;
        true
    }

    /// Traps are behind again, one shape or all. It is a trap again when it has repeated itself for as long once more.
    /// Says whether there was one.
    pub(crate) fn release(&mut self, hash: Option<u64>) -> bool {
        let mut was_trap = false;
        for shape in self.0.iter_mut().filter(|shape| hash.is_none_or(|hash| shape.hash == hash)) {
            if shape.lane == Lane::Trapped {
                (shape.lane, shape.pages, shape.bodies) = (Lane::Behind, 0, None);
                was_trap = true;
            }
        }
        was_trap
    }

    /// What is told of a shape; none while it is ahead.
    pub(crate) fn verdict(&self, hash: u64) -> Option<Verdict<'_>> {
        self.verdicts().find(|(of, _)| *of == hash).map(|(_, verdict)| verdict)
    }

    /// What is told of all shapes that are not ahead.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (u64, Verdict<'_>)> {
        self.0.iter().filter(|shape| shape.lane != Lane::Ahead).map(|shape| {
            let verdict = Verdict {
                shape: &shape.name,
                lane: shape.lane,
                pages: shape.pages,
                repeats_permille: shape.bodies.as_ref().map_or(0, |bodies| bodies.repeats_permille()),
            };
            (shape.hash, verdict)
        })
    }

    /// Writes them: a server may leave memory between any two of its pages.
    pub(crate) fn write(&self, row: &mut Writer) {
        row.number(self.0.len() as u64);
        self.0.iter().for_each(|shape| shape.write(row));
    }

    pub(crate) fn read(row: &mut Reader<'_>) -> Option<Self> {
        let shapes = (0..row.number()?).map(|_| Shape::read(row)).collect::<Option<_>>()?;
        Some(Shapes(shapes))
    }
}

#[cfg(test)]
mod tests;
