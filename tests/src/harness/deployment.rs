//! Deployment: the stages of a crawl started one by one at an operator's broker, as a cluster or a
//! person does it.
//!
//! In: a world and a broker. Out: processes with a log each. Invariant: they have ended when the
//! value is dropped.

use super::cluster::Cluster;
use super::command::{COMMAND_AT_MOST, POLL, Said, binaries, ended_within, path_text, run, signal};
use super::world::World;
use rhumb::status::Summary;
use rhumb_wire::topology::StageName;
use rustix::process::Signal;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A crawl whose stages are deployed.
pub struct Deployment {
    folder: TempDir,
    settings: Vec<String>,
    processes: Vec<Deployed>,
}

/// A process of it.
struct Deployed {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Deployment {
    /// Nothing runs yet.
    ///
    /// # Panics
    /// When there is no temporary folder.
    pub fn new(world: &World, broker: &Cluster) -> Deployment {
        let folder = TempDir::new().expect("a temporary folder");
        let settings = vec![
            format!("broker.url={}", broker.url()),
            format!("data={}", path_text(folder.path())),
            format!("network.nameservers=[\"{}\"]", world.web.dns()),
            "network.allow_private_addresses=true".to_owned(),
            "politeness.delay=0s".to_owned(),
            "scope.follow=any".to_owned(),
            "ownership_lease=2s".to_owned(),
        ];
        Deployment {
            folder,
            settings,
            processes: Vec::new(),
        }
    }

    /// Overrides a configuration key of what is started from now on.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Deployment {
        self.settings.push(assignment.to_owned());
        self
    }

    /// Runs a `rhumb` command that knows the address of the broker alone.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn rhumb(&self, arguments: &[&str]) -> Said {
        run(
            self.command(arguments).args(["--set", &self.settings[0]]),
            COMMAND_AT_MOST,
        )
    }

    /// Runs `rhumb` with the configuration of the crawl.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn configured(&self, arguments: &[&str]) -> Said {
        run(
            self.with_settings(&mut self.command(arguments)),
            COMMAND_AT_MOST,
        )
    }

    /// Injects URLs from standard input.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn inject(&self, seeds: &[String]) -> Said {
        let file = self.folder.path().join("seeds");
        std::fs::write(&file, seeds.join("\n")).expect("a file");
        let mut shell = Command::new("sh");
        let line = format!(
            "{} inject --seeds - --set {} < {}",
            path_text(&binaries().join("rhumb")),
            self.settings[0],
            path_text(&file)
        );
        run(shell.args(["-c", &line]), COMMAND_AT_MOST)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binaries().join("rhumb"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    fn with_settings<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for assignment in &self.settings {
            command.args(["--set", assignment]);
        }
        command
    }

    /// Starts a process of a stage. Its name is one that was not used before.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&mut self, name: &str, stage: &str, arguments: &[&str]) {
        let mut command = Command::new(binaries().join(stage));
        self.with_settings(command.args(arguments));
        self.spawn(name, command);
    }

    /// Starts one process of each stage that no crawl can do without.
    ///
    /// # Panics
    /// When one cannot be started.
    pub fn start_stages(&mut self) {
        for stage in StageName::ALL
            .into_iter()
            .filter(|stage| !stage.row().is_optional)
        {
            let instance = if stage.row().keeps_files { "0" } else { "auto" };
            self.start(stage.name(), stage.name(), &["--instance", instance]);
        }
    }

    /// Starts a conductor.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn conduct(&mut self, name: &str, arguments: &[&str]) {
        let mut command = self.command(&["conduct"]);
        let summary = path_text(&self.summary_file());
        self.with_settings(command.args(["--summary", &summary]).args(arguments));
        self.spawn(name, command);
    }

    fn spawn(&mut self, name: &str, mut command: Command) {
        let log = self.folder.path().join(format!("{name}.log"));
        let file = File::create(&log).expect("a log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a log file"))
            .stderr(file)
            .spawn()
            .expect("the program can be started");
        self.processes.push(Deployed {
            name: name.to_owned(),
            child,
            log,
        });
    }

    fn of(&mut self, name: &str) -> &mut Deployed {
        self.processes
            .iter_mut()
            .find(|process| process.name == name)
            .expect("a process of that name")
    }

    /// Its process id.
    ///
    /// # Panics
    /// When none has that name.
    pub fn pid(&mut self, name: &str) -> u32 {
        self.of(name).child.id()
    }

    /// What a process has written.
    ///
    /// # Panics
    /// When none has that name.
    pub fn log(&mut self, name: &str) -> String {
        std::fs::read_to_string(&self.of(name).log).unwrap_or_default()
    }

    /// Waits until a process has written something.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn until_said(&mut self, name: &str, words: &str, at_most: Duration) {
        let end = Instant::now() + at_most;
        while !self.log(name).contains(words) {
            assert!(
                Instant::now() < end,
                "{name} does not say '{words}':\n{}",
                self.log(name)
            );
            std::thread::sleep(POLL);
        }
    }

    /// Kills a process.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(&mut self, name: &str) {
        let child = &mut self.of(name).child;
        child.kill().and_then(|()| child.wait()).expect("it runs");
    }

    /// Sends a process SIGTERM.
    ///
    /// # Panics
    /// When it has ended.
    pub fn terminate(&mut self, name: &str) {
        signal(self.of(name).child.id(), Signal::TERM);
    }

    /// Waits for the end of a process; its exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn ended(&mut self, name: &str, at_most: Duration) -> i32 {
        match ended_within(&mut self.of(name).child, at_most) {
            Some(status) => status.code().unwrap_or(-1),
            None => panic!("{name} does not end:\n{}", self.log(name)),
        }
    }

    fn summary_file(&self) -> PathBuf {
        self.folder.path().join("summary.json")
    }

    /// What the conductor that ended last summed up.
    ///
    /// # Panics
    /// When there is none.
    pub fn summary(&self) -> Summary {
        let bytes = std::fs::read(self.summary_file()).expect("a summary");
        serde_json::from_slice(&bytes).expect("a summary")
    }

    /// How the crawl stands.
    ///
    /// # Panics
    /// When nobody answers.
    pub fn status(&self) -> Summary {
        let said = self.rhumb(&["status", "--json"]);
        serde_json::from_str(&said.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err))
    }

    /// Waits until a condition on its state holds.
    ///
    /// # Panics
    /// When it does not come about in time.
    pub fn until(&self, at_most: Duration, holds: impl Fn(&Summary) -> bool) -> Summary {
        let end = Instant::now() + at_most;
        loop {
            let summary = self.status();
            if holds(&summary) {
                return summary;
            }
            assert!(
                Instant::now() < end,
                "did not come about: {}",
                super::assertions::json(&summary)
            );
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.child.kill();
            let _ = process.child.wait();
            if std::thread::panicking() {
                let log = std::fs::read_to_string(&process.log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                eprintln!(
                    "{}:\n  {}",
                    process.name,
                    lines[lines.len().saturating_sub(12)..].join("\n  ")
                );
            }
        }
    }
}
