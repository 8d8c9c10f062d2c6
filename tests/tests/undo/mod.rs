//! LOOP-8: a run's changes to files can be shown and undone, but never overwrite what somebody else wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod library;
mod while_commands_ran;

use dirigent_tests::cli::Place;

/// Compares the output, without the parts that differ between runs.
#[track_caller]
fn check(place: &Place, printed: &str, expected: &str) {
    let folder = place.folder().canonicalize().unwrap();
    let printed = printed.replace(folder.to_str().unwrap(), "PLACE");
    let redacted = printed
        .split(' ')
        .map(|word| {
            let digits = word.trim_end_matches(['`', ',', '.', '\n', ':', ';']);
            let is_id = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_id {
                word.replace(digits, "RUN")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(redacted, expected);
}
