//! Access control at the broker: every process has a user of its own over TLS, and a whole crawl
//! passes; what a user need not do is refused; secrets are shown nowhere; what is wrong with
//! credentials is said in a line.

mod credentials;
mod fleet;
mod refusals;

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
