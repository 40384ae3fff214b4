//! `rhumb auth`: the broker's users, one for each stage and role, with what each may do.

use super::arguments::{BadArguments, Which};
use crate::handle;
use crate::output::line;
use crate::rights::{self, Rights};
use crate::users::{self, Member};
use clap::Args;
use rhumb_wire::topology::User;
use serde_json::json;
use std::path::PathBuf;

/// Writes the broker's users: a key for each stage and role, and the configuration that says what
/// each may do
#[derive(Args)]
#[command(
    after_help = "Writes DIR/<user>.nk, a seed that only its user should have, and DIR/users.conf, which nats-server \
includes. Keys that are there are kept: call it again after an upgrade, and let the broker read its configuration again.

Users: host-splitter dedup resolver scheduler fetcher parser archiver init conductor operator tap

Examples:
  rhumb auth --out users
  rhumb auth --out users --rotate fetcher && nats-server --signal reload
  rhumb auth --out users --set crawl=news --account NEWS      several crawls on one broker: an account for each
  kubectl create secret generic rhumb-users --from-file users
  rhumb status --set broker.url=tls://broker.example:4222 --set broker.credentials=users/tap.nk"
)]
pub(super) struct Auth {
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "users")]
    out: PathBuf,
    /// Make a new key for this user. Repeatable
    #[arg(long, value_name = "USER")]
    rotate: Vec<String>,
    /// Put the users into an account of this name, with JetStream, rather than at the top of the
    /// configuration
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// One JSON object for each user: name, public key, file of the seed, rights
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Auth {
    /// Writes the files and says what is in them.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let pipeline = handle::local(&self.which.layers())?;
        let rotate = self
            .rotate
            .iter()
            .map(|name| user(name))
            .collect::<Result<Vec<User>, _>>()?;
        if let Some(name) = &self.account {
            check_account(name)?;
        }
        users::folder(&self.out)?;
        let member = |user: User| {
            users::member(
                &self.out,
                user,
                rotate.contains(&user),
                rights::of(user, &pipeline),
            )
        };
        let members = User::ALL
            .into_iter()
            .map(member)
            .collect::<anyhow::Result<Vec<Member>>>()?;
        let file = users::write(
            &self.out,
            &pipeline.crawl,
            self.account.as_deref(),
            &members,
        )?;
        if self.json {
            members.iter().for_each(|member| line(in_json(member)));
            return Ok(());
        }
        for Member {
            user,
            nkey,
            file,
            is_new,
            ..
        } in &members
        {
            let news = if *is_new { "  new" } else { "" };
            line(format_args!(
                "{:14} {nkey}  {}{news}",
                user.name(),
                file.display()
            ));
        }
        line(format_args!(
            "what each may do is in {}: include it in nats-server's configuration",
            file.display()
        ));
        Ok(())
    }
}

fn user(name: &str) -> Result<User, BadArguments> {
    User::from_name(name).ok_or_else(|| {
        let names = User::ALL.map(User::name).join(", ");
        BadArguments(format!("there is no user '{name}'; users are {names}"))
    })
}

/// An account's name stands in the broker's configuration as it is.
fn check_account(name: &str) -> Result<(), BadArguments> {
    let is_good = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_good {
        return Ok(());
    }
    Err(BadArguments(format!(
        "--account '{name}': accepted are a letter and then letters, digits, - and _"
    )))
}

fn in_json(
    Member {
        user,
        nkey,
        file,
        is_new,
        rights,
    }: &Member,
) -> String {
    let Rights {
        publish,
        subscribe,
        answers,
    } = rights;
    json!({
        "user": user.name(),
        "nkey": nkey,
        "file": file,
        "is_new": is_new,
        "publish": publish,
        "subscribe": subscribe,
        "answers": answers,
    })
    .to_string()
}
