//! Work: what it took to find a name in a table.

/// Candidates and characters that were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) candidates: u64,
    pub(super) characters: u64,
}

impl Work {
    /// Returns whether a candidate is the name; it is left at the first character that differs.
    pub(super) fn compare(&mut self, candidate: &[u8], name: &[u8]) -> bool {
        let same = candidate
            .iter()
            .zip(name)
            .take_while(|(one, other)| one == other)
            .count();
        let is_it = same == name.len() && same == candidate.len();
        self.candidates += 1;
        self.characters += same as u64 + u64::from(!is_it);
        is_it
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, more: Work) {
        self.candidates += more.candidates;
        self.characters += more.characters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_ends_at_the_first_difference() {
        let mut work = Work::default();
        assert!(!work.compare(b"abcd", b"abxd"));
        assert_eq!(
            work,
            Work {
                candidates: 1,
                characters: 3
            }
        );
        assert!(work.compare(b"abcd", b"abcd"));
        assert_eq!(
            work,
            Work {
                candidates: 2,
                characters: 7
            }
        );
        assert!(!work.compare(b"ab", b"abcd"), "the end differs too");
        assert_eq!(
            work,
            Work {
                candidates: 3,
                characters: 10
            }
        );
    }
}
