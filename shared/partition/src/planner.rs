//! The planner: which instance owns which partition, as instances come and go.
//!
//! In: the partitions with their weights and owners, and the instances that there are to be. Out:
//! moves.
//!
//! Invariants, when the moves are done: every partition has one of the instances; their numbers of
//! partitions differ by one at most; no instance's weight is above its share by more than its
//! heaviest partition; and there is nothing more to move.
//!
//! Partitions move only from an instance that goes or has too many, and change places only where
//! weights demand it. So an instance that joins n others gets about 1/(n+1) of all, and nothing
//! moves among those.

use std::cmp::Reverse;

/// A partition, and who has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Its id.
    pub partition: u16,
    /// What it costs its owner: URLs, bytes or busy time. Any unit, as long as it is one for all;
    /// not negative.
    pub weight: f64,
    /// Grows with its moves: of those that may go, one that has moved least does.
    pub moved: u64,
    /// The instance that has it; none when nobody does.
    pub owner: Option<u16>,
}

/// A partition that is to have another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its id.
    pub partition: u16,
    /// Who has it.
    pub from: Option<u16>,
    /// Who is to have it.
    pub to: u16,
}

/// An instance with the places of its partitions.
struct Instance {
    number: u16,
    held: Vec<usize>,
    weight: f64,
    /// Partitions that it may have.
    room: usize,
}

/// Plans the moves after which `instances` own all partitions. With more instances than partitions
/// the last ones get none; without instances nothing moves.
pub fn plan(partitions: &[Held], instances: &[u16]) -> Vec<Move> {
    if instances.is_empty() {
        return Vec::new();
    }
    let mut plan = Plan::new(partitions, instances);
    plan.release();
    plan.place();
    plan.even_out();
    plan.moves()
}

struct Plan<'a> {
    partitions: &'a [Held],
    instances: Vec<Instance>,
    /// Partitions without an instance.
    homeless: Vec<usize>,
    /// An instance's share of all weight.
    share: f64,
}

impl<'a> Plan<'a> {
    fn new(partitions: &'a [Held], instances: &[u16]) -> Self {
        let new = |&number: &u16| Instance {
            number,
            held: Vec::new(),
            weight: 0.0,
            room: 0,
        };
        let mut instances: Vec<Instance> = instances.iter().map(new).collect();
        let mut homeless = Vec::new();
        for (place, held) in partitions.iter().enumerate() {
            match instances
                .iter_mut()
                .find(|instance| Some(instance.number) == held.owner)
            {
                Some(owner) => {
                    owner.held.push(place);
                    owner.weight += held.weight;
                }
                None => homeless.push(place),
            }
        }
        // Who has most keeps most: so the fewest move.
        instances.sort_by_key(|instance| (Reverse(instance.held.len()), instance.number));
        let each = partitions.len() / instances.len();
        let over = partitions.len() % instances.len();
        for (place, instance) in instances.iter_mut().enumerate() {
            instance.room = each + usize::from(place < over);
        }
        let share = partitions.iter().map(|held| held.weight).sum::<f64>() / instances.len() as f64;
        Plan {
            partitions,
            instances,
            homeless,
            share,
        }
    }

    /// Takes partitions from those that have too many, so that the rest weighs about a share.
    fn release(&mut self) {
        for instance in &mut self.instances {
            for left in (1..=instance.held.len().saturating_sub(instance.room)).rev() {
                let wanted = (instance.weight - self.share) / left as f64;
                let off = |&place: &usize| (self.partitions[place].weight - wanted).abs();
                let moved = |&place: &usize| self.partitions[place].moved;
                let goes_first =
                    |a: &usize, b: &usize| moved(a).cmp(&moved(b)).then(off(a).total_cmp(&off(b)));
                let nearest = (0..instance.held.len())
                    .min_by(|&a, &b| goes_first(&instance.held[a], &instance.held[b]));
                if let Some(nearest) = nearest {
                    let place = instance.held.remove(nearest);
                    instance.weight -= self.partitions[place].weight;
                    self.homeless.push(place);
                }
            }
        }
    }

    /// Gives partitions without an instance to the lightest with room, the heaviest first.
    fn place(&mut self) {
        let weight = |place: &usize| self.partitions[*place].weight;
        self.homeless
            .sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
        for place in self.homeless.drain(..) {
            let with_room = self
                .instances
                .iter_mut()
                .filter(|instance| instance.held.len() < instance.room);
            if let Some(lightest) = with_room.min_by(|a, b| a.weight.total_cmp(&b.weight)) {
                lightest.held.push(place);
                lightest.weight += self.partitions[place].weight;
            }
        }
    }

    /// Lets partitions change places until no instance is above its share by more than its heaviest
    /// partition. Each change brings two instances nearer to each other, so there is a last one.
    fn even_out(&mut self) {
        while let Some((from, to)) = self.uneven() {
            let difference = self.instances[from].weight - self.instances[to].weight;
            let Some((given, taken)) = self.exchange(from, to, difference) else {
                return;
            };
            let given = self.instances[from].held.remove(given);
            let taken = taken.map(|taken| self.instances[to].held.remove(taken));
            self.instances[to].held.push(given);
            self.instances[from].held.extend(taken);
            let by = self.partitions[given].weight
                - taken.map_or(0.0, |taken| self.partitions[taken].weight);
            self.instances[from].weight -= by;
            self.instances[to].weight += by;
        }
    }

