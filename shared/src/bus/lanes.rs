//! Lanes: slices of a shared edge by host, so that what an instance remembers of a host is of use to it again.
//!
//! Every lane is a consumer of its own, and every instance takes part in every lane: no message waits for an instance
//! that is away. Of those with room for a message the broker chooses the one that prefers the lane most. So n instances
//! have n caches of different hosts, a busy or dead instance's lanes go to the others at once, and nobody need know how
//! many instances there are.
//!
//! Invariant: which lane a message travels in, and who takes it, changes what it costs and never what comes of it.

use crate::message::Edge;
use crate::url::partition;

/// Lanes of an edge. All of them together cost the broker about 3 microseconds a message more than one consumer does.
pub const LANES: u16 = 8;

/// Whether messages of the edge travel in lanes. One of no lane is taken by any instance.
pub fn has_lanes(edge: Edge) -> bool {
    edge == Edge::UrlsFound
}

/// The lane of what belongs to a host.
pub fn lane_of(host: &str) -> u16 {
    partition(host, LANES)
}

/// By lane, the instances that prefer it, the one that does most first. So however many there are, the first so many
/// share the lanes evenly, and one more takes its share from those that have most.
const FAVOURITES: [&[u16]; LANES as usize] =
    [&[0], &[1, 0], &[2, 0], &[3, 1, 0], &[4, 0], &[5, 2, 1, 0], &[6, 3, 0], &[7, 1, 0]];

/// How much an instance prefers a lane: 0 is most, of the broker's priorities from 0 to 9.
pub(crate) fn priority(instance: u16, lane: u16) -> usize {
    let favourites = FAVOURITES[usize::from(lane % LANES)];
    favourites.iter().position(|&favourite| favourite == instance % LANES).unwrap_or(favourites.len())
}

/// The consumer of a lane, and that of what is in no lane.
pub fn lane_consumers(stage: &str) -> impl Iterator<Item = (Option<u16>, String)> {
    let lanes = (0..LANES).map(move |lane| (Some(lane), format!("{stage}-lane-{lane}")));
    std::iter::once((None, stage.to_owned())).chain(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
