//! Circles: what servers share for politeness, watched from outside the cores: jobs out at one
//! address or in one group, over all schedulers, and the time between two contacts of a group.

use super::plan::Micros;
use rhumb_config::{Group, Pipeline};
use rhumb_url::{host_of, registered_domain};
use rhumb_wire::message::JobId;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Servers that share a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Circle {
    Address(IpAddr),
    /// A group by its place in the configuration, with the domain where each is one.
    Group(usize, String),
}

/// What was seen of one circle.
#[derive(Default)]
struct Seen {
    /// Jobs that were granted in it, and have not ended.
    jobs: Vec<JobId>,
    last_contact: Option<Micros>,
}

/// All circles.
pub(crate) struct Circles {
    /// 0: no limit.
    per_address: usize,
    groups: Vec<Group>,
    seen: HashMap<Circle, Seen>,
}

impl Circles {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let politeness = &pipeline.politeness;
        Circles {
            per_address: politeness.connections_per_address as usize,
            groups: politeness.groups.clone(),
            seen: HashMap::new(),
        }
    }

    fn group_of(&self, server: &str) -> Option<Circle> {
        let host = host_of(server);
        let number = self.groups.iter().position(|group| group.has(host))?;
        let domain = if self.groups[number].by.is_some() {
            registered_domain(host)
        } else {
            ""
        };
        Some(Circle::Group(number, domain.to_owned()))
    }

    /// A job was granted; `is_valid` says which jobs may be out. Gives what is wrong with that.
    pub(crate) fn granted(
        &mut self,
        job: JobId,
        server: &str,
        address: Option<IpAddr>,
        is_valid: impl Fn(JobId) -> bool,
    ) -> Vec<String> {
        let address = address
            .filter(|_| self.per_address > 0)
            .map(Circle::Address);
        let mut wrong = Vec::new();
        for circle in address.into_iter().chain(self.group_of(server)) {
            let max = match &circle {
                Circle::Address(_) => self.per_address,
                Circle::Group(number, _) => self.groups[*number].jobs_at_once() as usize,
            };
            let seen = self.seen.entry(circle.clone()).or_default();
            seen.jobs.retain(|job| is_valid(*job));
            seen.jobs.push(job);
            if seen.jobs.len() > max {
                wrong.push(format!(
                    "{circle:?} has {:?} out at once, {max} are allowed",
                    seen.jobs
                ));
            }
        }
        wrong
    }

    /// A server is contacted. Gives what is wrong with that.
    pub(crate) fn contacted(&mut self, now: Micros, server: &str, job: JobId) -> Option<String> {
        let circle = self.group_of(server)?;
        let Circle::Group(number, _) = circle else {
            return None;
        };
        let delay = self.groups[number].delay;
        let before = self
            .seen
            .entry(circle.clone())
            .or_default()
            .last_contact
            .replace(now);
        let since = Duration::from_micros(now - before?);
        (since < delay).then(|| {
            format!("{job:?} contacts {server} {since:?} after the last contact of {circle:?}")
        })
    }
}
