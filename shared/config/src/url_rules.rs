//! The section `url`: its struct is [`rhumb_url::Rules`], which knows no configuration.

use super::keys::{Change, Field, Form, Value};
use rhumb_url::Rules;

impl Value for Rules {
    const FORM: Form = {
        const FIELDS: &[Field] = &[
            rule(
                "sort_query",
                &["Sorts parameters by name: `?b&a` is `?a&b`."],
            ),
            rule(
                "drop_session_ids",
                &["Drops PHPSESSID, jsessionid and the like."],
            ),
            rule(
                "drop_tracking",
                &["Drops utm_*, gclid, fbclid and the like."],
            ),
            rule("drop_index_files", &["Takes /x/index.html for /x/."]),
        ];
        Form::Section(FIELDS)
    };
}

const fn rule(name: &'static str, words: &'static [&'static str]) -> Field {
    Field {
        name,
        words,
        default: Some("false"),
        range: None,
        change: Change::Fixed,
        form: Form::YesNo,
    }
}
