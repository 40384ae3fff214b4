//! Shapes: what the URLs of a part of a site have in common, so that a part without end is known by
//! its form.
//!
//! A shape is the path and the names in the query. Numbers, hexadecimal numbers and values say
//! which page of the part it is, and are left out: `/calendar/2031/7?view=day` has the shape
//! `/calendar/0/0?view`.
//!
//! Invariant: the shape of a shape is itself, so people can name one.

use super::server_of;

/// A token of hexadecimal digits with at least this many bytes, one of them a decimal digit, is a
/// number.
const HEX_BYTES_MIN: usize = 4;

/// The shape of a canonical URL.
pub fn shape(url: &str) -> String {
    let mut shape = String::with_capacity(url.len());
    visit(url, &mut |byte| shape.push(char::from(byte)));
    shape
}

/// The hash of a canonical URL's server and shape (FNV-1a, 64 bits).
pub fn shape_hash(url: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    server_of(url).bytes().for_each(&mut add);
    visit(url, &mut add);
    hash
}

/// Visits the bytes of a URL's shape.
fn visit(url: &str, add: &mut dyn FnMut(u8)) {
    let mut rest = &url.as_bytes()[server_of(url).len()..];
    let mut is_query = false;
    while let [first, after @ ..] = rest {
        let token = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        if token > 0 {
            visit_token(&rest[..token], add);
            rest = &rest[token..];
        } else if *first == b'=' {
            // A value goes up to the next parameter; one in a path (`;jsessionid=…`) up to the next
            // segment, too.
            let ends: &[u8] = if is_query { b"&;" } else { b"&;/?" };
            rest = &rest[rest
                .iter()
                .position(|byte| ends.contains(byte))
                .unwrap_or(rest.len())..];
        } else {
            is_query |= *first == b'?';
            add(*first);
            rest = after;
        }
    }
}

/// Visits what is left of a token: letters, and `0` for each number in it.
fn visit_token(token: &[u8], add: &mut dyn FnMut(u8)) {
    let is_hex = token.len() >= HEX_BYTES_MIN && token.iter().all(u8::is_ascii_hexdigit);
    if is_hex && token.iter().any(u8::is_ascii_digit) {
        return add(b'0');
    }
    let mut is_number = false;
    for byte in token {
        let was_number = std::mem::replace(&mut is_number, byte.is_ascii_digit());
        match (was_number, is_number) {
            (true, true) => {}
            (false, true) => add(b'0'),
            (_, false) => add(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_values_are_left_out() {
        for (path, expected) in [
            ("/", "/"),
            ("/calendar/2031/7", "/calendar/0/0"),
            ("/calendar/2031/7/", "/calendar/0/0/"),
            ("/x12b/page-007.html", "/x0b/page-0.html"),
            ("/x?day=5&view=month&q", "/x?day&view&q"),
            ("/x?7", "/x?0"),
            ("/x?a=1/2?3&b=3", "/x?a&b"),
            ("/p;jsessionid=00ab/q?c=1", "/p;jsessionid/q?c"),
            ("/deadbeef01/cafe", "/0/cafe"),
            ("/550e8400-e29b-41d4-a716-446655440000", "/0-0-0-0-0"),
            ("/face/dec4de/be1", "/face/0/be0"),
        ] {
            let url = format!("http://a.test:81{path}");
            assert_eq!(shape(&url), expected, "{path}");
        }
    }

    #[test]
    fn equal_shapes_of_a_server_have_equal_hashes_and_no_others() {
        let hash = |url: &str| shape_hash(url);
        assert_eq!(
            hash("http://a.test/p/1?x=2"),
            hash("http://a.test/p/22?x=3")
        );
        assert_ne!(hash("http://a.test/p/1"), hash("http://b.test/p/1"));
        assert_ne!(hash("http://a.test/p/1"), hash("http://a.test/p/1/"));
        assert_ne!(hash("http://a.test/p/1"), hash("https://a.test/p/1"));
    }

    proptest! {
        #[test]
        fn the_shape_of_a_shape_is_itself(path in "(/[a-f0-9x;=?&.%-]{0,12}){0,4}") {
            let url = format!("http://a.test{path}");
            let server = "http://a.test";
            let shaped = format!("{server}{}", shape(&url));
            prop_assert_eq!(shape(&shaped), &shaped[server.len()..]);
            prop_assert_eq!(shape_hash(&shaped), shape_hash(&url));
        }
    }
}
