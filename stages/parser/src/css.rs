//! Style sheets: the URLs that one loads.
//!
//! In: a style sheet, or the value of a `style` attribute, decoded. Out: the URLs of `@import`,
//! `url()` and `image-set()`, escapes resolved, in document order.
//!
//! Read as tokens, not as rules: which rules apply, and which fonts are needed, only a browser with
//! a page at hand can tell, so all are taken. What no browser loads is left out: other at-rules'
//! conditions and namespaces, imports behind the first block, `data:`, and fragments, which mean
//! the document itself.
//!
//! Invariants: any text is accepted; the time is linear in it; nothing is kept but the token at
//! hand, and no function calls itself, however deep blocks nest. Sources: CSS Syntax Module Level
//! 3; CSS Cascading and Inheritance Level 5, section 2; CSS Values and Units Level 4, section 4.5;
//! CSS Images Module Level 4, section 2.4.

use cssparser::{Parser, Token};

/// What a text of CSS is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A style sheet, or what a `style` element holds.
    Sheet,
    /// What a `style` attribute says.
    Declarations,
}

/// Shows the URLs that `css` loads, as written but for escapes, until `show` wants no more.
pub fn urls(css: &str, kind: Kind, mut show: impl FnMut(&str) -> bool) {
    let mut reader = Reader {
        may_import: kind == Kind::Sheet,
        ..Reader::default()
    };
    let mut rest = css;
    loop {
        let mut tokens = Parser::new(rest);
        loop {
            let Ok(token) = tokens.next() else { return };
            if let Some(url) = reader.token(token)
                && is_loaded(url)
                && !show(url)
            {
                return;
            }
            if opens(token) {
                break;
            }
        }
        // The parser would skip the block that begins here, or call itself for it. To another one
        // its tokens are like any.
        rest = &rest[tokens.position().byte_index()..];
    }
}

/// What is known before a token is read.
#[derive(Debug, Default)]
struct Reader {
    /// An import would count here.
    may_import: bool,
    /// What stands between the name of an at-rule and its block, or its end, is being read.
    prelude: Option<Prelude>,
    /// `url(` stands before.
    is_url: bool,
    /// Brackets open inside of `image-set()`; none outside of one.
    in_image_set: Option<usize>,
}

#[derive(Debug)]
struct Prelude {
    /// A URL here is that of an import.
    is_import: bool,
    /// Brackets open in it.
    open: usize,
}

impl Reader {
    /// The URL that this token is, if it is one.
    fn token<'t>(&mut self, token: &'t Token<'_>) -> Option<&'t str> {
        let is_url = std::mem::take(&mut self.is_url);
        if self.prelude.is_some() {
            return self.in_prelude(token, is_url);
        }
        match token {
            Token::UnquotedUrl(url) => return Some(url),
            Token::QuotedString(text) if is_url || self.in_image_set == Some(0) => {
                return Some(text);
            }
            Token::AtKeyword(name) => {
                let is_import = self.may_import && name.eq_ignore_ascii_case("import");
                self.prelude = Some(Prelude { is_import, open: 0 });
            }
            Token::Function(name) if self.in_image_set.is_none() && is_image_set(name) => {
                self.in_image_set = Some(0)
            }
            _ if opens(token) => {
                self.is_url = is_url_function(token);
                self.may_import &= !matches!(token, Token::CurlyBracketBlock);
                self.in_image_set = self.in_image_set.map(|open| open + 1);
            }
            _ if closes(token) => {
                self.in_image_set = self.in_image_set.and_then(|open| open.checked_sub(1))
            }
            _ => {}
        }
        None
    }

    fn in_prelude<'t>(&mut self, token: &'t Token<'_>, is_url: bool) -> Option<&'t str> {
        let prelude = self.prelude.as_mut()?;
        // Only what stands first.
        let is_import = std::mem::take(&mut prelude.is_import);
        match token {
            Token::UnquotedUrl(url) if is_import => return Some(url),
            Token::QuotedString(text) if is_import || is_url => return Some(text),
            Token::Semicolon | Token::CloseCurlyBracket if prelude.open == 0 => self.prelude = None,
            Token::CurlyBracketBlock if prelude.open == 0 => {
                self.prelude = None;
                self.may_import = false;
            }
            _ if opens(token) => {
                prelude.open += 1;
                self.is_url = is_import && is_url_function(token);
            }
            _ if closes(token) => prelude.open = prelude.open.saturating_sub(1),
            _ => {}
        }
        None
    }
}

fn opens(token: &Token<'_>) -> bool {
    matches!(
        token,
        Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock
    )
}

fn closes(token: &Token<'_>) -> bool {
    matches!(
        token,
        Token::CloseParenthesis | Token::CloseSquareBracket | Token::CloseCurlyBracket
    )
}

/// With a URL in quotes it is a function; without them the URL is part of the token.
fn is_url_function(token: &Token<'_>) -> bool {
    matches!(token, Token::Function(name) if name.eq_ignore_ascii_case("url"))
}

fn is_image_set(name: &str) -> bool {
    name.eq_ignore_ascii_case("image-set") || name.eq_ignore_ascii_case("-webkit-image-set")
}

fn is_loaded(url: &str) -> bool {
    let url = url.trim_start_matches(|c| c <= ' ');
    let is_data = url
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    !url.is_empty() && !url.starts_with('#') && !is_data
}
