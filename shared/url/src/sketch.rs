//! Sketches: 64 bits that are nearly the same for texts that are nearly the same.
//!
//! In: the text of a page, piece by piece. Out: its SimHash. Each run of three words votes on each
//! bit by its own hash; the bits are those of the majorities. Numbers are all alike: pages that
//! differ by their numbers alone are the same.
//!
//! Invariant: the same pieces give the same sketch in every process and version.
//!
//! Sources: Charikar 2002 (SimHash); Manku, Jain and Das Sarma 2007 (for pages of a crawl); Broder
//! 1997 (runs of words as what a text is made of).

/// One page of so many is sketched, chosen by its URL: a part is enough to judge by, and sketches
/// take time.
pub const ONE_PAGE_OF: u64 = 32;
/// Sketches that differ by at most so many bits are near: of texts of which about 19 of 20 runs of
/// words are the same (the angle between them is 6/64 of a half turn, and its cosine 0.96).
const NEAR_BITS: u8 = 6;
/// Bits of a count of votes: texts with more runs of words are sketched by their beginning.
const PLANES: usize = 20;
/// A text with fewer runs of words has no sketch.
const RUNS_MIN: u32 = 10;
/// The number of words in a run.
const RUN: usize = 3;

/// Returns whether a page is sketched, by the fingerprint of its URL.
pub fn is_wanted_of(url: u64) -> bool {
    url.is_multiple_of(ONE_PAGE_OF)
}

/// Returns whether two texts are nearly the same.
pub fn is_near(one: u64, other: u64) -> bool {
    distance(one, other) <= NEAR_BITS
}

/// By how many bits of 64 two sketches differ.
pub fn distance(one: u64, other: u64) -> u8 {
    (one ^ other).count_ones() as u8
}

/// About how much of two texts is the same, in percent: the cosine of the angle between them
/// (Charikar 2002, section 3).
pub fn likeness(one: u64, other: u64) -> u8 {
    let angle = f64::from(distance(one, other)) / 64.0 * std::f64::consts::PI;
    (100.0 * angle.cos().max(0.0)).round() as u8
}

/// A sketch in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// For each bit the number of runs whose hashes have it: bit by bit, so that all 64 numbers are
    /// added to at once.
    votes: [u64; PLANES],
    runs: u32,
    /// Hashes of the words before.
    before: [u64; RUN - 1],
    /// Hash of the word at hand; 0: there is none.
    word: u64,
    /// The byte before, as it counts.
    last: u8,
}

/// What a byte counts as: a letter in lower case, `0` for a digit, 0 for what parts words.
const COUNTS_AS: [u8; 256] = {
    let mut counts_as = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        counts_as[byte] = match byte as u8 {
            b'0'..=b'9' => b'0',
            byte @ (b'a'..=b'z' | 0x80..) => byte,
            byte @ b'A'..=b'Z' => byte | 0x20,
            _ => 0,
        };
        byte += 1;
    }
    counts_as
};

impl Sketch {
    /// Adds text. A word may go on from piece to piece.
    pub fn add(&mut self, text: &[u8]) {
        let mut word = self.word;
        let mut last = self.last;
        for &byte in text {
            let letter = COUNTS_AS[usize::from(byte)];
            if letter == 0 {
                self.word = word;
                self.space();
                word = 0;
            } else if letter != b'0' || last != b'0' {
                // FNV-1a, but that a word begins with 0.
                word = (word ^ u64::from(letter)).wrapping_mul(0x0100_0000_01b3);
            }
            last = letter;
        }
        (self.word, self.last) = (word, last);
    }

