//! Lanes: slices of a shared edge by host, so that what an instance remembers of a host is of use
//! to it again.
//!
//! A lane is an eighth of the hosts' hashes: their upper three bits. `urls.found` has a subject for
//! each lane, by the host of the page that the links are from; `urls.new` has one for each
//! partition, with the lane of the partition's first hash. So a half of a partition has a consumer
//! from the beginning on.
//!
//! Every lane is a consumer of its own, and every instance takes part in every lane: no message
//! waits for an instance that is away. Among the instances with room for a message the broker
//! chooses the one that prefers the lane most. So n instances have n caches of different hosts, a
//! busy or dead instance's lanes go to the others at once, and nobody need know how many instances
//! there are.
//!
//! Invariant: which lane a message travels in, and who takes it, changes what it costs and never
//! what comes of it.

use super::subjects::Subjects;
use crate::topology::{Division, Edge, Token};
use rhumb_url::{partition, partition_of};

/// Lanes of an edge. All of them together cost the broker about 3 microseconds a message more than
/// one consumer does.
pub const LANES: u16 = 8;

/// The lane of what belongs to a host: the upper bits of its hash, as its partition is.
pub fn lane_of(host: &str) -> u16 {
    partition(host, LANES)
}

/// The lane of a hash, and of the partition that begins with it.
pub fn lane_of_hash(hash: u64) -> u16 {
    partition_of(hash, LANES)
}

/// By lane, the instances that prefer it, the keenest first. With n instances, 0 to n - 1 share the
/// lanes evenly, and one more takes its share from those that have most.
const FAVOURITES: [&[u16]; LANES as usize] = [
    &[0],
    &[1, 0],
    &[2, 0],
    &[3, 1, 0],
    &[4, 0],
    &[5, 2, 1, 0],
    &[6, 3, 0],
    &[7, 1, 0],
];

/// How much an instance prefers a lane: 0 is most, of the broker's priorities from 0 to 9.
pub fn priority(instance: u16, lane: u16) -> usize {
    let favourites = FAVOURITES[usize::from(lane % LANES)];
    favourites
        .iter()
        .position(|&favourite| favourite == instance % LANES)
        .unwrap_or(favourites.len())
}

/// The lane in which the messages of a lane travel when so many instances take them: the first of
/// those that the same instance prefers. One instance alone prefers all of them, and gets all by
/// one consumer.
pub fn lane_among(instances: u16, lane: u16) -> u16 {
    let favourite =
        |lane| (0..instances.clamp(1, LANES)).min_by_key(|&instance| priority(instance, lane));
    (0..lane)
        .find(|&other| favourite(other) == favourite(lane))
        .unwrap_or(lane)
}

/// One of a stage's consumers of an edge with lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConsumer {
    /// Its name.
    pub name: String,
    /// Its lane. What is in none is taken by any instance.
    pub lane: Option<u16>,
    /// The subjects of its messages, by wildcards.
    pub subjects: Vec<String>,
}

/// The consumers of a stage on an edge with lanes; one of them takes each message.
pub fn lane_consumers(stage: &str, edge: Edge, subjects: &Subjects) -> Vec<LaneConsumer> {
    let in_lane = |lane| {
        let subjects = vec![subjects.lane(edge, lane)];
        LaneConsumer {
            name: lane_name(stage, lane),
            lane: Some(lane),
            subjects,
        }
    };
    let others = (edge.division() == Division::Lane).then(|| {
        let subjects = vec![subjects.of(edge, &Token::None)];
        LaneConsumer {
            name: stage.to_owned(),
            lane: None,
            subjects,
        }
    });
    others.into_iter().chain((0..LANES).map(in_lane)).collect()
}

/// The name of a stage's consumer of a lane.
fn lane_name(stage: &str, lane: u16) -> String {
    format!("{stage}-lane-{lane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(instances: u16, lane: u16) -> u16 {
        (0..instances)
            .min_by_key(|&instance| priority(instance, lane))
            .unwrap()
    }

    #[test]
    fn each_lane_has_one_favourite_and_the_lanes_are_shared_out() {
        for instances in 1..=LANES {
            let mut lanes = vec![0; usize::from(instances)];
            (0..LANES).for_each(|lane| lanes[usize::from(preferred(instances, lane))] += 1);
            let even = LANES / instances..=LANES.div_ceil(instances);
            assert!(
                lanes.iter().all(|lanes| even.contains(lanes)),
                "{instances}: {lanes:?}"
            );
            for lane in 0..LANES {
                let best = priority(preferred(instances, lane), lane);
                assert_eq!(
                    (0..instances)
                        .filter(|&instance| priority(instance, lane) == best)
                        .count(),
                    1
                );
            }
        }
    }

    #[test]
    fn instances_share_as_many_lanes_as_there_are_instances_and_each_gets_what_it_prefers() {
        for instances in 0..=LANES + 2 {
            let lanes: std::collections::BTreeSet<u16> =
                (0..LANES).map(|lane| lane_among(instances, lane)).collect();
            assert_eq!(
                lanes.len(),
                usize::from(instances.clamp(1, LANES)),
                "{instances}"
            );
            for lane in 0..LANES {
                let of = preferred(instances.clamp(1, LANES), lane);
                let taken = lane_among(instances, lane);
                assert_eq!(preferred(instances.clamp(1, LANES), taken), of);
            }
        }
    }

    #[test]
    fn with_one_instance_more_most_lanes_keep_their_favourite() {
        for instances in 1..LANES {
            let moved = (0..LANES)
                .filter(|&lane| preferred(instances, lane) != preferred(instances + 1, lane));
            // Only those that prefer the new one move.
            assert!(
                moved
                    .clone()
                    .all(|lane| preferred(instances + 1, lane) == instances)
            );
            assert!(moved.count() <= usize::from(LANES / 2));
        }
    }

    #[test]
    fn what_is_in_a_partition_and_a_lane_is_taken_by_the_consumer_of_the_lane_alone() {
        let subjects = crate::Subjects::new("default");
        let consumers = lane_consumers("resolver", Edge::UrlsNew, &subjects);
        assert_eq!(consumers.len(), usize::from(LANES));
        for lane in 0..LANES {
            let subject = subjects.of(Edge::UrlsNew, &Token::InLane { partition: 7, lane });
            let takes =
                |consumer: &&LaneConsumer| consumer.subjects[0].replace('*', "007") == subject;
            let takers: Vec<Option<u16>> = consumers
                .iter()
                .filter(takes)
                .map(|consumer| consumer.lane)
                .collect();
            assert_eq!(takers, [Some(lane)]);
        }
    }
}
