//! World: a synthetic web, and a folder for the crawl of it.

use super::assertions::{assert_conserved, assert_manners, json};
use super::command::path_text;
use super::crawl::Crawl;
use super::running::Finished;
use super::seats::{Seat, alone, seat};
use std::path::{Path, PathBuf};
use synthetic_web::{Profile, SyntheticWeb};
use tempfile::TempDir;

/// The root certificate, in the folder of a world.
const ROOT: &str = "root.pem";

/// A synthetic web, and the folder of one crawl of it.
pub struct World {
    /// The web.
    pub web: SyntheticWeb,
    folder: TempDir,
    _seats: Vec<Seat>,
}

impl World {
    /// Starts a web, beside a few others at most.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn new(profile: Profile) -> World {
        World::on(vec![seat()], profile)
    }

    /// Starts a web as the only one on this machine, for what is measured.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn alone(profile: Profile) -> World {
        World::on(alone(), profile)
    }

    fn on(seats: Vec<Seat>, profile: Profile) -> World {
        let web = SyntheticWeb::start(profile).expect("a synthetic web");
        let world = World {
            web,
            folder: TempDir::new().expect("a temporary folder"),
            _seats: seats,
        };
        if let Some(root) = world.web.root_certificate() {
            std::fs::write(world.folder().join(ROOT), root).expect("room for a certificate");
        }
        world
    }

    /// The environment variable by which a process trusts the certificates of all hosts, where they
    /// have some.
    pub fn trust(&self) -> Option<(&'static str, String)> {
        self.web
            .root_certificate()
            .map(|_| ("SSL_CERT_FILE", path_text(&self.folder().join(ROOT))))
    }

    /// The data directory of its crawl.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A crawl of the whole web: no delay, any scope, from the first host's `/`.
    pub fn crawl(&self) -> Crawl {
        self.bare("crawl").arguments(&[&self.web.seed_urls()[0]])
    }

    /// The crawl that was stopped before goes on, with the configuration that it keeps.
    pub fn resume(&self) -> Crawl {
        self.in_data("crawl").arguments(&["--resume"])
    }

    /// Where its crawl keeps an archive.
    pub fn archive(&self) -> PathBuf {
        self.data().join("archive")
    }

    /// A crawl of an archive, or the pipeline for one, in a folder of its own with that name;
    /// without seeds, and without what leads to the web.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn replay(&self, command: &str, name: &str, archive: &Path) -> Crawl {
        let folder = self
            .replay_data(name)
            .parent()
            .map(Path::to_owned)
            .expect("a folder");
        std::fs::create_dir_all(&folder).expect("a folder");
        let summary = path_text(&folder.join("summary.json"));
        let crawl = Crawl::new(folder, command);
        if command == "crawl" {
            crawl.arguments(&["--summary", &summary])
        } else {
            crawl
        }
        .arguments(&["--data", &path_text(&self.replay_data(name))])
        .set(&format!("stages.fetcher.archive={}", path_text(archive)))
        .set("scope.follow=any")
    }

    /// The data directory of that replay.
    pub fn replay_data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).join("data")
    }

    /// A crawl in a folder of its own, as on another machine, that begins with a checkpoint and its
    /// configuration.
    ///
    /// # Panics
    /// When there is no room for the folder.
    pub fn restored(&self, name: &str, checkpoint: &Path) -> Crawl {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let data = path_text(&folder.join("data"));
        let summary = path_text(&folder.join("summary.json"));
        let checkpoint = path_text(checkpoint);
        let arguments = [
            "--restore",
            &checkpoint,
            "--data",
            &data,
            "--summary",
            &summary,
        ];
        Crawl::new(folder, "crawl").arguments(&arguments)
    }

    /// The folder in which its crawl runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pipeline without seeds.
    pub fn up(&self) -> Crawl {
        self.bare("up")
    }

    /// `rhumb crawl` or `rhumb up` with what a crawl of this web needs, without seeds.
    pub fn bare(&self, command: &str) -> Crawl {
        self.in_data(command)
            .set("network.allow_private_addresses=true")
            .set(&format!("network.nameservers=[\"{}\"]", self.web.dns()))
            .set("politeness.delay=0s")
            .set("scope.follow=any")
    }

    fn in_data(&self, command: &str) -> Crawl {
        let folder = self.folder.path().to_owned();
        let mut crawl = Crawl::new(folder, command);
        if let Some((name, value)) = self.trust() {
            crawl = crawl.environment(name, &value);
        }
        if command == "crawl" {
            crawl.arguments(&["--summary", &path_text(&self.summary_file())])
        } else {
            crawl
        }
        .arguments(&["--data", &path_text(&self.data())])
    }

    fn summary_file(&self) -> PathBuf {
        self.folder.path().join("summary.json")
    }

    /// Asserts what a perfect crawl of the whole web comes to: every URL of the truth requested
    /// once, nothing forbidden or hurried, and each counted under its outcome.
    ///
    /// # Panics
    /// When any of it does not hold.
    pub fn assert_whole(&self, finished: &Finished) {
        let report = self.web.report();
        assert!(report.ok, "{}", json(&report));
        self.assert_counted(finished);
    }

    /// Asserts that the crawl is complete and its numbers those of the truth, whatever was
    /// requested twice.
    ///
    /// # Panics
    /// When any of it does not hold.
    pub fn assert_counted(&self, finished: &Finished) {
        let Finished { code, summary } = finished;
        let report = self.web.report();
        assert_eq!(*code, 0, "exit code");
        assert!(summary.complete, "{}", json(summary));
        assert_eq!(report.missing.count, 0, "{}", json(&report));
        assert_manners(&report);
        assert_eq!(report.hosts_without_robots_first, 0, "{}", json(&report));
        assert_eq!(
            report.malformed + report.misdirected + report.unexpected.count,
            0,
            "{}",
            json(&report)
        );

        let truth = self.web.truth();
        assert_eq!(summary.pages, truth.pages.len() as u64, "{}", json(summary));
        assert_eq!(summary.outcomes, truth.outcomes);
        assert_conserved(summary);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!(
                "the crawl's folder is kept: {}",
                self.folder.path().display()
            );
        }
    }
}
