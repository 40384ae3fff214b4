//! Charsets: who declares one, and who is believed.

use encoding_rs::{
    EUC_JP, Encoding, ISO_8859_2, KOI8_R, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1251,
    WINDOWS_1252,
};
use parser::charset::{charset, charset_in_content_type};
use rhumb_markup::media_type::MediaType;

#[test]
fn mark_header_and_declaration_are_believed_in_this_order() {
    let far = format!("<!-- {} --><meta charset=koi8-r>", "x".repeat(2000));
    let cases: &[(&[u8], &str, &'static Encoding)] = &[
        (
            b"\xEF\xBB\xBF<meta charset=koi8-r>",
            "text/html; charset=shift_jis",
            UTF_8,
        ),
        (b"\xFF\xFE<\0", "text/html; charset=shift_jis", UTF_16LE),
        (b"\xFE\xFF\0<", "", UTF_16BE),
        (
            b"<meta charset=koi8-r>",
            "text/html; charset=shift_jis",
            SHIFT_JIS,
        ),
        (
            b"<meta charset=koi8-r>",
            "text/html; charset=nonsense",
            KOI8_R,
        ),
        (b"<meta charset=koi8-r>", "text/html", KOI8_R),
        (b"<META CharSet = 'KOI8-R' />", "", KOI8_R),
        (b"<meta/charset=koi8-r>", "", KOI8_R),
        (
            b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>",
            "",
            KOI8_R,
        ),
        (
            b"<meta content='text/html; charset=koi8-r' http-equiv=content-type>",
            "",
            KOI8_R,
        ),
        (b"<meta content='text/html; charset=koi8-r'>", "", UTF_8),
        (
            b"<meta name=x><meta charset=nonsense><meta charset=koi8-r>",
            "",
            KOI8_R,
        ),
        (b"<!--> <meta charset=koi8-r>", "", KOI8_R),
        (
            b"<!-- <meta charset=shift_jis> --><meta charset=koi8-r>",
            "",
            KOI8_R,
        ),
        (
            b"<p title='<meta charset=shift_jis>'></p ><?x?><meta charset=koi8-r>",
            "",
            KOI8_R,
        ),
        (b"<metax charset=shift_jis>", "", UTF_8),
        (b"<meta charset=utf-16>", "", UTF_8),
        (b"<meta charset=x-user-defined>", "", WINDOWS_1252),
        (b"<meta charset=iso-2022-kr>\xE9 la", "", WINDOWS_1252),
        (
            b"<?xml version='1.0' encoding=\"koi8-r\"?><html>",
            "",
            KOI8_R,
        ),
        (
            b"<?xml version='1.0' encoding=\"koi8-r\"?><!-- \xd2\xd5",
            "",
            KOI8_R,
        ),
        (
            b"<?xml version='1.0' encoding=\"koi8-r\"?><p \xd2='",
            "",
            KOI8_R,
        ),
        (b"<\0?\0x\0m\0l\0", "", UTF_16LE),
        (b"\0<\0?\0x", "", UTF_16BE),
        (far.as_bytes(), "", UTF_8),
        (b"", "", UTF_8),
        (b"plain ASCII", "", UTF_8),
        (b"caf\xC3\xA9", "", UTF_8),
        (b"caf\xC3\xA9 cut \xC3", "", UTF_8),
    ];
    for (body, content_type, expected) in cases {
        let said = MediaType::of([content_type.as_bytes()].into_iter()).charset;
        let found = charset(body, said, Some("h.example"));
        assert_eq!(
            found.encoding,
            *expected,
            "{content_type} {:?}",
            String::from_utf8_lossy(body)
        );
    }
    let late = [far.as_bytes(), b"\xC1\xC2"].concat();
    assert_eq!(
        charset(&late, None, None).encoding,
        KOI8_R,
        "better late than guessed"
    );
}

#[test]
fn text_that_declares_nothing_is_recognised() {
    let cases: &[(&'static Encoding, &str, &str)] = &[
        (
            WINDOWS_1252,
            "Il était une fois une crème brûlée où les élèves étaient très fâchés",
            "fr",
        ),
        (
            WINDOWS_1251,
            "Широкая электрификация южных губерний даст мощный толчок подъёму",
            "ru",
        ),
        (ISO_8859_2, "Příliš žluťoučký kůň úpěl ďábelské ódy", "cz"),
        (
            SHIFT_JIS,
            "いろはにほへと ちりぬるを わかよたれそ つねならむ",
            "jp",
        ),
        (
            EUC_JP,
            "いろはにほへと ちりぬるを わかよたれそ つねならむ",
            "jp",
        ),
        (UTF_8, "いろはにほへと", "jp"),
    ];
    for (encoding, text, top_level_domain) in cases {
        let (body, _, _) = encoding.encode(text);
        let found = charset(
            &body,
            None,
            Some(&format!("www.example.{top_level_domain}")),
        );
        assert_eq!(found.encoding, *encoding, "{text}");
    }
}

#[test]
fn any_host_may_lend_its_last_label() {
    for host in [
        "",
        ".",
        "h.",
        "127.0.0.1",
        "[::1]",
        "H.EXAMPLE",
        "bücher",
        "xn--p1ai",
    ] {
        assert_eq!(
            charset(b"caf\xE9 cr\xE8me", None, Some(host)).encoding,
            WINDOWS_1252,
            "{host}"
        );
    }
}

#[test]
fn charset_parameters_are_read_leniently() {
    let cases: &[(&str, Option<&'static Encoding>)] = &[
        ("text/html; charset=utf-8", Some(UTF_8)),
        ("text/html;CHARSET = \"UTF8\" ; x", Some(UTF_8)),
        ("text/html; charset='koi8-r'", Some(KOI8_R)),
        ("text/html; charset charset=koi8-r;x", Some(KOI8_R)),
        ("text/html; charset=\"koi8-r", None),
        ("text/html; charset=", None),
        ("text/html; charset", None),
        ("text/html", None),
        ("", None),
    ];
    for (value, expected) in cases {
        assert_eq!(
            charset_in_content_type(value.as_bytes()),
            *expected,
            "{value}"
        );
    }
}