    /// The word is over.
    pub fn space(&mut self) {
        self.last = 0;
        if self.word == 0 {
            return;
        }
        let [first, second] = self.before;
        let third = std::mem::take(&mut self.word);
        self.before = [second, third];
        let run = first.rotate_left(7) ^ second.rotate_left(23) ^ third;
        // The finalizer of MurmurHash3: FNV leaves the upper bits of short words much alike.
        let run = (run ^ run >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let run = (run ^ run >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.vote(run ^ run >> 33);
    }

    fn vote(&mut self, run: u64) {
        if (self.runs + 1) >> PLANES != 0 {
            return;
        }
        self.runs += 1;
        let mut carry = run;
        for plane in &mut self.votes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
            if carry == 0 {
                break;
            }
        }
    }

    /// The sketch; none of a text that is too short to be told from others.
    pub fn finish(mut self) -> Option<u64> {
        self.space();
        let least = self.runs / 2 + 1;
        // For each bit: says whether its number of votes is at least that, from the highest bit of
        // the numbers on.
        let mut more = 0;
        let mut equal = u64::MAX;
        for place in (0..PLANES).rev() {
            let bit = if least >> place & 1 == 1 { u64::MAX } else { 0 };
            more |= equal & self.votes[place] & !bit;
            equal &= !(self.votes[place] ^ bit);
        }
        (self.runs >= RUNS_MIN).then_some(more | equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch(text: &str) -> u64 {
        let mut sketch = Sketch::default();
        sketch.add(text.as_bytes());
        sketch.finish().unwrap_or_default()
    }

    fn distance(one: &str, other: &str) -> u8 {
        super::distance(sketch(one), sketch(other))
    }

    /// A text of words drawn from a small vocabulary.
    fn prose(words: usize, seed: u64) -> String {
        let mut state = seed;
        let mut word = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            format!("w{}x ", char::from(b'a' + (state >> 33) as u8 % 26))
                .repeat(1 + (state >> 60) as usize % 2)
        };
        (0..words).map(|_| word()).collect()
    }

    #[test]
    fn months_of_a_calendar_are_near_and_letters_are_not() {
        let month = |name: &str, year: u32, days: u32| {
            let days: String = (1..=days).map(|day| format!("{day} ")).collect();
            format!(
                "Events of the town Mon Tue Wed Thu Fri Sat Sun {name} {year} {days} Home Calendar \
                 Contact Imprint"
            )
        };
        assert!(is_near(
            sketch(&month("July", 2031, 31)),
            sketch(&month("July", 2032, 30))
        ));
        let letter = |seed| {
            format!(
                "From: someone Subject: a question Date: today {} Home Next Previous",
                prose(80, seed)
            )
        };
        assert!((1..50).all(|seed| !is_near(sketch(&letter(0)), sketch(&letter(seed)))));
        assert!(distance(&letter(1), &letter(2)) > 12);
    }

    #[test]
    fn a_small_change_of_a_long_text_changes_few_bits() {
        for seed in 0..50 {
            let text = prose(400, seed);
            assert!(
                is_near(sketch(&text), sketch(&text.replacen("w", "other w", 2))),
                "{seed}"
            );
        }
    }

    #[test]
    fn a_sketch_stays_what_it_is() {
        let of = |text: &str| {
            sketch(&format!(
                "{text} one two three four five six seven eight nine"
            ))
        };
        assert_eq!(of("Page 12 of 20"), of("page 7 OF 3"));
        assert_eq!(of("ten"), 9_396_796_584_278_635_161);
        let mut apart = Sketch::default();
        for number in 0..10 {
            apart.add(number.to_string().as_bytes());
            apart.space();
        }
        assert_eq!(
            apart.finish().unwrap_or_default(),
            sketch("0 1 2 3 4 5 6 7 8 9"),
            "each cell of a table is a word"
        );
        let mut short = Sketch::default();
        short.add(b"one two three four five six seven eight nine");
        assert_eq!(short.finish(), None, "too short");
    }

    proptest! {
        /// Goal: the numbers that are added up bit by bit are those of plain counters.
        #[test]
        fn majorities_are_those_of_plain_counters(runs in proptest::collection::vec(any::<u64>(), 1..300)) {
            let mut sketch = Sketch::default();
            runs.iter().for_each(|run| sketch.vote(*run));
            let plain = (0..64).filter(|bit| {
                2 * runs.iter().filter(|run| **run >> bit & 1 == 1).count() > runs.len()
            });
            let plain = plain.fold(0, |bits, bit| bits | 1u64 << bit);
            prop_assert_eq!(sketch.finish(), (runs.len() >= RUNS_MIN as usize).then_some(plain));
        }

        #[test]
        fn pieces_make_no_difference(text in "[a-c1-3 .é]{0,120}", cut in 0usize..120) {
            let bytes = text.as_bytes();
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut pieces = Sketch::default();
            pieces.add(one);
            pieces.add(other);
            prop_assert_eq!(pieces.finish().unwrap_or_default(), sketch(&text));
        }
    }
}
