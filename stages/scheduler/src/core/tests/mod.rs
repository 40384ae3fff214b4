//! The scheduler against made-up resolvers, fetchers and servers. Everything goes through its core,
//! its messages and a store in memory. P1 to P3 and the budgets are checked after every step.

mod address_scenarios;
mod budget_scenarios;
mod checks;
mod circle_scenarios;
mod copies_scenarios;
mod drop_scenarios;
mod fetching;
mod given_scenarios;
mod idle_scenarios;
mod job_scenarios;
mod lift_scenarios;
mod pause_scenarios;
mod properties;
mod queue_scenarios;
mod recrawl_scenarios;
mod report_scenarios;
mod robots_scenarios;
mod scenarios;
mod share_scenarios;
mod signal_scenarios;
mod split_scenarios;
mod text_scenarios;
mod timing;
mod token_scenarios;
mod topic_budget_scenarios;
mod topic_recrawl_scenarios;
mod topic_scenarios;
mod trap_scenarios;
mod trouble_scenarios;
mod twin;
mod two;
mod wall_scenarios;
mod web;
mod world;
