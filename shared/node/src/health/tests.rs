use super::*;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Status and body of an answer.
fn asked(at: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time limit");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("it takes the question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    (
        status,
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .unwrap_or_default(),
    )
}

fn begin() -> Health {
    Health::begin(SocketAddr::from(([127, 0, 0, 1], 0)), |_| Pages::default()).expect("it begins")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn who_waits_is_alive_and_says_what_for_and_who_runs_is_ready_or_says_why_not() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let health = begin();
    let at = health.listen();
    assert_eq!(
        asked(at, "/readyz"),
        (503, "not ready: it has just begun\n".into())
    );
    health.waits("waits for the broker");
    assert_eq!(
        asked(at, "/readyz"),
        (503, "not ready: waits for the broker\n".into())
    );
    assert_eq!(asked(at, "/healthz"), (200, "alive\n".into()));
    health.prepares("opens its state");
    assert_eq!(
        asked(at, "/readyz"),
        (503, "not ready: opens its state\n".into())
    );
    health.runs(Ok(()));
    assert_eq!(asked(at, "/readyz"), (200, "ready\n".into()));
    health.runs(Err("the disk is full".into()));
    assert_eq!(
        asked(at, "/readyz"),
        (503, "not ready: the disk is full\n".into())
    );
    assert_eq!(asked(at, "/healthz"), (200, "alive\n".into()));
    assert_eq!(asked(at, "/elsewhere").0, 404);
}

#[test]
fn without_a_connection_nobody_is_ready() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let health = begin();
    let is_connected = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asks = is_connected.clone();
    health.connected(move || asks.load(Ordering::Relaxed));
    health.runs(Ok(()));
    assert_eq!(asked(health.listen(), "/readyz").0, 200);
    is_connected.store(false, Ordering::Relaxed);
    assert_eq!(
        asked(health.listen(), "/readyz"),
        (503, format!("not ready: {NOT_CONNECTED}\n"))
    );
}

/// Goal: a process is judged by what it should do. Method: moments are set back as if time had
/// passed.
#[test]
fn a_loop_that_does_not_turn_is_first_not_ready_and_then_not_alive() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let health = begin();
    let Health { shared, .. } = &health;
    // As if the process had begun long ago; neither loop nor runtime has turned since.
    let ago = |age: Duration| Shared {
        origin: Instant::now()
            .checked_sub(age)
            .expect("the machine runs for longer"),
        turned_ms: AtomicU64::new(0),
        beat_ms: AtomicU64::new(0),
        standing: Mutex::new(shared.standing()),
        is_connected: OnceLock::new(),
    };
    health.runs(Ok(()));
    assert_eq!(
        (ago(BELIEVED_FOR / 2).ready(), ago(BELIEVED_FOR / 2).alive()),
        (Ok(()), Ok(()))
    );
    let second = Duration::from_secs(1);
    assert!(
        ago(BELIEVED_FOR + second)
            .ready()
            .is_err_and(|why| why.contains("has not turned for 21 s"))
    );
    assert_eq!(ago(BELIEVED_FOR + second).alive(), Ok(()));
    let hangs = ago(STANDS_STILL_MAX + second);
    assert!(
        hangs
            .alive()
            .is_err_and(|why| why.contains("the loop has not turned for 61 s"))
    );
    // The loop may wait for a broker that is away, in the middle of a turn: then the runtime
    // counts.
    assert!(hangs.is_connected.set(Box::new(|| false)).is_ok());
    assert!(
        hangs
            .alive()
            .is_err_and(|why| why.contains("waits for the broker"))
    );
    hangs
        .beat_ms
        .store(STANDS_STILL_MAX.as_millis() as u64, Ordering::Relaxed);
    assert_eq!(hangs.alive(), Ok(()));
    health.waits("waits for the broker");
    assert!(
        ago(STANDS_STILL_MAX + second)
            .alive()
            .is_err_and(|why| why.contains("(waits for the broker)"))
    );
    health.prepares("opens its state");
    assert_eq!(
        ago(STANDS_STILL_MAX + second).alive(),
        Ok(()),
        "that may take long"
    );
}

/// Goal: a probe never waits for the process. Method: its only thread is kept busy while probes are
/// answered.
#[test]
fn probes_are_answered_while_the_process_is_busy_with_one_thing() {
    let runtime = runtime();
    let (tell, told) = std::sync::mpsc::channel();
    let prober = std::thread::spawn(move || {
        let at: SocketAddr = told.recv().expect("an address");
        let mut took: Vec<Duration> = (0..200)
            .map(|_| {
                let asked_at = Instant::now();
                assert_eq!(asked(at, "/readyz"), (200, "ready\n".into()));
                assert_eq!(asked(at, "/healthz"), (200, "alive\n".into()));
                std::thread::sleep(Duration::from_millis(5));
                asked_at.elapsed()
            })
            .collect();
        took.sort_unstable();
        took[took.len() * 99 / 100]
    });
    let p99 = runtime.block_on(async {
        let health = begin();
        health.runs(Ok(()));
        tell.send(health.listen()).expect("the prober listens");
        let mut turns = 0_u64;
        while !prober.is_finished() {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
        prober.join().expect("all probes were answered")
    });
    assert!(
        p99 < Duration::from_millis(250),
        "p99 of two probes and a pause: {p99:?}"
    );
}

#[test]
fn further_pages_are_served_and_the_server_ends_with_its_process() {
    struct One(Readiness);
    impl Source for One {
        fn tell(&self, to: &mut Exposition) {
            const ROW: rhumb_telemetry::metrics::Row =
                rhumb_telemetry::metrics::Row::gauge("ready", "0 or 1", "Whether it is ready.");
            to.family("rhumb_x", &ROW)
                .value(&[], u8::from(self.0.now().is_ok()));
        }
    }
    let runtime = runtime();
    let _inside = runtime.enter();
    let pages = |readiness| {
        Pages::default()
            .metrics(One(readiness))
            .json("/scale", || r#"{"fetchers":{}}"#.to_owned())
    };
    let health = Health::begin(SocketAddr::from(([127, 0, 0, 1], 0)), pages).expect("it begins");
    let at = health.listen();
    health.runs(Ok(()));
    assert_eq!(asked(at, "/scale"), (200, r#"{"fetchers":{}}"#.into()));
    let (status, text) = asked(at, "/metrics");
    assert_eq!(status, 200);
    assert!(
        text.ends_with("# TYPE rhumb_x_ready gauge\nrhumb_x_ready 1\n"),
        "{text}"
    );
    assert!(
        Health::begin(at, |_| Pages::default()).is_err(),
        "the address is taken"
    );
    drop(health);
    let ended = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        TcpStream::connect(at).is_err()
    });
    assert!(ended, "nobody listens any more");
}
