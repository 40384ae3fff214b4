//! The files of the broker's users: a seed for each, and the part of nats-server's configuration
//! that names them all.
//!
//! In: a folder, and the users with their rights. Out: `<user>.nk` with a seed, which its owner
//! alone can read, and `users.conf`, which holds no secret. Invariant: a seed that is there is
//! kept, unless a new one is asked for.

use crate::rights::Rights;
use anyhow::{Context as _, ensure};
use nkeys::{KeyPair, KeyPairType};
use rhumb_telemetry::whole_file;
use rhumb_wire::topology::User;
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// How long a user may take to answer whoever asks it something. The broker remembers for so long
/// whom it may answer. That is longer than anybody waits: an answer that comes too late, from a
/// process that stood still, reaches nobody and is no violation.
const ANSWER_WITHIN_S: u64 = 30;

/// A user at the broker.
#[derive(Debug)]
pub(crate) struct Member {
    /// Who it is.
    pub(crate) user: User,
    /// Its public key.
    pub(crate) nkey: String,
    /// Where its seed is.
    pub(crate) file: PathBuf,
    /// The seed was made now.
    pub(crate) is_new: bool,
    /// What it may do.
    pub(crate) rights: Rights,
}

/// Makes the folder of the users, which its owner alone can read.
///
/// # Errors
/// It cannot be made.
pub(crate) fn folder(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create the folder {}", path.display()))
}

/// The key of a user: that of its file, or a new one when there is none or when one `is_wanted`.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
pub(crate) fn member(
    folder: &Path,
    user: User,
    is_wanted: bool,
    rights: Rights,
) -> anyhow::Result<Member> {
    let file = folder.join(format!("{}.nk", user.name()));
    let known = if is_wanted { None } else { known(&file)? };
    let is_new = known.is_none();
    let pair = match known {
        Some(pair) => pair,
        None => {
            let pair = KeyPair::new_user();
            let seed = pair
                .seed()
                .map_err(|_| anyhow::anyhow!("no seed can be made"))?;
            whole_file::replace(&file, format!("{seed}\n").as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?;
            pair
        }
    };
    Ok(Member {
        user,
        nkey: pair.public_key(),
        file,
        is_new,
        rights,
    })
}

/// The key in a file; none when there is no file.
fn known(file: &Path) -> anyhow::Result<Option<KeyPair>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let pair = KeyPair::from_seed(text.trim())
        .ok()
        .filter(|pair| pair.key_pair_type() == KeyPairType::User);
    ensure!(
        pair.is_some(),
        "{} holds no seed of a user's nkey: put back the one that was there, or remove it for a \
         new one",
        file.display()
    );
    Ok(pair)
}

/// Writes `users.conf`, and returns its path.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(
    folder: &Path,
    crawl: &str,
    account: Option<&str>,
    members: &[Member],
) -> anyhow::Result<PathBuf> {
    let path = folder.join("users.conf");
    whole_file::replace(&path, text(crawl, account, members).as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The users in the language of nats-server's configuration.
fn text(crawl: &str, account: Option<&str>, members: &[Member]) -> String {
    let mut text = format!(
        "# Who may do what at the broker in the crawl '{crawl}': written by `rhumb auth`, which \
         writes it anew when called\n\
         # again. It holds public keys and no secret. In the configuration of nats-server: include \
         \"users.conf\"\n"
    );
    text.push_str(&match account {
        None => "authorization {\n  users: [\n".to_owned(),
        Some(name) => format!("accounts {{ {name} {{\n  jetstream: enabled\n  users: [\n"),
    });
    for Member {
        user, nkey, rights, ..
    } in members
    {
        let Rights {
            publish,
            subscribe,
            answers,
        } = rights;
        let _ = writeln!(
            text,
            "    {{ # {}\n      nkey: {nkey}\n      permissions: {{",
            user.name()
        );
        for (what, subjects) in [("publish", publish), ("subscribe", subscribe)] {
            let quoted: String = subjects
                .iter()
                .map(|subject| format!("          \"{subject}\"\n"))
                .collect();
            let _ = writeln!(text, "        {what}: {{ allow: [\n{quoted}        ] }}");
        }
        if *answers {
            let _ = writeln!(
                text,
                "        allow_responses: {{ max: 1, expires: \"{ANSWER_WITHIN_S}s\" }}"
            );
        }
        text.push_str("      }\n    }\n");
    }
    text.push_str(if account.is_some() {
        "  ]\n} }\n"
    } else {
        "  ]\n}\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn made(folder: &Path, is_wanted: bool) -> Member {
        member(folder, User::Tap, is_wanted, Rights::default()).unwrap()
    }

    #[test]
    fn a_seed_is_kept_until_a_new_one_is_wanted_and_only_its_owner_reads_it() {
        let out = tempfile::tempdir().unwrap();
        let users = out.path().join("a/users");
        folder(&users).unwrap();
        assert_eq!(
            users.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        let first = made(&users, false);
        let again = made(&users, false);
        assert_eq!(
            (first.is_new, again.is_new, &first.nkey),
            (true, false, &again.nkey)
        );
        assert_eq!(
            first.file.metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
        let other = made(&users, true);
        assert!(other.is_new && other.nkey != first.nkey);
        let seed = std::fs::read_to_string(&other.file).unwrap();
        let written =
            std::fs::read_to_string(write(&users, "default", None, &[other]).unwrap()).unwrap();
        assert!(
            seed.starts_with("SU") && !written.contains(seed.trim()),
            "{written}"
        );
    }

    #[test]
    fn a_file_that_holds_something_else_is_not_replaced() {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("tap.nk");
        for text in [
            "swordfish".to_owned(),
            KeyPair::new_account().seed().unwrap(),
        ] {
            std::fs::write(&file, &text).unwrap();
            let error = member(out.path(), User::Tap, false, Rights::default())
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("tap.nk") && !error.contains(&text),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
}
