//! `rhumb`: runs, watches and steers a crawl. The library is the program.

fn main() -> std::process::ExitCode {
    rhumb::main()
}
