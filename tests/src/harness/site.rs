//! A site of a test: small, on a loopback address, with answers that the test makes up.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// How a site answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub content_type: String,
    /// Further headers, each with its end of line.
    pub fields: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// An HTML page.
    pub fn html(body: String) -> Answer {
        Answer {
            status: 200,
            content_type: "text/html; charset=utf-8".to_owned(),
            fields: String::new(),
            body,
        }
    }

    /// There is nothing.
    pub fn missing() -> Answer {
        Answer {
            status: 404,
            ..Answer::html(String::new())
        }
    }
}

/// The statuses that were sent, by path.
type Sent = Arc<Mutex<BTreeMap<String, Vec<u16>>>>;

/// A site that is served until the process ends.
pub struct Site {
    /// `http://address:port`.
    pub name: String,
    sent: Sent,
}

impl Site {
    /// Serves what `answer` gives for a path and the lines of a request's head.
    ///
    /// # Panics
    /// When there is no port.
    pub fn serve(answer: impl Fn(&str, &[String]) -> Answer + Send + Sync + 'static) -> Site {
        Site::serve_at("127.0.0.1", answer)
    }

    /// The same at a loopback address: a host of its own.
    ///
    /// # Panics
    /// When there is no port.
    pub fn serve_at(
        address: &str,
        answer: impl Fn(&str, &[String]) -> Answer + Send + Sync + 'static,
    ) -> Site {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let name = format!("http://{}", listener.local_addr().expect("an address"));
        let sent = Sent::default();
        let answer = Arc::new(answer);
        let site = Site {
            name,
            sent: Arc::clone(&sent),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sent = Arc::clone(&sent);
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(&stream, &*answer, &sent));
            }
        });
        site
    }

    /// The statuses that were sent, by path.
    pub fn sent(&self) -> BTreeMap<String, Vec<u16>> {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// One connection; none of its errors is the test's.
fn serve(
    stream: &TcpStream,
    answer: &dyn Fn(&str, &[String]) -> Answer,
    sent: &Sent,
) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let head: Vec<String> = lines
            .by_ref()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let path = head.first()?.split(' ').nth(1)?.to_owned();
        let Answer {
            status,
            content_type,
            fields,
            body,
        } = answer(&path, &head);
        let length = if status == 304 {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head =
            format!("HTTP/1.1 {status} x\r\nContent-Type: {content_type}\r\n{fields}{length}\r\n");
        sent.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(path)
            .or_default()
            .push(status);
        (&mut &*stream).write_all((head + &body).as_bytes()).ok()?;
    }
}
