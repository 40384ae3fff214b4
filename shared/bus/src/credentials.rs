//! Files with credentials: the seed of an nkey, or a NATS credentials file with a JWT and a seed.
//!
//! In: the path of a file. Out: the keys that sign what the broker asks ([`Keys`]), or what is
//! wrong with the file. Invariant: nothing of what a file holds is in an error.

use async_nats::Auth;
use nkeys::{KeyPair, KeyPairType};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The largest file that is read, in bytes; a JWT with many rights has some tens of thousands.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The lines that begin the two parts of a NATS credentials file.
const JWT: &str = "BEGIN NATS USER JWT";
const SEED: &str = "BEGIN USER NKEY SEED";

/// What is accepted where a file with credentials is named.
pub(super) const ACCEPTED: &str = "accepted is a file with the seed of a user's nkey (SU..., as \
                                   `rhumb auth` writes it), or a NATS credentials file with a \
                                   user's JWT and seed";

/// The keys of a user.
pub(super) struct Keys {
    jwt: Option<String>,
    pair: KeyPair,
}

impl Keys {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is neither of the two: why, without anything that it holds.
    pub(super) fn read(path: &Path) -> Result<Keys, String> {
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| format!("it cannot be read ({error})"))?;
        Keys::parse(&text)
    }

    fn parse(text: &str) -> Result<Keys, String> {
        let (jwt, seed) = match text.trim() {
            "" => return Err("it is empty".to_owned()),
            text if text.contains(JWT) => {
                let jwt = after(text, JWT).ok_or("it has no JWT where one should be")?;
                let seed = after(text, SEED).ok_or("it has a JWT and no seed")?;
                (Some(jwt.to_owned()), seed)
            }
            seed => (None, seed),
        };
        let pair =
            KeyPair::from_seed(seed).map_err(|_| "it holds no seed of an nkey".to_owned())?;
        match pair.key_pair_type() {
            KeyPairType::User => Ok(Keys { jwt, pair }),
            _ => Err("the seed in it is none of a user".to_owned()),
        }
    }

    /// The answer to what a broker asks to be signed.
    pub(super) fn answer(&self, nonce: &[u8]) -> Result<Auth, String> {
        let mut auth = Auth::new();
        auth.signature = Some(
            self.pair
                .sign(nonce)
                .map_err(|_| "the seed in it cannot sign".to_owned())?,
        );
        match &self.jwt {
            Some(jwt) => auth.jwt = Some(jwt.clone()),
            None => auth.nkey = Some(self.pair.public_key()),
        }
        Ok(auth)
    }
}

/// The line behind the one that begins a part.
fn after<'a>(text: &'a str, begins: &str) -> Option<&'a str> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.contains(begins))
        .skip(1);
    lines
        .next()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.e30.c2ln\n------END NATS USER JWT------\n\n*** \
             IMPORTANT ***\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn a_seed_alone_and_a_credentials_file_both_sign() {
        let pair = KeyPair::new_user();
        let seed = pair.seed().unwrap();
        for (text, jwt) in [
            (format!("{seed}\n"), None),
            (file(&seed), Some("eyJ0.e30.c2ln")),
        ] {
            let auth = Keys::parse(&text)
                .map_err(|error| panic!("{error}"))
                .unwrap()
                .answer(b"nonce")
                .unwrap();
            assert_eq!(auth.jwt.as_deref(), jwt);
            assert_eq!(auth.nkey.is_some(), jwt.is_none());
            pair.verify(b"nonce", &auth.signature.unwrap()).unwrap();
        }
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_nothing_of_it_is_shown() {
        let user = KeyPair::new_user().seed().unwrap();
        let account = KeyPair::new_account().seed().unwrap();
        let cut = &user[..user.len() - 3];
        for (text, part) in [
            (String::new(), "empty"),
            ("swordfish".to_owned(), "no seed"),
            (cut.to_owned(), "no seed"),
            (account.clone(), "none of a user"),
            (file(cut), "no seed"),
            (file(&user).replace("eyJ0.e30.c2ln", ""), "no JWT"),
            (file(&user).replace("USER NKEY", "NKEY"), "and no seed"),
        ] {
            let error = Keys::parse(&text).err().expect("it is refused");
            assert!(error.contains(part), "{error}");
            assert!(
                ![&user, &account, "swordfish"]
                    .iter()
                    .any(|secret| error.contains(*secret)),
                "{error}"
            );
        }
    }
}
