//! `network.user_agent` and `network.product_token`: who the crawler says that it is.
//!
//! Every stage asks here, and so do the commands. A configuration in which the answer is in doubt
//! is refused: another crawler's rules may allow what ours forbid.

use super::check::Check;
use super::pipeline::Pipeline;
use rhumb_robots::product_token::{
    self, PRODUCT_TOKEN_BYTES_MAX, USER_AGENT_BYTES_MAX, Unnamed, is_product_token,
};

impl Pipeline {
    /// The user agent sent with every request.
    pub fn user_agent(&self) -> String {
        if self.network.user_agent.is_empty() {
            concat!("rhumb/", env!("CARGO_PKG_VERSION")).to_owned()
        } else {
            self.network.user_agent.clone()
        }
    }

    /// The product token by which robots.txt, X-Robots-Tag and robots `meta` address this crawler.
    pub fn product_token(&self) -> String {
        // A configuration in which there is none was refused.
        self.found_product_token().unwrap_or_default()
    }

    fn found_product_token(&self) -> Result<String, Unnamed> {
        match self.network.product_token.as_str() {
            "" => product_token::of_user_agent(&self.user_agent()),
            given => Ok(given.to_owned()),
        }
    }
}

impl Check {
    /// The owner of a server must be able to ask who crawls it, and to write rules for this
    /// crawler.
    pub(super) fn user_agent(&mut self, pipeline: &Pipeline) {
        let agent = &pipeline.network.user_agent;
        if agent.len() > USER_AGENT_BYTES_MAX {
            self.0.push(format!(
                "configuration key network.user_agent = '{}': these are {} bytes; accepted are at \
                 most {USER_AGENT_BYTES_MAX}",
                beginning(agent),
                agent.len()
            ));
            return;
        }
        if agent.chars().any(|c| c.is_control() || !c.is_ascii()) {
            self.0.push(format!(
                "configuration key network.user_agent = {agent:?}: accepted are printable ASCII \
                 characters"
            ));
        }
        let names_a_contact =
            agent.contains('@') || agent.contains("http://") || agent.contains("https://");
        let contacts_the_public =
            !pipeline.network.allow_private_addresses && pipeline.replayed().is_none();
        if contacts_the_public && !names_a_contact {
            self.0.push(format!(
                "configuration key network.user_agent = '{agent}': a crawl of the public web needs \
                 an agent that names a contact, such as 'mybot/1.0 (+https://example.org/bot)' or \
                 'mybot/1.0 (crawler@example.org)'; a crawl of private addresses \
                 (network.allow_private_addresses: true) needs none"
            ));
        }
        if let Err(unnamed) = pipeline.found_product_token() {
            self.0.push(format!(
                "configuration key network.user_agent = {agent:?}: by which name robots.txt \
                 addresses this crawler cannot be told: {unnamed}; set network.product_token to \
                 its name, such as network.product_token=mybot, or begin the agent with it, such \
                 as 'mybot/1.0 (+https://example.org/bot)'"
            ));
        }
    }

    /// A name that a robots.txt can have.
    pub(super) fn product_token(&mut self, token: &str) {
        if !token.is_empty() && !is_product_token(token) {
            self.0.push(format!(
                "configuration key network.product_token = '{}': accepted are letters, digits, _ \
                 and -, at most {PRODUCT_TOKEN_BYTES_MAX} and with a letter among them, such as \
                 mybot, or nothing",
                beginning(token)
            ));
        }
    }
}

/// As much of a long value as a message shows, in one line.
fn beginning(value: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let shown: String = value
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(char::escape_default)
        .collect();
    if value.chars().nth(CHARACTERS_MAX).is_some() {
        shown + "…"
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layers;
    use super::*;

    const LOCAL: &str = "network.allow_private_addresses=true";

    fn load(set: &[&str]) -> Result<Pipeline, String> {
        let set = set
            .iter()
            .map(|assignment| (*assignment).to_owned())
            .collect();
        Layers { file: None, set }
            .load_with(std::iter::empty())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_product_token_is_the_one_that_is_given_or_else_that_of_the_user_agent() {
        let browser =
            "network.user_agent=Mozilla/5.0 (X11; Linux) Gecko/20100101 Firefox/125.0 (a@b)";
        let compatible =
            "network.user_agent=Mozilla/5.0 (compatible; mybot/1.0; +https://example.org/bot)";
        for (set, token) in [
            (&[LOCAL][..], "rhumb"),
            (&[compatible], "mybot"),
            (&[compatible, "network.product_token=MJ12bot"], "MJ12bot"),
            (&[browser, "network.product_token=my-bot_2"], "my-bot_2"),
            (&[LOCAL, "network.product_token=mybot"], "mybot"),
            (
                &["stages.fetcher.archive=/a", "network.user_agent=mybot/1.0"],
                "mybot",
            ),
        ] {
            assert_eq!(load(set).unwrap().product_token(), token, "{set:?}");
        }
    }

    #[test]
    fn an_agent_whose_name_cannot_be_told_is_refused_with_the_key_to_set() {
        for (agent, reason) in [
            (
                "(+https://a.test/bot) (another comment)",
                "no product but those of browsers",
            ),
            (
                "Mozilla/5.0 (X11) Gecko/1 Firefox/2",
                "no product but those of browsers",
            ),
            ("my bot/1.0", "'my', or 'my bot'"),
            ("a.b_bot/1.0", "'a.b_bot/1.0' is no product token"),
            ("one/1 (compatible; two/2)", "'one', or 'two'"),
        ] {
            let agent = format!("network.user_agent={agent}");
            for more in [&[LOCAL][..], &[LOCAL, "politeness.respect_robots=false"]] {
                let error = load(&[&[agent.as_str()], more].concat()).unwrap_err();
                assert!(
                    error.contains("network.user_agent")
                        && error.contains("set network.product_token"),
                    "{error}"
                );
                assert!(error.contains(reason), "{error} does not say {reason}");
            }
            load(&[LOCAL, &agent, "network.product_token=mybot"]).unwrap();
        }
    }

    #[test]
    fn a_product_token_with_other_characters_is_refused() {
        for token in [
            "my bot",
            "mybot/1.0",
            "'*'",
            "my.bot",
            "'360'",
            "b\u{f6}t",
            "\"a\\nb\"",
            "'-'",
        ] {
            let error = load(&[LOCAL, &format!("network.product_token={token}")]).unwrap_err();
            assert!(
                error.contains("network.product_token = '")
                    && error.contains("letters, digits, _ and -"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
        let error = load(&[LOCAL, "network.product_token=360"]).unwrap_err();
        assert!(error.contains("network.product_token = 360"), "{error}");
    }

    #[test]
    fn what_is_too_long_is_refused_and_shown_in_part() {
        for key in ["network.user_agent", "network.product_token"] {
            let error = load(&[LOCAL, &format!("{key}={}", "x".repeat(4096))]).unwrap_err();
            assert!(
                error.contains(key) && error.contains("at most") && error.len() < 300,
                "{error}"
            );
        }
        let longest = format!(
            "network.user_agent=mybot (a@b){}",
            ".".repeat(USER_AGENT_BYTES_MAX - 11)
        );
        load(&[&longest]).unwrap();
        load(&[&format!("{longest}.")]).unwrap_err();
    }
}
