//! Text and bytes: every file keeps its encoding.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_tools::diff::unified_diff;
use dirigent_tools::text::{Encoding, LineEnding, TextFile};
use proptest::prelude::*;

#[test]
fn encodings_are_distinguished() {
    let cases: [(&[u8], Encoding, &str); 7] = [
        (b"", Encoding::Utf8, ""),
        ("ä\n".as_bytes(), Encoding::Utf8, "ä\n"),
        (b"\xef\xbb\xbfa", Encoding::Utf8WithBom, "a"),
        (b"\xff\xfea\0", Encoding::Utf16Le, "a"),
        (b"\xfe\xff\0a", Encoding::Utf16Be, "a"),
        (b"\xe4\x80", Encoding::SingleByte, "ä\u{80}"),
        // An odd number of bytes is not valid UTF-16.
        (b"\xff\xfea", Encoding::SingleByte, "ÿþa"),
    ];
    for (bytes, encoding, text) in cases {
        let file = TextFile::decode("a", bytes).unwrap();
        assert_eq!(
            (file.encoding(), file.text.as_str()),
            (encoding, text),
            "{bytes:?}"
        );
    }
    for binary in [b"\0".as_slice(), b"\xff\xfea\0\0\0", b"\x7fELF\x02\0"] {
        assert!(TextFile::decode("a", binary).is_err(), "{binary:?}");
    }
}

#[test]
fn the_most_frequent_line_ending_is_used() {
    assert_eq!(LineEnding::detect("a\r\nb\r\nc\n"), LineEnding::CrLf);
    assert_eq!(LineEnding::detect("a\r\nb\n"), LineEnding::Lf);
    assert_eq!(LineEnding::detect("a"), LineEnding::Lf);
}

#[test]
fn diffs_have_the_format_of_git() {
    assert_eq!(
        unified_diff("a.txt", Some("one\ntwo"), Some("one\nthree")).unwrap(),
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+three\n\\ No newline at end of file\n"
    );
    assert_eq!(unified_diff("a.txt", Some("same"), Some("same")), None);
    assert_eq!(unified_diff("a.txt", None, Some(&"long\n".repeat(20_000))), None);
    let forged = unified_diff("a\n+++ b/x", None, Some("1\n")).unwrap();
    assert!(
        forged.starts_with("--- /dev/null\n+++ b/a\\n+++ b/x\n"),
        "{forged}"
    );
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let text = "[\\r\\na-zäß→😀\u{feff}\u{80}-\u{ff}]{0,40}";
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        text.prop_map(String::into_bytes),
        text.prop_map(|text| [b"\xef\xbb\xbf", text.as_bytes()].concat()),
        text.prop_map(|text| format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect()),
        text.prop_map(|text| format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect()),
        proptest::collection::vec(0x80..=0xffu8, 1..40),
    ]
}

proptest! {
    #[test]
    fn decoding_and_encoding_gives_the_same_bytes(bytes in any_file()) {
        match TextFile::decode("a", &bytes) {
            Ok(file) => prop_assert_eq!(file.encode(&file.text).unwrap(), bytes),
            Err(_) => prop_assert!(bytes.contains(&0)),
        }
    }
}
