//! The product token: the name by which robots.txt, X-Robots-Tag and robots `meta` address a
//! crawler (RFC 9309, section 2.2.1).
//!
//! In: a user agent. Out: the product token in it, or why it cannot be told: a crawler that guesses
//! its own name obeys what was written for another one.
//!
//! A user agent is a list of products and comments (RFC 9110, section 10.1.5). The name is the
//! product that a comment has behind `compatible;`, else the first product that is no browser's.
//! Both forms are common: `Mozilla/5.0 (compatible; mybot/1.0; +https://…)` and `mybot/1.0
//! (+https://…)`.
//!
//! Digits are part of a product token, which the RFC's grammar leaves out: `bot1` and `bot2` are
//! two crawlers.

/// Bytes of a product token, at most.
pub const PRODUCT_TOKEN_BYTES_MAX: usize = 64;
/// Bytes of a user agent, at most.
pub const USER_AGENT_BYTES_MAX: usize = 1024;

/// Browsers, their engines and what they run on: names that stand in many user agents, and are no
/// crawler's.
const FOREIGN: &str = "\
                       Mozilla AppleWebKit WebKit KHTML Gecko like Goanna Trident Presto Blink \
                       Servo Chrome Chromium HeadlessChrome CriOS Safari Version Mobile Mini Build \
                       Firefox FxiOS Focus Klar Edg Edge EdgA EdgiOS OPR OPT OPX OPiOS Opera MSIE \
                       IEMobile Netscape Navigator Konqueror SeaMonkey Iceweasel IceCat PaleMoon \
                       Waterfox LibreWolf Minefield Camino Epiphany Midori Falkon Maxthon Vivaldi \
                       Brave Ddg DuckDuckGo Silk SamsungBrowser MiuiBrowser HuaweiBrowser \
                       HeyTapBrowser VivoBrowser UCBrowser QQBrowser MQQBrowser YaBrowser Yowser \
                       Whale Puffin Coc_Coc_browser GSA Dalvik QtWebEngine Electron PhantomJS \
                       jsdom Windows Macintosh iPhone iPad Linux X11 Android Ubuntu Debian Fedora";

/// Why a user agent does not tell a product token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// There are comments, contacts and browsers at most.
    #[error("it names no product but those of browsers")]
    Nobody,
    /// A product whose name has characters that a product token has not, or is too long.
    #[error("'{0}' is no product token")]
    Forbidden(String),
    /// A name without version, and another name behind it.
    #[error("its name may be '{0}', or '{0} {1}'")]
    Words(String, String),
    /// Two names, each in a place where a name may stand.
    #[error("its name may be '{0}', or '{1}'")]
    Several(String, String),
}

/// Returns whether a text is a product token: letters, digits, `_` and `-`, with a letter among
/// them, at most [`PRODUCT_TOKEN_BYTES_MAX`].
pub fn is_product_token(text: &str) -> bool {
    let is_bounded = text.len() <= PRODUCT_TOKEN_BYTES_MAX
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_bounded && text.as_bytes() == at_start_of(text.as_bytes())
}

/// The part of a user-agent line's value that is compared with a product token: what stands before
/// a version or a comment.
pub fn at_start_of(value: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let end = value
        .iter()
        .position(|byte| !is_part(byte))
        .unwrap_or(value.len());
    &value[..end]
}

/// The product token of a user agent.
///
/// # Errors
/// It names nobody, its name is no product token, or it may be one of two.
pub fn of_user_agent(agent: &str) -> Result<String, Unnamed> {
    let mut names = Names::default();
    // Comments that are open, the outermost first; they nest.
    let mut open: Vec<String> = Vec::new();
    let mut characters = agent.chars();
    while let Some(character) = characters.next() {
        match character {
            '(' => open.push(String::new()),
            ')' if !open.is_empty() => names.close(&mut open)?,
            // A character that is quoted stands for itself; outside of comments nothing is quoted.
            '\\' if !open.is_empty() => names.innermost(&mut open).extend(characters.next()),
            other => names.innermost(&mut open).push(other),
        }
    }
    while !open.is_empty() {
        names.close(&mut open)?;
    }
    names.only()
}

/// What a user agent is found to name.
#[derive(Default)]
struct Names {
    /// What stands outside of comments.
    outside: String,
    /// Names behind `compatible;`, each after the product that stands before its comment, if that
    /// is no browser's.
    compatible: Vec<String>,
}

impl Names {
    /// Where the next character belongs.
    fn innermost<'a>(&'a mut self, open: &'a mut [String]) -> &'a mut String {
        open.last_mut().unwrap_or(&mut self.outside)
    }

    /// Takes the innermost comment, which ends here.
    fn close(&mut self, open: &mut Vec<String>) -> Result<(), Unnamed> {
        let comment = open.pop().unwrap_or_default();
        if let Some(name) = compatible_product(&comment)? {
            self.compatible.extend(product(&self.outside)?);
            self.compatible.push(name);
        }
        self.innermost(open).push(' ');
        Ok(())
    }

    /// The one name.
    fn only(self) -> Result<String, Unnamed> {
        let Some(name) = self.compatible.first() else {
            return product(&self.outside)?.ok_or(Unnamed::Nobody);
        };
        match self
            .compatible
            .iter()
            .find(|other| !other.eq_ignore_ascii_case(name))
        {
            Some(other) => Err(Unnamed::Several(name.clone(), other.clone())),
            None => Ok(name.clone()),
        }
    }
}

/// The product that a comment has behind `compatible;`. A browser's names nobody.
fn compatible_product(comment: &str) -> Result<Option<String>, Unnamed> {
    let parts = comment.split(';').map(str::trim);
    let mut behind = parts
        .skip_while(|part| !part.eq_ignore_ascii_case("compatible"))
        .skip(1);
    let Some(part) = behind.find(|part| !part.is_empty()) else {
        return Ok(None);
    };
    let is_browsers = part
        .split_ascii_whitespace()
        .next()
        .is_some_and(|word| is_foreign(name_of(word)));
    if is_browsers { Ok(None) } else { product(part) }
}

/// The first product of a text that is no browser's.
fn product(text: &str) -> Result<Option<String>, Unnamed> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let Some(at) = words.iter().position(|word| may_name(word)) else {
        return Ok(None);
    };
    let word = words[at];
    let name = name_of(word);
    // `compatible;` outside of parentheses says nothing.
    if !is_product_token(name) || name.eq_ignore_ascii_case("compatible") {
        return Err(Unnamed::Forbidden(word.to_owned()));
    }
    // A browser's name without a version may be the first word of ours.
    if at == 1 && is_foreign(words[0]) {
        return Err(Unnamed::Words(words[0].to_owned(), name.to_owned()));
    }
    let is_ended = word.len() > name.len();
    match words.get(at + 1).filter(|next| !is_ended && may_name(next)) {
        Some(next) => Err(Unnamed::Words(name.to_owned(), name_of(next).to_owned())),
        None => Ok(Some(name.to_owned())),
    }
}

/// What stands before the version of a product.
fn name_of(word: &str) -> &str {
    word.split(['/', ';', ',']).next().unwrap_or_default()
}

/// Returns whether a word may be our product: it has letters, and is neither a contact nor a
/// browser's.
fn may_name(word: &str) -> bool {
    let is_contact = word.starts_with('+') || word.contains('@') || word.contains("://");
    let has_letters = word.chars().any(char::is_alphabetic);
    has_letters && !is_contact && !is_foreign(name_of(word))
}

fn is_foreign(name: &str) -> bool {
    FOREIGN
        .split_ascii_whitespace()
        .any(|foreign| foreign.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
