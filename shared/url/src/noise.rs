//! Noise: whether the text of a page is another one, or differs by counters, dates and
//! advertisements alone.
//!
//! In: the sketches of a page's versions, one after the other. Out: for each of them whether its
//! text is another one, and the noise of the page: how far versions with the same text lie apart.
//!
//! Versions are compared with one of them, the base, and not each with the one before. Noise comes
//! and goes, so all versions lie equally far from the base. Edits add up: each version lies further
//! from the base than those before. So a version has another text when it lies further from the
//! base than any did that had the same. Until a page is known to be noisy, the base is the last
//! version whose text changed. From then on it stays until a version lies further away than noise
//! can.
//!
//! The noise sinks slowly while versions lie nearer, and is halved when a body comes again byte for
//! byte. So it is a high quantile of the distances of late: of versions with an advertisement that
//! is a twentieth of the text, one in 25 lies further away.
//!
//! Invariant: a text of which more than a quarter is another is another text, however noisy its
//! page is.
//!
//! Sources: Manku, Jain and Das Sarma 2007, section 3 (texts whose sketches differ by at most 3 of
//! 64 bits are the same); Broder, Glassman, Manasse and Zweig 1997 (likeness of texts by runs of
//! words).

use crate::sketch;

/// Sketches that differ by at most so many bits are of the same text, also of a page without noise.
const SAME_BITS: u8 = 3;
/// No noise is larger, in bits: more than a fifth of the text.
const NOISE_BITS_MAX: u8 = 14;
/// So much further than a version lay that was another text others of the same may lie, in bits.
const MARGIN_BITS: u8 = 1;
/// Parts of a bit in which noise is counted, and of which it sinks by one with each version that
/// lies nearer.
const PARTS: u8 = 16;

/// What the versions of a page are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The sketch of the version.
    pub sketch: u64,
    /// How far versions with the same text lie from it, in sixteenths of a bit: at most 224.
    pub noise: u8,
}

/// What a version is beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Its text is another one.
    pub is_changed: bool,
    /// What the next version is compared with.
    pub base: Base,
}

impl Base {
    /// Judges the next version of the page by its sketch.
    #[must_use]
    pub fn judge(self, sketch: u64) -> Judged {
        let bits = sketch::distance(self.sketch, sketch);
        let noise_bits = self.noise.div_ceil(PARTS);
        if bits <= noise_bits.max(SAME_BITS) {
            let noise = self.noise.saturating_sub(1).max(bits * PARTS);
            let base = Base { noise, ..self };
            return Judged {
                is_changed: false,
                base,
            };
        }
        let base = if bits > NOISE_BITS_MAX {
            Base {
                sketch,
                noise: after_same_body(self.noise),
            }
        } else {
            let is_noisy = noise_bits > SAME_BITS;
            Base {
                sketch: if is_noisy { self.sketch } else { sketch },
                noise: (bits + MARGIN_BITS).min(NOISE_BITS_MAX) * PARTS,
            }
        };
        Judged {
            is_changed: true,
            base,
        }
    }
}

