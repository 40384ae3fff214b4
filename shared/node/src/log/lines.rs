//! Log lines as JSON: one object a line, its fields flat.
//!
//! In: events. Out: `time` (RFC 3339, UTC), `level`, `target`, `message`, `stage`, `instance`, then
//! the event's own fields.
//!
//! Invariant: a line is one valid JSON object whatever an event says, and no field hides when,
//! where and by whom it was said.

use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The instance that this process is of its stage.
static INSTANCE: AtomicU32 = AtomicU32::new(0);

/// Says which instance this process is of its stage, once that is known: lines name 0 until then.
pub fn instance_is(instance: u16) {
    INSTANCE.store(u32::from(instance), Ordering::Relaxed);
}

/// Which instance this process is of its stage, as far as that is known.
pub fn instance() -> u16 {
    u16::try_from(INSTANCE.load(Ordering::Relaxed)).unwrap_or_default()
}

/// Writes the events of a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLines(pub(super) &'static str);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        writeln!(line, "{}", Value::Object(fields(self.0, time, event)))
    }
}

fn fields(stage: &str, time: String, event: &Event<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("time".to_owned(), time.into());
    fields.insert("level".to_owned(), event.metadata().level().as_str().into());
    fields.insert("target".to_owned(), event.metadata().target().into());
    fields.insert("message".to_owned(), "".into());
    fields.insert("stage".to_owned(), stage.into());
    fields.insert(
        "instance".to_owned(),
        INSTANCE.load(Ordering::Relaxed).into(),
    );
    event.record(&mut Flat(&mut fields));
    fields
}

/// Names that an event's own fields do not have: a field that says something else under one is
/// written as `its_...`.
const RESERVED: [&str; 5] = ["time", "level", "target", "stage", "instance"];

/// Takes the fields of an event in.
struct Flat<'a>(&'a mut Map<String, Value>);

impl Flat<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        if !RESERVED.contains(&field.name()) {
            self.0.insert(field.name().to_owned(), value);
        } else if self.0.get(field.name()) != Some(&value) {
            self.0.insert(format!("its_{field}"), value);
        }
    }
}

impl Visit for Flat<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Written;
        fn make_writer(&self) -> Written {
            self.clone()
        }
    }

    fn lines_of(events: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(written.clone())
            .event_format(JsonLines("fetcher"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), events);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_line_is_one_flat_object_whatever_an_event_says() {
        let lines = lines_of(|| {
            tracing::warn!(
                server = "http://a.test",
                waits_s = 7u64,
                delay = 0.5,
                "line one\nline \"two\" {}",
                '\u{1}'
            );
            tracing::info!(level = "mine", time = "mine", stage = "dedup", what = ?Some(1), is = true, n = -1);
        });
        assert_eq!(lines.len(), 2);
        for line in &lines {
            let keys: Vec<&String> = line.as_object().unwrap().keys().take(6).collect();
            let first = ["time", "level", "target", "message", "stage", "instance"];
            assert_eq!(
                keys, first,
                "whoever reads a line finds these at its beginning"
            );
        }
        let [warn, info] = lines.as_slice() else {
            unreachable!()
        };
        assert_eq!(
            (&warn["level"], &warn["stage"], &warn["instance"]),
            (&"WARN".into(), &"fetcher".into(), &0.into())
        );
        assert_eq!(warn["message"], "line one\nline \"two\" \u{1}");
        assert_eq!(
            (&warn["server"], &warn["waits_s"]),
            (&"http://a.test".into(), &7.into())
        );
        assert_eq!(
            (&warn["delay"], &warn["target"]),
            (&0.5.into(), &"rhumb_node::log::lines::tests".into())
        );
        let time = warn["time"].as_str().unwrap();
        assert!(
            time.len() >= 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T',
            "{time}"
        );
        assert_eq!(
            (&info["level"], &info["its_level"], &info["its_time"]),
            (&"INFO".into(), &"mine".into(), &"mine".into())
        );
        assert_eq!(
            (&info["its_stage"], &info["what"], &info["is"], &info["n"]),
            (
                &"dedup".into(),
                &"Some(1)".into(),
                &true.into(),
                &(-1).into()
            )
        );
        assert_eq!(info["message"], "");
    }
}
