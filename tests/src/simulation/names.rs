//! Names: the simulated name servers: latency, failures that pass, a name that does not exist, and
//! times in which none of them answers.

use super::dice::Dice;
use super::graph::{Graph, Name};
use super::plan::{MILLISECOND, Micros, Plan, SECOND};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// What a query brings.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Address(IpAddr, u32),
    Missing,
    Failure,
}

/// The name servers.
pub(crate) struct Names {
    hosts: HashMap<String, (Name, IpAddr)>,
    /// Failures left, by host.
    failures: HashMap<String, u32>,
    pub(crate) queries: u64,
    /// Queries that no name server answered.
    pub(crate) unanswered: u64,
}

impl Names {
    pub(crate) fn new(graph: &Graph, plan: &Plan) -> Names {
        // Where connections to an address are limited, many a server shares one.
        let addresses = if plan.pipeline.politeness.connections_per_address > 0 {
            3
        } else {
            usize::MAX
        };
        let mut hosts = HashMap::new();
        let mut failures = HashMap::new();
        for (number, server) in graph.servers.iter().enumerate() {
            let address = match server.name {
                Name::Private => Ipv4Addr::new(10, 0, 0, number as u8),
                Name::Address(_) | Name::Missing => address(number % addresses),
            };
            if let Name::Address(times) = server.name {
                failures.insert(server.host().to_owned(), times);
            }
            hosts.insert(
                server.host().to_owned(),
                (server.name.clone(), address.into()),
            );
        }
        Names {
            hosts,
            failures,
            queries: 0,
            unanswered: 0,
        }
    }

    /// What a query for a host brings, and after how long. `are_dead`: no name server answers.
    pub(crate) fn query(&mut self, host: &str, are_dead: bool, dice: &mut Dice) -> (Micros, Found) {
        self.queries += 1;
        if are_dead {
            self.unanswered += 1;
            return (dice.within(SECOND..6 * SECOND), Found::Failure);
        }
        let latency = dice.within(MILLISECOND..200 * MILLISECOND);
        if let Some(failures) = self.failures.get_mut(host)
            && *failures > 0
        {
            *failures -= 1;
            return (latency + dice.within(0..2) * SECOND, Found::Failure);
        }
        let found = match self.hosts.get(host) {
            None | Some((Name::Missing, _)) => Found::Missing,
            Some((_, address)) => Found::Address(*address, dice.within(20..300) as u32),
        };
        (latency, found)
    }
}

/// The address of that number; none is private (P7).
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(93, 184, (number >> 8) as u8, number as u8)
}
