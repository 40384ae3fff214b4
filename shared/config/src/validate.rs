//! What neither the type of a value says nor its range: values that must fit to one another, and
//! texts that must have a form.

use super::check::Check;
use super::log::{LEVELS, Log};
use super::pipeline::Pipeline;
use super::topic::TOPICS_MAX;
use super::units::Bytes;

/// Every value that cannot be, as a message for the operator.
pub(super) fn errors(pipeline: &Pipeline) -> Vec<String> {
    let mut check = Check::default();
    crawl(pipeline, &mut check);
    log(&pipeline.log, &mut check);
    for (number, group) in pipeline.politeness.groups.iter().enumerate() {
        check.group(&format!("politeness.groups[{number}]"), group);
    }
    limits(pipeline, &mut check);
    topics(pipeline, &mut check);
    recrawl(pipeline, &mut check);
    check.streams(&pipeline.edges, pipeline.broker.max_payload);
    let stages = &pipeline.stages;
    check.url_cache("stages.host-splitter.cache", &stages.host_splitter.cache);
    check.url_cache("stages.dedup.cache", &stages.dedup.cache);
    check.replay(pipeline);
    check.user_agent(pipeline);
    check.product_token(&pipeline.network.product_token);
    for (name, value) in &pipeline.network.headers {
        check.header(name, value);
    }
    check.0
}

fn crawl(pipeline: &Pipeline, check: &mut Check) {
    check.name("crawl", &pipeline.crawl);
    check.power_of_two("partitions", pipeline.partitions);
    check.url("broker.url", &pipeline.broker.url);
    check.access(&pipeline.broker);
    let consumers_min = (4 * u32::from(pipeline.partitions)).max(1000);
    check.within(
        "broker.consumers_max",
        pipeline.broker.consumers_max,
        consumers_min,
        1_000_000,
    );
}

fn log(log: &Log, check: &mut Check) {
    if let Some(wrong) = log.wrong_directive() {
        check.0.push(format!(
            "configuration key log.level = '{}': '{wrong}' is neither a level nor MODULE=LEVEL; \
             accepted are such with commas between them, for instance 'warn,fetcher=debug'; levels \
             are {}",
            log.level,
            LEVELS.join(", ")
        ));
    }
}

fn limits(pipeline: &Pipeline, check: &mut Check) {
    let limits = &pipeline.limits;
    // A page carries its headers and its trace beside the body. A payload that is too small has its
    // own message.
    let body_bytes_max = Bytes((pipeline.broker.max_payload.0 / 8 * 7).saturating_sub(64 << 10));
    check.within(
        "limits.body_bytes_max",
        limits.body_bytes_max,
        Bytes(1),
        body_bytes_max,
    );
    for media_type in &limits.skip_types {
        check.media_type("limits.skip_types", media_type);
    }
}

/// The crawl's visits, and those of topics that say themselves which of these they have.
fn recrawl(pipeline: &Pipeline, check: &mut Check) {
    check.recrawl("recrawl", &pipeline.recrawl);
    for (name, topic) in &pipeline.topics {
        let own = &topic.recrawl;
        let is_own = own.policy.is_some() || own.interval_max.is_some() || own.visits_max.is_some();
        if is_own {
            check.recrawl(
                &format!("topics.{name}.recrawl"),
                &pipeline.recrawl_of(name),
            );
        }
    }
}

/// The scopes, and the topics.
fn topics(pipeline: &Pipeline, check: &mut Check) {
    for prefix in &pipeline.scope.prefixes {
        check.surt_prefix("scope.prefixes", prefix);
    }
    check.within("topics", pipeline.topics.len(), 0, TOPICS_MAX);
    for (name, topic) in &pipeline.topics {
        check.topic(name);
        check.topic_budget(name, topic, &pipeline.limits);
        for prefix in topic.scope.prefixes.iter().flatten() {
            check.surt_prefix(&format!("topics.{name}.scope.prefixes"), prefix);
        }
    }
}
