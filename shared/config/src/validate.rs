//! Ranges: what the type of a value alone does not say. The messages come in the order of the
//! functions here.

use super::broker::{MAX_PAYLOAD_MAX, MAX_PAYLOAD_MIN};
use super::check::Check;
use super::log::{LEVELS, Log};
use super::pipeline::Pipeline;
use super::stages::Stages;
use super::topic::TOPICS_MAX;
use super::units::Bytes;
use rhumb_wire::topology::StageName;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Every value that is out of its range, as a message for the operator.
pub(super) fn errors(pipeline: &Pipeline) -> Vec<String> {
    let mut check = Check::default();
    crawl(pipeline, &mut check);
    log(&pipeline.log, &mut check);
    politeness(pipeline, &mut check);
    limits(pipeline, &mut check);
    check.streams(&pipeline.edges, pipeline.broker.max_payload);
    let stages = &pipeline.stages;
    replicas(stages, &mut check);
    host_splitter(stages, &mut check);
    dedup(stages, &mut check);
    resolver(stages, &mut check);
    scheduler(stages, &mut check);
    fetcher_and_parser(stages, &mut check);
    archiver(stages, &mut check);
    check.replay(pipeline);
    network(pipeline, &mut check);
    check.0
}

fn crawl(pipeline: &Pipeline, check: &mut Check) {
    check.name("crawl", &pipeline.crawl);
    check.power_of_two("partitions", pipeline.partitions, 4096);
    check.lasting(
        "ownership_lease",
        pipeline.ownership_lease,
        Duration::from_secs(2),
        Duration::from_secs(60),
    );
    check.within("moves.cpu_share", pipeline.moves.cpu_share, 0.01, 1.0);
    check.lasting(
        "moves.sigterm_wait",
        pipeline.moves.sigterm_wait,
        Duration::ZERO,
        Duration::from_secs(60),
    );
    check.within(
        "broker.max_payload",
        pipeline.broker.max_payload,
        MAX_PAYLOAD_MIN,
        MAX_PAYLOAD_MAX,
    );
    check.url("broker.url", &pipeline.broker.url);
    check.access(&pipeline.broker);
    check.within("broker.replicas", pipeline.broker.replicas, 1, 5);
    let sync_interval = pipeline.broker.sync_interval;
    check.lasting(
        "broker.sync_interval",
        sync_interval,
        Duration::from_millis(1),
        24 * HOUR,
    );
    check.lasting(
        "broker.connect_report_every",
        pipeline.broker.connect_report_every,
        Duration::from_secs(1),
        HOUR,
    );
    check.within(
        "logs.bytes_max",
        pipeline.logs.bytes_max,
        Bytes(64 << 10),
        Bytes(16 << 30),
    );
    check.within("logs.kept", pipeline.logs.kept, 1, 100);
    let consumers_min = (4 * u32::from(pipeline.partitions)).max(1000);
    check.within(
        "broker.consumers_max",
        pipeline.broker.consumers_max,
        consumers_min,
        1_000_000,
    );
    check.lasting(
        "broker.consumer_expiry",
        pipeline.broker.consumer_expiry,
        Duration::from_secs(1),
        24 * HOUR,
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
    check.within("log.repeats_max", log.repeats_max, 0, 1_000_000);
    check.lasting(
        "log.repeats_interval",
        log.repeats_interval,
        Duration::from_secs(1),
        HOUR,
    );
}

fn politeness(pipeline: &Pipeline, check: &mut Check) {
    check.lasting(
        "politeness.delay",
        pipeline.politeness.delay,
        Duration::ZERO,
        HOUR,
    );
    check.lasting(
        "politeness.crawl_delay_max",
        pipeline.politeness.crawl_delay_max,
        Duration::ZERO,
        HOUR,
    );
    check.within(
        "politeness.download_factor",
        pipeline.politeness.download_factor,
        0,
        100,
    );
    check.lasting(
        "politeness.retry_after_max",
        pipeline.politeness.retry_after_max,
        Duration::ZERO,
        24 * HOUR,
    );
    check.within(
        "politeness.connections_per_address",
        pipeline.politeness.connections_per_address,
        0,
        10_000,
    );
    for (number, group) in pipeline.politeness.groups.iter().enumerate() {
        check.group(&format!("politeness.groups[{number}]"), group);
    }
    check.lasting(
        "politeness.robots_lifetime",
        pipeline.politeness.robots_lifetime,
        Duration::from_secs(10),
        24 * HOUR,
    );
}

fn limits(pipeline: &Pipeline, check: &mut Check) {
    let limits = &pipeline.limits;
    // A page carries its headers and its trace beside the body.
    let body_bytes_max = Bytes(pipeline.broker.max_payload.0 / 8 * 7 - (64 << 10));
    check.within(
        "limits.pages_per_host",
        limits.pages_per_host,
        0,
        1_000_000_000,
    );
    check.within(
        "limits.pages_per_domain",
        limits.pages_per_domain,
        0,
        1_000_000_000,
    );
    check.within(
        "limits.sitemaps_per_server",
        limits.sitemaps_per_server,
        0,
        100,
    );
    check.within(
        "limits.body_bytes_max",
        limits.body_bytes_max,
        Bytes(1),
        body_bytes_max,
    );
    check.within(
        "limits.sitemap_bytes_max",
        limits.sitemap_bytes_max,
        Bytes(64 << 10),
        Bytes(1 << 30),
    );
    check.within(
        "limits.header_bytes_max",
        limits.header_bytes_max,
        Bytes(8 << 10),
        Bytes(1 << 20),
    );
    check.within(
        "limits.decoded_bytes_max",
        limits.decoded_bytes_max,
        Bytes(1 << 10),
        Bytes(1 << 30),
    );
    check.lasting(
        "limits.connect_timeout",
        limits.connect_timeout,
        Duration::from_millis(10),
        Duration::from_secs(300),
    );
    check.lasting(
        "limits.request_timeout",
        limits.request_timeout,
        Duration::from_millis(10),
        HOUR,
    );
    check.lasting(
        "limits.first_byte_timeout",
        limits.first_byte_timeout,
        Duration::from_millis(10),
        HOUR,
    );
    check.within(
        "limits.transfer_rate_min",
        limits.transfer_rate_min,
        Bytes(0),
        Bytes(1 << 30),
    );
    check.lasting(
        "limits.transfer_rate_window",
        limits.transfer_rate_window,
        Duration::from_millis(10),
        HOUR,
    );
    for media_type in &limits.skip_types {
        check.media_type("limits.skip_types", media_type);
    }
    check.lasting(
        "limits.first_answer_timeout",
        limits.first_answer_timeout,
        Duration::from_millis(10),
        HOUR,
    );
    check.within("limits.redirects", limits.redirects, 0, 50);
    check.within(
        "limits.url_bytes_max",
        limits.url_bytes_max,
        64,
        rhumb_url::URL_BYTES_MAX,
    );
    check.within("limits.segment_repeats", limits.segment_repeats, 1, 1_000);
    check.within("limits.query_parameters", limits.query_parameters, 0, 1_000);
    topics(pipeline, check);
    check.within("limits.links_per_page", limits.links_per_page, 1, 100_000);
    check.within(
        "limits.links_per_sitemap",
        limits.links_per_sitemap,
        1,
        1_000_000,
    );
}

/// The scopes, and the topics.
fn topics(pipeline: &Pipeline, check: &mut Check) {
    for prefix in &pipeline.scope.prefixes {
        check.surt_prefix("scope.prefixes", prefix);
    }
    check.within("topics", pipeline.topics.len(), 0, TOPICS_MAX);
    for (name, topic) in &pipeline.topics {
        check.topic(name);
        check.within(&format!("topics.{name}.priority"), topic.priority, 0, 9);
        check.within(
            &format!("topics.{name}.pages_min"),
            topic.pages_min,
            0,
            1_000_000_000,
        );
        check.within(
            &format!("topics.{name}.pages_per_second"),
            topic.pages_per_second,
            0,
            1_000_000,
        );
        check.within(
            &format!("topics.{name}.bytes_per_second"),
            topic.bytes_per_second,
            Bytes(0),
            Bytes(1 << 40),
        );
        check.within(
            &format!("topics.{name}.connections_percent"),
            topic.connections_percent,
            1,
            100,
        );
        check.within(
            &format!("topics.{name}.pages_max"),
            topic.pages_max,
            0,
            1_000_000_000_000,
        );
        check.topic_budget(name, topic, &pipeline.limits);
        check.reserved(&format!("topics.{name}.recrawl"), topic.recrawl);
        if let Some(slice) = topic.slice {
            check.lasting(
                &format!("topics.{name}.slice"),
                slice,
                Duration::from_millis(10),
                HOUR,
            );
        }
        for prefix in topic.scope.prefixes.iter().flatten() {
            check.surt_prefix(&format!("topics.{name}.scope.prefixes"), prefix);
        }
    }
}

fn replicas(stages: &Stages, check: &mut Check) {
    for stage in StageName::ALL {
        let replicas_min = u16::from(!stage.row().is_optional);
        check.within(
            &format!("stages.{}.replicas", stage.name()),
            stages.of(stage).replicas,
            replicas_min,
            1000,
        );
    }
}

fn host_splitter(stages: &Stages, check: &mut Check) {
    check.within(
        "stages.host-splitter.batch_urls_max",
        stages.host_splitter.batch_urls_max,
        1,
        4096,
    );
    check.lasting(
        "stages.host-splitter.linger",
        stages.host_splitter.linger,
        Duration::ZERO,
        Duration::from_secs(5),
    );
    check.url_cache("stages.host-splitter.cache", &stages.host_splitter.cache);
}

fn dedup(stages: &Stages, check: &mut Check) {
    let dedup = &stages.dedup;
    check.within(
        "stages.dedup.memtable_bytes",
        dedup.memtable_bytes,
        Bytes(1 << 20),
        Bytes(256 << 20),
    );
    check.within(
        "stages.dedup.store_cache_bytes",
        dedup.store_cache_bytes,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
    check.url_cache("stages.dedup.cache", &dedup.cache);
    check.within(
        "stages.dedup.buffer_bytes",
        dedup.buffer_bytes,
        Bytes(4 << 10),
        Bytes(64 << 30),
    );
    check.within(
        "stages.dedup.filter_bytes_max",
        dedup.filter_bytes_max,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
    check.lasting(
        "stages.dedup.flush_after",
        dedup.flush_after,
        Duration::from_millis(1),
        Duration::from_secs(20),
    );
    check.within(
        "stages.dedup.filter_urls",
        dedup.filter_urls,
        1_000,
        1_000_000_000,
    );
    if dedup.partition_urls_max > 0 {
        check.within(
            "stages.dedup.partition_urls_max",
            dedup.partition_urls_max,
            1_000,
            1_000_000_000_000,
        );
    }
}

fn resolver(stages: &Stages, check: &mut Check) {
    let resolver = &stages.resolver;
    check.within("stages.resolver.window", resolver.window, 1, 65_536);
    check.lasting(
        "stages.resolver.timeout",
        resolver.timeout,
        Duration::from_millis(10),
        Duration::from_secs(60),
    );
    check.within("stages.resolver.attempts", resolver.attempts, 1, 10);
    check.lasting(
        "stages.resolver.hedge_after",
        resolver.hedge_after,
        Duration::from_millis(1),
        Duration::from_secs(60),
    );
    check.within(
        "stages.resolver.cache.entries",
        resolver.cache.entries,
        1,
        100_000_000,
    );
    check.lasting(
        "stages.resolver.cache.refresh",
        resolver.cache.refresh,
        Duration::ZERO,
        24 * HOUR,
    );
    check.lasting(
        "stages.resolver.cache.lifetime_max",
        resolver.cache.lifetime_max,
        resolver.cache.refresh,
        24 * HOUR,
    );
    check.lasting(
        "stages.resolver.cache.negative",
        resolver.cache.negative,
        Duration::ZERO,
        HOUR,
    );
    check.lasting(
        "stages.resolver.cache.temporary",
        resolver.cache.temporary,
        Duration::ZERO,
        HOUR,
    );
    let temporary = resolver.cache.temporary;
    check.lasting(
        "stages.resolver.cache.temporary_max",
        resolver.cache.temporary_max,
        temporary,
        24 * HOUR,
    );
    check.lasting(
        "stages.resolver.cache.snapshot_every",
        resolver.cache.snapshot_every,
        Duration::ZERO,
        24 * HOUR,
    );
}

fn scheduler(stages: &Stages, check: &mut Check) {
    let scheduler = &stages.scheduler;
    check.within(
        "stages.scheduler.requests_per_connection",
        scheduler.requests_per_connection,
        1,
        1000,
    );
    check.lasting(
        "stages.scheduler.slice",
        scheduler.slice,
        Duration::from_millis(10),
        HOUR,
    );
    check.lasting(
        "stages.scheduler.slice_quantum",
        scheduler.slice_quantum,
        Duration::from_millis(1),
        HOUR,
    );
    check.lasting(
        "stages.scheduler.slice_min",
        scheduler.slice_min,
        Duration::from_millis(10),
        scheduler.slice,
    );
    check.lasting(
        "stages.scheduler.visit_budget",
        scheduler.visit_budget,
        Duration::ZERO,
        HOUR,
    );
    check.lasting(
        "stages.scheduler.job_lease",
        scheduler.job_lease,
        Duration::from_secs(2),
        Duration::from_secs(600),
    );
    check.within("stages.scheduler.attempts", scheduler.attempts, 1, 20);
    check.lasting(
        "stages.scheduler.retry_wait",
        scheduler.retry_wait,
        Duration::ZERO,
        HOUR,
    );
    check.lasting(
        "stages.scheduler.retry_wait_max",
        scheduler.retry_wait_max,
        scheduler.retry_wait,
        24 * HOUR,
    );
    check.within(
        "stages.scheduler.resolve_attempts",
        scheduler.resolve_attempts,
        1,
        20,
    );
    check.within(
        "stages.scheduler.server_failures_max",
        scheduler.server_failures_max,
        1,
        100,
    );
    check.within(
        "stages.scheduler.boost_bytes",
        scheduler.boost_bytes,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
    check.within(
        "stages.scheduler.robots_cache_bytes",
        scheduler.robots_cache_bytes,
        Bytes(0),
        Bytes(1 << 30),
    );
    check.within(
        "stages.scheduler.memtable_bytes",
        scheduler.memtable_bytes,
        Bytes(1 << 20),
        Bytes(256 << 20),
    );
    check.within(
        "stages.scheduler.store_cache_bytes",
        scheduler.store_cache_bytes,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
}

fn fetcher_and_parser(stages: &Stages, check: &mut Check) {
    let fetcher = &stages.fetcher;
    check.within("stages.fetcher.connections", fetcher.connections, 1, 10_000);
    check.within(
        "stages.fetcher.bytes_in_hand_max",
        fetcher.bytes_in_hand_max,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
    check.lasting(
        "stages.fetcher.ask_lifetime",
        fetcher.ask_lifetime,
        Duration::from_millis(100),
        Duration::from_secs(10),
    );
    check.lasting(
        "stages.fetcher.renew_every",
        fetcher.renew_every,
        Duration::from_millis(100),
        stages.scheduler.job_lease / 2,
    );
    check.within("stages.fetcher.streams", fetcher.streams, 1, 100);
    check.within(
        "stages.fetcher.tls_sessions",
        fetcher.tls_sessions,
        0,
        1_000_000,
    );
    check.within(
        "stages.parser.pages_in_hand",
        stages.parser.pages_in_hand,
        1,
        1000,
    );
}

fn archiver(stages: &Stages, check: &mut Check) {
    let archiver = &stages.archiver;
    check.within(
        "stages.archiver.file_bytes_max",
        archiver.file_bytes_max,
        Bytes(1 << 20),
        Bytes(64 << 30),
    );
    check.lasting(
        "stages.archiver.file_age_max",
        archiver.file_age_max,
        Duration::from_secs(1),
        30 * 24 * HOUR,
    );
    check.lasting(
        "stages.archiver.linger",
        archiver.linger,
        Duration::from_millis(1),
        Duration::from_secs(10),
    );
    check.within("stages.archiver.compression", archiver.compression, 0, 12);
    check.within(
        "stages.archiver.digests",
        archiver.digests,
        0,
        1_000_000_000,
    );
}

fn network(pipeline: &Pipeline, check: &mut Check) {
    check.user_agent(pipeline);
    check.product_token(&pipeline.network.product_token);
    check.lasting(
        "network.doubt_max",
        pipeline.network.doubt_max,
        Duration::ZERO,
        24 * HOUR,
    );
    for (name, value) in &pipeline.network.headers {
        check.header(name, value);
    }
}
