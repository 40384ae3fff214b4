//! Archiver: keeps what was fetched.
//!
//! In:  responses (fetcher), what documents say of themselves (parser), outcomes (scheduler).
//! Out: WARC files, a CDXJ index beside each, and `crawl.jsonl`.

use anyhow::Context as _;
use archiver::core::{Answer, Archiver, Effect};
use archiver::folder::{Folder, FolderSettings};
use archiver::settings::{Settings, pages_remembered};
use futures::future::BoxFuture;
use rhumb_config::Pipeline;
use rhumb_node::{AnyCore, Context, Shell, Stage, assemble};
use rhumb_telemetry::whole_file;
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages asked of the broker at once: a pull ends at 8 MiB before.
const BATCH: usize = 64;

const STAGE: Stage = Stage {
    name: "archiver",
    about: "Archiver: keeps what was fetched in WARC files with an index, and a line for every \
            outcome",
    sources: sources(StageName::Archiver),
    edges: &[],
    is_required: true,
    metrics: archiver::metrics::METRICS,
    state: None,
    batch: |_| BATCH,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let pipeline = &context.pipeline;
    // Goes with the crawl's state, while the archive stays.
    let marker = pipeline
        .instance_dir(STAGE.name, context.instance)
        .join("begun");
    let log_begun = std::fs::read_to_string(&marker)
        .ok()
        .and_then(|bytes| bytes.parse().ok());
    let settings = FolderSettings {
        dir: pipeline.archive_dir(),
        crawl: pipeline.crawl.clone(),
        instance: context.instance,
        format: pipeline.stages.archiver.format,
        digests: pipeline.stages.archiver.digests,
        pages: pages_remembered(pipeline),
        log_begun,
        about: about(pipeline),
    };
    let (folder, found) = Folder::open(settings)?;
    if log_begun.is_none() {
        // Before the first line is written.
        whole_file::replace(&marker, folder.log_bytes().to_string().as_bytes())
            .with_context(|| format!("cannot write {}", marker.display()))?;
    }
    let origin_ms = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |elapsed| elapsed.as_millis() as u64);
    let log = (folder.log_path(), log_begun.unwrap_or(folder.log_bytes()));
    let core = Archiver::new(Settings::new(pipeline, log, origin_ms), found);
    Ok(assemble(core, FolderShell(Arc::new(Mutex::new(folder)))))
}

/// What every file says of itself.
fn about(pipeline: &Pipeline) -> Vec<(String, String)> {
    let robots = if pipeline.politeness.respect_robots {
        "obey"
    } else {
        "ignore"
    };
    [
        ("software", concat!("rhumb/", env!("CARGO_PKG_VERSION"))),
        ("format", "WARC File Format 1.1"),
        (
            "conformsTo",
            "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        ),
        ("isPartOf", &pipeline.crawl),
        ("http-header-user-agent", &pipeline.user_agent()),
        ("robots", robots),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

struct FolderShell(Arc<Mutex<Folder>>);

impl Shell<Archiver> for FolderShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        let folder = self.0.clone();
        // The core has one thing done at a time: the lock is free.
        let work = tokio::task::spawn_blocking(move || {
            let mut folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
            match effect {
                Effect::Write(batch) => Answer::Written(noted(folder.write(&batch))),
                Effect::Finish => Answer::Finished(noted(folder.finish()).is_some()),
            }
        });
        Box::pin(async move { work.await.unwrap_or(Answer::Broken) })
    }
}

fn noted<T>(result: anyhow::Result<T>) -> Option<T> {
    result
        .inspect_err(|error| tracing::error!("{error:#}: is the disk full?"))
        .ok()
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