    /// An instance that is too far above its share, and the lightest one.
    fn uneven(&self) -> Option<(usize, usize)> {
        let is_above = |instance: &Instance| {
            let heaviest = instance
                .held
                .iter()
                .map(|&place| self.partitions[place].weight)
                .fold(0.0, f64::max);
            // Sums of the same weights in another order may differ by a rounding.
            instance.weight > (self.share + heaviest) * (1.0 + 1e-9)
        };
        let by_weight = |a: &usize, b: &usize| {
            self.instances[*a]
                .weight
                .total_cmp(&self.instances[*b].weight)
        };
        let from = (0..self.instances.len())
            .filter(|&place| is_above(&self.instances[place]))
            .max_by(by_weight)?;
        Some((from, (0..self.instances.len()).min_by(by_weight)?))
    }

    /// What one instance gives another, and gets for it (nothing when it has more partitions), so
    /// that they come nearest to each other; none when nothing brings them nearer.
    fn exchange(&self, from: usize, to: usize, difference: f64) -> Option<(usize, Option<usize>)> {
        let from = &self.instances[from].held;
        let to = &self.instances[to].held;
        let weight = |place: usize| self.partitions[place].weight;
        let nothing = (from.len() > to.len()).then_some(None);
        let mut best = None;
        for (given, &of_given) in from.iter().enumerate() {
            for taken in nothing.into_iter().chain((0..to.len()).map(Some)) {
                let by = weight(of_given) - taken.map_or(0.0, |taken: usize| weight(to[taken]));
                let off = (by - difference / 2.0).abs();
                let is_better = best.is_none_or(|(least, _)| off < least);
                if by > 0.0 && by < difference && is_better {
                    best = Some((off, (given, taken)));
                }
            }
        }
        best.map(|(_, exchange)| exchange)
    }

    /// What has another owner than before, by partition.
    fn moves(self) -> Vec<Move> {
        let mut moves = Vec::new();
        for Instance { number, held, .. } in &self.instances {
            let moved = held
                .iter()
                .map(|&place| &self.partitions[place])
                .filter(|held| held.owner != Some(*number));
            moves.extend(moved.map(|held| Move {
                partition: held.partition,
                from: held.owner,
                to: *number,
            }));
        }
        moves.sort_by_key(|moved| moved.partition);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even(n: u16, owner: impl Fn(u16) -> Option<u16>) -> Vec<Held> {
        (0..n)
            .map(|partition| Held {
                partition,
                weight: 1.0,
                moved: 0,
                owner: owner(partition),
            })
            .collect()
    }

    fn carry_out(partitions: &mut [Held], moves: &[Move]) {
        for moved in moves {
            let held = partitions
                .iter_mut()
                .find(|held| held.partition == moved.partition)
                .unwrap();
            assert_eq!(held.owner, moved.from);
            held.owner = Some(moved.to);
        }
    }

    #[test]
    fn one_that_joins_gets_its_share_from_all_others_and_nothing_moves_among_those() {
        let mut partitions = even(64, |partition| Some(partition % 4));
        let moves = plan(&partitions, &[0, 1, 2, 3, 4]);
        assert_eq!(moves.len(), 12);
        assert!(moves.iter().all(|moved| moved.to == 4));
        carry_out(&mut partitions, &moves);
        let moves = plan(&partitions, &[0, 1, 2, 3]);
        assert_eq!(moves.len(), 12);
        assert!(moves.iter().all(|moved| moved.from == Some(4)));
    }

    #[test]
    fn nobody_moves_without_a_reason_and_surplus_instances_get_nothing() {
        assert_eq!(
            plan(&even(64, |partition| Some(partition / 16)), &[3, 1, 2, 0]),
            []
        );
        assert_eq!(plan(&even(64, |_| Some(0)), &[]), []);
        let moves = plan(&even(2, |_| None), &[0, 1, 2, 3]);
        assert_eq!(
            moves.iter().map(|moved| moved.to).collect::<Vec<_>>(),
            [0, 1]
        );
    }

    #[test]
    fn weights_that_grew_apart_are_evened_out_by_changing_places() {
        let mut partitions = even(8, |partition| Some(partition / 4));
        partitions[..4]
            .iter_mut()
            .for_each(|held| held.weight = 9.0);
        let moves = plan(&partitions, &[0, 1]);
        assert_eq!(moves.len(), 2, "one for one: {moves:?}");
        carry_out(&mut partitions, &moves);
        assert_eq!(plan(&partitions, &[0, 1]), []);
    }

    proptest! {
        /// Goal: the invariants of the module hold after the moves, whatever was before.
        #[test]
        fn all_have_their_share_when_the_moves_are_done(
            held in prop::collection::vec((prop_oneof![Just(0.0), 0.0..10.0, 0.0..1e6], prop::option::of(0_u16..9)), 0..90),
            n_instances in 1_u16..9,
        ) {
            let number = |(partition, &(weight, owner)): (usize, &(f64, Option<u16>))| Held { partition: partition as u16, weight, moved: 0, owner };
            let mut partitions: Vec<Held> = held.iter().enumerate().map(number).collect();
            let instances: Vec<u16> = (0..n_instances).collect();
            let moves = plan(&partitions, &instances);
            carry_out(&mut partitions, &moves);
            let share = partitions.iter().map(|held| held.weight).sum::<f64>() / f64::from(n_instances);
            for &instance in &instances {
                let of: Vec<f64> = partitions.iter().filter(|held| held.owner == Some(instance)).map(|held| held.weight).collect();
                let each = partitions.len() / instances.len();
                prop_assert!((each..=each + usize::from(!partitions.len().is_multiple_of(instances.len()))).contains(&of.len()));
                let heaviest = of.iter().copied().fold(0.0, f64::max);
                prop_assert!(of.iter().sum::<f64>() <= (share + heaviest) * 1.000_001, "{of:?}, share {share}");
            }
            prop_assert!(partitions.iter().all(|held| held.owner.is_some_and(|owner| owner < n_instances)));
            prop_assert_eq!(plan(&partitions, &instances), []);
        }
    }
}
