//! Names that no name server is asked for: those of this machine, those that are reserved, and what
//! is no name.
//!
//! In: a name. Out: whether it is answered without a query, so that its answer says nothing of any
//! name server. Sources: RFC 6761, RFC 7686; RFC 1035, section 2.3.4.

/// Their last labels.
const LAST_LABELS: [&[u8]; 3] = [b"localhost", b"invalid", b"onion"];
/// Bytes of a label, and of a name, at most.
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

/// Returns whether names with this last label are answered without a query.
pub(crate) fn is_last_label(label: &[u8]) -> bool {
    LAST_LABELS
        .iter()
        .any(|special| special.eq_ignore_ascii_case(label))
}

/// Returns whether a name is answered without a query.
pub(crate) fn is_answered_here(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_name = name.len() <= NAME_BYTES_MAX
        && name
            .split('.')
            .all(|label| (1..=LABEL_BYTES_MAX).contains(&label.len()));
    !is_name
        || name
            .rsplit('.')
            .next()
            .is_some_and(|last| is_last_label(last.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_no_names_are_answered_without_a_query() {
        let label = "x".repeat(LABEL_BYTES_MAX);
        let longest = [&*label, &label, &label, &label[..61]].join(".");
        for name in [
            "localhost",
            "a.Localhost.",
            "b.onion",
            "c.invalid",
            "",
            ".",
            "a..b",
            &format!("{label}x.test"),
            &format!("{longest}x"),
        ] {
            assert!(is_answered_here(name), "{name}");
        }
        for name in [
            "a.test",
            "a.test.",
            "onion.test",
            &format!("{label}.test"),
            &longest,
        ] {
            assert!(!is_answered_here(name), "{name}");
        }
    }
}
