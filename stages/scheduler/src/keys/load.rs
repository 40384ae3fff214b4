//! Load: the URLs and jobs of one server, or of many together.

/// What one server, or all of them, have in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// URLs that wait.
    pub(crate) waiting: u64,
    /// URLs that wait because a budget is used up; they count among those that wait, too.
    pub(crate) over_budget: u64,
    /// URLs that wait because operators have paused their server; they count among those that wait,
    /// too.
    pub(crate) paused: u64,
    /// URLs of traps, which are kept back; they count among those that wait, too.
    pub(crate) trapped: u64,
    /// URLs in flight.
    pub(crate) in_flight: u64,
    /// Jobs that are out.
    pub(crate) jobs: u64,
    /// Jobs that are out for servers in trouble.
    pub(crate) troubled: u64,
}

impl Load {
    /// Takes away what a server had in hand before, and adds what it has now.
    pub(crate) fn replace(&mut self, had: Load, has: Load) {
        self.waiting = self.waiting + has.waiting - had.waiting;
        self.over_budget = self.over_budget + has.over_budget - had.over_budget;
        self.paused = self.paused + has.paused - had.paused;
        self.trapped = self.trapped + has.trapped - had.trapped;
        self.in_flight = self.in_flight + has.in_flight - had.in_flight;
        self.jobs = self.jobs + has.jobs - had.jobs;
        self.troubled = self.troubled + has.troubled - had.troubled;
    }
}