/// The noise of a page whose body came again byte for byte, which noise does not: or of one whose
/// versions went further than noise goes, step by step.
#[must_use]
pub fn after_same_body(noise: u8) -> u8 {
    noise / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::Sketch;
    use proptest::prelude::*;

    /// Numbers that look random (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// A text of so many words.
        fn text(&mut self, words: usize) -> Vec<String> {
            let word = |number: u64| {
                let letters = [0, 5, 10].map(|shift| b'a' + ((number >> shift) % 23) as u8);
                letters.map(char::from).iter().collect()
            };
            (0..words).map(|_| word(self.next())).collect()
        }
    }

    fn sketch_of(parts: &[&[String]]) -> u64 {
        let mut sketch = Sketch::default();
        for word in parts.iter().copied().flatten() {
            sketch.add(word.as_bytes());
            sketch.space();
        }
        sketch.finish().unwrap_or_default()
    }

    /// For each version after the first whether its text is another one.
    fn changes(sketches: &[u64]) -> Vec<bool> {
        let (first, others) = sketches.split_first().unwrap();
        let mut base = Base {
            sketch: *first,
            noise: 0,
        };
        let judged = others.iter().map(|sketch| {
            let judged = base.judge(*sketch);
            base = judged.base;
            judged.is_changed
        });
        judged.collect()
    }

    /// A page of so many words with an advertisement of so many, another one in each version.
    fn with_advertisements(words: usize, of_advertisement: usize, seed: u64) -> Vec<u64> {
        let mut dice = Dice(seed);
        let text = dice.text(words);
        let version = |_| sketch_of(&[&text, &dice.text(of_advertisement)]);
        (0..60).map(version).collect()
    }

    /// A page of which so many words are others in each version, each time elsewhere.
    fn edited(words: usize, of_edit: usize, seed: u64) -> Vec<u64> {
        let mut dice = Dice(seed);
        let mut text = dice.text(words);
        let version = |_| {
            let at = (dice.next() % (words - of_edit) as u64) as usize;
            text.splice(at..at + of_edit, dice.text(of_edit));
            sketch_of(&[&text])
        };
        (0..60).map(version).collect()
    }

    fn count(changes: &[bool]) -> u32 {
        changes
            .iter()
            .map(|is_changed| u32::from(*is_changed))
            .sum()
    }

    #[test]
    fn an_advertisement_that_is_always_another_becomes_noise() {
        for (words, of_advertisement, most) in [
            (150, 8, 0.06),
            (300, 15, 0.06),
            (1000, 40, 0.07),
            (300, 30, 0.15),
        ] {
            let mut early = 0;
            let mut late = 0;
            for seed in 0..40 {
                let changes = changes(&with_advertisements(words, of_advertisement, seed));
                early += count(&changes[..6]);
                late += count(&changes[6..]);
            }
            let late_share = f64::from(late) / (40.0 * 53.0);
            assert!(early > 40, "{words}: it is a change at first");
            assert!(
                late_share < most,
                "{of_advertisement} of {words}: {late_share}"
            );
        }
    }

    #[test]
    fn a_text_that_is_edited_each_time_is_another_each_time() {
        for (words, of_edit, least) in [(300, 15, 0.55), (300, 40, 0.8), (300, 150, 0.99)] {
            let of_seed = |seed| count(&changes(&edited(words, of_edit, seed)));
            let changed: u32 = (0..40).map(of_seed).sum();
            let share = f64::from(changed) / (40.0 * 59.0);
            assert!(share >= least, "{of_edit} of {words}: {share}");
        }
    }

    #[test]
    fn an_edit_of_a_noisy_page_is_seen_when_it_is_larger_than_its_noise() {
        let mut seen = 0;
        let mut later = 0;
        for seed in 0..40 {
            let mut dice = Dice(seed);
            let text = dice.text(300);
            let other = dice.text(120);
            let mut version = |is_edited: bool| {
                let begin = if is_edited { &other } else { &text[..120] };
                sketch_of(&[begin, &text[120..], &dice.text(15)])
            };
            let versions: Vec<u64> = (0..40).map(|number| version(number >= 20)).collect();
            let changes = changes(&versions);
            seen += u32::from(changes[19]);
            later += count(&changes[20..]);
        }
        assert_eq!(seen, 40);
        assert!(later < 40 * 4, "of 19 each: {later}");
    }

    #[test]
    fn small_edits_of_a_quiet_page_are_seen_one_by_one() {
        let mut seen = 0;
        for seed in 0..40 {
            let mut base = Base::default();
            for (number, sketch) in edited(300, 15, seed).into_iter().enumerate() {
                let judged = base.judge(sketch);
                seen += u32::from(number > 0 && judged.is_changed);
                base = judged.base;
                // It is visited many times before the next edit.
                for _ in 0..4 {
                    base.noise = after_same_body(base.noise);
                }
            }
        }
        assert!(f64::from(seen) / (40.0 * 59.0) > 0.9, "{seen}");
    }

    #[test]
    fn numbers_are_no_text() {
        let version = |number: u64| {
            let text = format!("one two three four five six seven eight nine ten visitor {number}");
            sketch_of(&[&text.split(' ').map(str::to_owned).collect::<Vec<_>>()])
        };
        assert_eq!(count(&changes(&[1, 12, 345].map(version))), 0);
    }

    proptest! {
        /// Goal: no noise hides what is far away, and noise stays within its limit.
        #[test]
        fn what_is_far_away_is_another_text_whatever_came_before(
            sketches in proptest::collection::vec(any::<u64>(), 0..6),
            flips in proptest::collection::vec((0u32..64, 0u32..64), 0..60),
            last in any::<u64>(),
        ) {
            let mut base = Base::default();
            let near = flips.into_iter().map(|(one, other)| 1u64 << one ^ 1 << other);
            for sketch in near.chain(sketches) {
                base = base.judge(sketch).base;
                prop_assert!(base.noise <= NOISE_BITS_MAX * PARTS);
            }
            let is_far = sketch::distance(base.sketch, last) > NOISE_BITS_MAX;
            let judged = base.judge(last);
            prop_assert!(!is_far || judged.is_changed && judged.base.sketch == last);
            prop_assert!(!base.judge(base.sketch).is_changed);
        }
    }
}
