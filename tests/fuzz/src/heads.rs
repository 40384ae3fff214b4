//! Goal: whatever a server answers, the client ends the request, and no field that it passes on has
//! a line break or a control character in it; what is passed on can be reported and read for links
//! (P9).
//!
//! Input: what the server sends on a connection, after which it closes. Method: the fetcher's own
//! shell over loopback, so that all of the client is in between. Each connection goes to another
//! address: else ports would run out.

use fetcher::effect::{Answer, Asked, Effect, End, Request, Response, Target};
use fetcher::http::{Http, HttpSettings};
use parser::options::Options;
use parser::page::{Limits, links_by};
use rhumb_wire::message::{JobId, Validators};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

const BODY_BYTES_MAX: usize = 4 << 10;
const HEADER_BYTES_MAX: usize = 8 << 10;
const LIMITS: Limits = Limits {
    decoded_bytes_max: 64 << 10,
    sitemap_bytes_max: 64 << 10,
    links_per_page_max: 20,
    links_per_sitemap_max: 20,
    url_bytes_max: 300,
};

struct Bench {
    runtime: Runtime,
    listener: TcpListener,
    http: Http,
    number: Cell<u32>,
}

thread_local! {
    static BENCH: Bench = Bench::new();
}

/// Takes one input.
pub fn run(data: &[u8]) {
    BENCH.with(|bench| check(bench.answered(data)));
}

impl Bench {
    fn new() -> Bench {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .expect("a free port");
        let pipeline = crate::pipeline(&["network.cookies=true"]);
        let settings = HttpSettings {
            header_bytes_max: HEADER_BYTES_MAX,
            ..HttpSettings::new(&pipeline)
        };
        let ask = Arc::new(|_, _| Box::pin(std::future::ready(Asked::NoScheduler)) as _);
        let http = Http::new(settings, ask).expect("settings that can be used");
        Bench {
            runtime,
            listener,
            http,
            number: Cell::new(0),
        }
    }

    /// How the request ends to which a server answers so.
    fn answered(&self, answer: &[u8]) -> End {
        let number = self.number.get() + 1;
        self.number.set(number);
        let [.., a, b] = number.to_be_bytes();
        let port = self.listener.local_addr().expect("it listens").port();
        let server = format!("http://a.test:{port}");
        let job = JobId {
            scheduler: 0,
            epoch: 1,
            number: number.into(),
        };
        let request = Request {
            job,
            index: 0,
            url: format!("{server}/dir/page"),
            target: Arc::new(Target {
                server,
                addresses: vec![IpAddr::from([127, 1, a, b])],
            }),
            lease_left: Duration::from_secs(20),
            validators: Validators::default(),
            is_page: true,
            body_bytes_max: BODY_BYTES_MAX,
            head_timeout: None,
            http11: false,
        };
        self.runtime.block_on(async {
            let asked = self.http.perform(Effect::Request(request));
            let (_, ended) = tokio::join!(self.serve(answer), asked);
            self.http.perform(Effect::Close { job }).await;
            match ended {
                Answer::Response { end, .. } => end,
                other => panic!("{other:?}"),
            }
        })
    }

    async fn serve(&self, answer: &[u8]) {
        let (mut stream, _) = self.listener.accept().await.expect("a connection");
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut asked).await.expect("a request");
        }
        // The client may have read enough.
        let _ = stream.write_all(answer).await;
        let _ = stream.shutdown().await;
    }
}

fn check(end: End) {
    let End::Response(response) = end else { return };
    let Response {
        status,
        headers,
        body,
        ..
    } = &*response;
    assert!((100..1000).contains(status) && body.len() <= BODY_BYTES_MAX);
    let mut bytes = 0;
    for (name, value) in headers {
        assert!(
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
        );
        assert!(
            value
                .iter()
                .all(|byte| *byte == b'\t' || !byte.is_ascii_control()),
            "{name}: {value:?}"
        );
        assert_eq!(value.trim_ascii(), value, "{name}");
        bytes += name.len() + value.len();
    }
    assert!(bytes <= HEADER_BYTES_MAX);
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_slice()))
        .collect();
    let page = parser::page::Response {
        url: "http://a.test/dir/page",
        status: *status,
        headers: &headers,
        body,
    };
    let found = links_by(&page, &LIMITS, &Options::default(), "rhumb");
    // What leads back to its own URL has a target.
    assert!(!response.leads_back || found.redirect);
}
