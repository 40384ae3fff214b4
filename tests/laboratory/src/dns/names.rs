//! Names: host names that look like those of a web.
//!
//! Three of five begin with `www.`, as most did in 2008. Then comes a label of one to five
//! syllables of two or three letters, now and then with a number. Then comes one of a few ends,
//! half of them `.com`. One of the tables goes by first characters and lengths, which are as uneven
//! as that makes them.
//!
//! Invariants: names are distinct; a seed gives the same names, and a longer list begins with the
//! shorter one.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Share of the names that begin with `www.`.
const WWW: f64 = 0.6;
/// Share of those that have a number.
const NUMBERED: f64 = 0.1;
const SYLLABLES_MAX: u32 = 5;
const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
const VOWELS: &[u8] = b"aeiou";
/// Ends of names; half of the list is `.com`.
const ENDS: [&str; 12] = [
    ".com", ".com", ".com", ".com", ".com", ".com", ".net", ".org", ".cn", ".de", ".co.uk", ".edu",
];

/// Host names by number.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    /// The first `count` names of a seed.
    pub(super) fn new(count: usize, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut names = Names {
            names: Vec::with_capacity(count),
            numbers: HashMap::with_capacity(count),
        };
        while names.names.len() < count {
            let name = name(&mut random);
            let number = names.names.len() as u32;
            if let Entry::Vacant(vacant) = names.numbers.entry(name.clone()) {
                vacant.insert(number);
                names.names.push(name);
            }
        }
        names
    }

    /// A name by its number.
    pub(super) fn get(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// The number of a name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// All names, by number.
    pub(super) fn all(&self) -> &[String] {
        &self.names
    }
}

fn name(random: &mut Xoshiro256PlusPlus) -> String {
    let mut name = String::from(if random.random_bool(WWW) { "www." } else { "" });
    for _ in 0..random.random_range(1..=SYLLABLES_MAX) {
        name.push(char::from(pick(random, CONSONANTS)));
        name.push(char::from(pick(random, VOWELS)));
        if random.random_bool(0.5) {
            name.push(char::from(pick(random, CONSONANTS)));
        }
    }
    if random.random_bool(NUMBERED) {
        name.push_str(&random.random_range(1..1_000).to_string());
    }
    name.push_str(pick(random, &ENDS));
    name
}

fn pick<T: Copy>(random: &mut Xoshiro256PlusPlus, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_url::canonical;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_found_again_and_those_of_hosts() {
        let names = Names::new(20_000, 7);
        assert_eq!(names.all().iter().collect::<HashSet<_>>().len(), 20_000);
        for (number, name) in names.all().iter().enumerate() {
            assert_eq!(
                (names.number(name), names.get(number as u32)),
                (Some(number as u32), name.as_str())
            );
        }
        for name in &names.all()[..500] {
            let url = format!("http://{name}/");
            assert_eq!(canonical(&url, None, None).as_deref(), Ok(url.as_str()));
        }
        assert_eq!(names.number("nobody.example"), None);
    }

    #[test]
    fn fewer_names_are_the_first_of_more() {
        assert_eq!(Names::new(100, 7).all(), &Names::new(1_000, 7).all()[..100]);
        assert_ne!(Names::new(100, 7).all(), Names::new(100, 8).all());
    }
}
