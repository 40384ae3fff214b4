//! Scaling: instances join one by one and leave again, and each way of finding a partition's
//! instance says what moves.

use super::growth::Content;
use super::web::{Kind, Web};
use rhumb_partition::{Held, plan};
use std::collections::BTreeMap;
use std::fmt;

/// From a partition to its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// The rest of a division by the number of instances.
    Modulo,
    /// The instance whose hash with the partition is the highest.
    Rendezvous,
    /// The table that the crawler's planner keeps, by URLs.
    Planner,
}

impl Scheme {
    pub(super) const ALL: [Scheme; 3] = [Scheme::Modulo, Scheme::Rendezvous, Scheme::Planner];

    /// Who owns each partition now, with so many instances.
    fn owners(self, contents: &[Content], before: &Owners, n_instances: u16, seed: u64) -> Owners {
        let of = |owner: &dyn Fn(u16) -> u16| -> Owners {
            contents
                .iter()
                .map(|content| (content.partition, owner(content.partition)))
                .collect()
        };
        match self {
            Scheme::Modulo => of(&|partition| partition % n_instances),
            Scheme::Rendezvous => of(&|partition| {
                let hash = |instance: &u16| {
                    rhumb_url::fingerprint(&format!("{seed} {partition} {instance}"))
                };
                (0..n_instances).max_by_key(hash).unwrap_or(0)
            }),
            Scheme::Planner => {
                let held = |content: &Content| Held {
                    partition: content.partition,
                    weight: content.urls,
                    moved: 0,
                    owner: before.get(&content.partition).copied(),
                };
                let instances: Vec<u16> = (0..n_instances).collect();
                let moves = plan(&contents.iter().map(held).collect::<Vec<_>>(), &instances);
                let mut owners = before.clone();
                owners.extend(moves.into_iter().map(|moved| (moved.partition, moved.to)));
                owners
            }
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Modulo => "modulo",
            Scheme::Rendezvous => "rendezvous",
            Scheme::Planner => "planner",
        })
    }
}

/// The instance of each partition.
type Owners = BTreeMap<u16, u16>;

/// An instance came or went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Instances before and after it.
    pub(super) from: u16,
    pub(super) to: u16,
    /// Parts of the partitions and of the URLs that moved.
    pub(super) moved_partitions: f64,
    pub(super) moved_urls: f64,
    /// Coefficients of variation over the instances after it.
    pub(super) cv_urls: f64,
    pub(super) cv_time: f64,
}

impl Step {
    /// The least part that must move when one joins or leaves, so that all have the same.
    pub(super) fn ideal(&self) -> f64 {
        1.0 / f64::from(self.from.max(self.to))
    }
}

/// The steps of one scheme on one web.
#[derive(Clone, Debug)]
pub(super) struct Scaling {
    pub(super) kind: Kind,
    pub(super) seed: u64,
    pub(super) is_split: bool,
    pub(super) scheme: Scheme,
    pub(super) steps: Vec<Step>,
}

impl Scaling {
    pub(super) fn measure(
        web: &Web,
        is_split: bool,
        scheme: Scheme,
        contents: &[Content],
        instances: u16,
    ) -> Self {
        let mut owners = scheme.owners(contents, &Owners::new(), 1, web.seed);
        let mut steps = Vec::new();
        let numbers: Vec<u16> = (1..=instances).chain((1..instances).rev()).collect();
        for (&from, &to) in numbers.iter().zip(&numbers[1..]) {
            let after = scheme.owners(contents, &owners, to, web.seed);
            let before = std::mem::replace(&mut owners, after);
            let moved = || {
                contents
                    .iter()
                    .filter(|content| before[&content.partition] != owners[&content.partition])
            };
            let variation = |weight: fn(&Content) -> f64| {
                let mut sums = vec![0.0; usize::from(to)];
                contents.iter().for_each(|content| {
                    sums[usize::from(owners[&content.partition])] += weight(content)
                });
                coefficient_of_variation(&sums)
            };
            steps.push(Step {
                from,
                to,
                moved_partitions: moved().count() as f64 / contents.len() as f64,
                moved_urls: moved().map(|content| content.urls).sum(),
                cv_urls: variation(|content| content.urls),
                cv_time: variation(|content| content.time),
            });
        }
        Scaling {
            kind: web.kind,
            seed: web.seed,
            is_split,
            scheme,
            steps,
        }
    }

    /// The steps in which an instance joins.
    pub(super) fn joins(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.to > step.from)
    }
}

/// Standard deviation by mean.
fn coefficient_of_variation(numbers: &[f64]) -> f64 {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let variance = numbers
        .iter()
        .map(|number| (number - mean).powi(2))
        .sum::<f64>()
        / numbers.len() as f64;
    variance.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_none_where_all_are_alike_and_one_where_one_of_two_has_all() {
        assert_eq!(
            [&[3.0, 3.0][..], &[0.0, 2.0]].map(coefficient_of_variation),
            [0.0, 1.0]
        );
    }
}
