//! What the conductor of a crawl knows of the processes with state: what each told last, and how
//! long ago.

use rhumb_stage::ProcessStatus;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a process with state told last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    /// What it told.
    pub(crate) told: ProcessStatus,
    /// Seconds since then; none when it answered just now.
    pub(crate) age_s: Option<f64>,
}

/// All that is known of processes with state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LastKnown {
    /// The processes; none while nobody has answered.
    pub(crate) processes: Vec<Known>,
    /// Partitions are on their way from one to another: the numbers are those from before.
    pub(crate) are_moving: bool,
}

impl Known {
    /// One that does not answer is not ready, and may have anything in hand.
    pub(crate) fn status(self) -> ProcessStatus {
        match self.age_s {
            None => self.told,
            Some(age_s) => ProcessStatus {
                ready: false,
                reason: format!(
                    "it has not answered for {age_s:.0} s; its last known numbers count"
                ),
                idle: false,
                ..self.told
            },
        }
    }

    /// The process, if it does not answer.
    pub(crate) fn silent(&self) -> Option<Silent> {
        let ProcessStatus {
            stage, instance, ..
        } = &self.told;
        self.age_s.map(|age_s| Silent {
            stage: stage.clone(),
            instance: *instance,
            age_s: Some(age_s),
        })
    }
}

/// A process with state that does not answer.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Silent {
    /// Its stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// Seconds since it told the numbers that count for it; none when nobody knows what it counted,
    /// and the sums lack it.
    pub age_s: Option<f64>,
}

impl Silent {
    /// Whether it is this process.
    pub(crate) fn is(&self, process: &ProcessStatus) -> bool {
        (&self.stage, self.instance) == (&process.stage, process.instance)
    }

    /// Whose numbers are old, and how old.
    pub(crate) fn in_short(&self) -> String {
        let Silent {
            stage,
            instance,
            age_s,
        } = self;
        match age_s {
            Some(age_s) => format!("{stage}.{instance} silent for {age_s:.0} s"),
            None => format!("{stage}.{instance} silent"),
        }
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Silent {
            stage,
            instance,
            age_s,
        } = self;
        match age_s {
            Some(age_s) => {
                write!(
                    f,
                    "{stage}.{instance} has not answered for {age_s:.1} s: its last known numbers \
                     count"
                )
            }
            None => write!(
                f,
                "{stage}.{instance} does not answer, and what it counted is not known: the sums \
                 lack it"
            ),
        }
    }
}
