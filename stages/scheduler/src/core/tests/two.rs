//! Two schedulers with half of the partitions each, and the ledgers between them.

use super::web::Web;
use super::world::World;
use crate::core::dispatcher::Input;
use crate::keys::schedulers::Schedulers;
use crate::quota::ledger::{Claim, ClaimAnswer, Entered};
use crate::settings::Settings;
use rhumb_partition::Owners;
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Two schedulers, and the ledgers of what they share.
pub(crate) struct Two {
    pub(crate) worlds: [World; 2],
    pub(crate) ledgers: Ledgers,
}

/// The ledgers of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Ledgers {
    /// By key, as text.
    pub(crate) texts: BTreeMap<String, String>,
    /// Claims that were entered.
    pub(crate) entries: u64,
}

impl Ledgers {
    /// Enters a claim into its ledger.
    pub(crate) fn enter(&mut self, claim: &Claim) -> ClaimAnswer {
        self.entries += 1;
        let ledger = self.texts.entry(claim.quota.key()).or_default();
        let Entered { text, answer } = claim.enter(ledger).expect("a ledger");
        *ledger = text.unwrap_or(std::mem::take(ledger));
        answer
    }
}

impl Two {
    pub(crate) fn new(settings: Settings) -> Self {
        let schedulers = |instance| Schedulers::of(&Owners::new(4, 2), instance);
        let settings = |instance| {
            let mut set = settings.clone();
            set.schedulers = schedulers(instance);
            set.politeness.respect_robots = false;
            set
        };
        Two {
            worlds: [
                World::of(settings(0), 0, &[0, 2]),
                World::of(settings(1), 1, &[1, 3]),
            ],
            ledgers: Ledgers::default(),
        }
    }

    /// Passes on the answers of the ledgers and the errands, until there are no more.
    pub(crate) fn exchange(&mut self) {
        for round in 0.. {
            assert!(
                round < 200,
                "they ask each other without a pause: {:?}",
                self.ledgers
            );
            let mut rests = true;
            for me in [0, 1] {
                for claim in std::mem::take(&mut self.worlds[me].claims) {
                    rests = false;
                    let answer = self.ledgers.enter(&claim);
                    self.worlds[me].answer(answer);
                }
                for (partition, errand) in std::mem::take(&mut self.worlds[me].errands) {
                    rests = false;
                    self.worlds[usize::from(partition % 2)].step(Some(Input::Errand(errand)));
                }
            }
            if rests {
                return;
            }
        }
    }

    pub(crate) fn run(&mut self, web: &mut dyn Web, seconds: u32) {
        for _ in 0..seconds {
            for world in &mut self.worlds {
                world.run(web, SECOND);
            }
            self.exchange();
        }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.worlds.iter().map(|world| world.count(name)).sum()
    }
}
