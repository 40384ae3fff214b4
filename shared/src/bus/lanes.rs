//! Lanes: slices of a shared edge by host, so that what an instance remembers of a host is of use to it again.
//!
//! A lane is a range of the hosts' hashes, larger than a partition or as large. `urls.found` has a subject for each lane,
//! by the host of the page that the links are from; `urls.new` has one for each partition, and no more lanes than those.
//!
//! Every lane is a consumer of its own, and every instance takes part in every lane: no message waits for an instance
//! that is away. Among the instances with room for a message the broker chooses the one that prefers the lane most. So n
//! instances have n caches of different hosts, a busy or dead instance's lanes go to the others at once, and nobody need
//! know how many instances there are.
//!
//! Invariant: which lane a message travels in, and who takes it, changes what it costs and never what comes of it.

use crate::topology::{Division, Edge, Token};
use crate::url::partition;

/// Lanes of an edge. All of them together cost the broker about 3 microseconds a message more than one consumer does.
pub const LANES: u16 = 8;

/// The lane of what belongs to a host: the upper bits of its hash, as its partition is.
pub fn lane_of(host: &str) -> u16 {
    partition(host, LANES)
}

/// By lane, the instances that prefer it, the keenest first. With n instances, 0 to n - 1 share the lanes evenly, and one
/// more takes its share from those that have most.
const FAVOURITES: [&[u16]; LANES as usize] =
    [&[0], &[1, 0], &[2, 0], &[3, 1, 0], &[4, 0], &[5, 2, 1, 0], &[6, 3, 0], &[7, 1, 0]];

/// How much an instance prefers a lane: 0 is most, of the broker's priorities from 0 to 9.
pub(crate) fn priority(instance: u16, lane: u16) -> usize {
    let favourites = FAVOURITES[usize::from(lane % LANES)];
    favourites.iter().position(|&favourite| favourite == instance % LANES).unwrap_or(favourites.len())
}

/// One of a stage's consumers of an edge with lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConsumer {
    /// Its name.
    pub name: String,
    /// Its lane. What is in none is taken by any instance.
    pub lane: Option<u16>,
    /// Where its messages belong on the edge.
    pub tokens: Vec<Token>,
}

/// The consumers of a stage on an edge with lanes; one of them takes each message.
pub fn lane_consumers(stage: &str, edge: Edge, partitions: u16) -> Vec<LaneConsumer> {
    let in_lane = |lane, tokens| LaneConsumer { name: format!("{stage}-lane-{lane}"), lane: Some(lane), tokens };
    match edge.division() {
        Division::Lane => {
            let others = LaneConsumer { name: stage.to_owned(), lane: None, tokens: vec![Token::None] };
            std::iter::once(others).chain((0..LANES).map(|lane| in_lane(lane, vec![Token::Lane(lane)]))).collect()
        }
        _ => {
            let of_lane = partitions.div_ceil(LANES);
            let lanes = (0..).zip((0..partitions).step_by(usize::from(of_lane.max(1))));
            lanes
                .map(|(lane, first)| {
                    let partitions = first..partitions.min(first + of_lane);
                    in_lane(lane, partitions.map(Token::Partition).collect())
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{hashes_of, partition_of};

    fn preferred(instances: u16, lane: u16) -> u16 {
        (0..instances).min_by_key(|&instance| priority(instance, lane)).unwrap()
    }

    #[test]
    fn each_lane_has_one_favourite_and_the_lanes_are_shared_out() {
        for instances in 1..=LANES {
            let mut lanes = vec![0; usize::from(instances)];
            (0..LANES).for_each(|lane| lanes[usize::from(preferred(instances, lane))] += 1);
            let even = LANES / instances..=LANES.div_ceil(instances);
            assert!(lanes.iter().all(|lanes| even.contains(lanes)), "{instances}: {lanes:?}");
            for lane in 0..LANES {
                let best = priority(preferred(instances, lane), lane);
                assert_eq!((0..instances).filter(|&instance| priority(instance, lane) == best).count(), 1);
            }
        }
    }

    #[test]
    fn with_one_instance_more_most_lanes_keep_their_favourite() {
        for instances in 1..LANES {
            let moved = (0..LANES).filter(|&lane| preferred(instances, lane) != preferred(instances + 1, lane));
            // Only those that prefer the new one move.
            assert!(moved.clone().all(|lane| preferred(instances + 1, lane) == instances));
            assert!(moved.count() <= usize::from(LANES / 2));
        }
    }

    #[test]
    fn every_partition_is_in_one_lane_the_upper_bits_of_its_hashes() {
        for partitions in [1, 2, 4, 8, 64, 4096] {
            let consumers = lane_consumers("resolver", Edge::UrlsNew, partitions);
            let lanes = LANES.min(partitions);
            assert_eq!(consumers.len(), usize::from(lanes));
            for (lane, consumer) in (0..).zip(&consumers) {
                assert_eq!(consumer.lane, Some(lane));
                for token in &consumer.tokens {
                    let &Token::Partition(partition) = token else { panic!("{token:?}") };
                    assert_eq!(partition_of(*hashes_of(partition, partitions).start(), lanes), lane);
                }
            }
            assert!(consumers.iter().all(|consumer| !consumer.tokens.is_empty()));
            let tokens: Vec<Token> = consumers.into_iter().flat_map(|consumer| consumer.tokens).collect();
            assert_eq!(tokens.len(), usize::from(partitions));
            assert!((0..partitions).all(|partition| tokens.contains(&Token::Partition(partition))));
        }
    }
}
