//! The output of a command as a person would see it on a terminal, without colours.

use anstream::adapter::strip_str;

/// Removes ANSI escape sequences. Of a line that was overwritten with `\r`, such as a progress bar, only the
/// last state remains.
pub(super) fn plain_text(output: &str) -> String {
    let text = strip_str(output).to_string();
    if !text.contains('\r') {
        return text;
    }
    text.split_inclusive('\n').map(last_state).collect()
}

/// Returns the last state of a line.
fn last_state(line: &str) -> String {
    let content = line.strip_suffix('\n').unwrap_or(line);
    let mut states = content.trim_end_matches('\r').rsplit('\r');
    let last = states.find(|state| !state.is_empty()).unwrap_or_default();
    format!("{last}{}", &line[content.len()..])
}

#[cfg(test)]
mod tests {
    use super::plain_text;

    #[test]
    fn colours_and_links_are_left_out() {
        assert_eq!(
            plain_text(
                "\u{1b}[1m\u{1b}[31merror\u{1b}[0m: no\tü\n\u{1b}]8;;file://a\u{1b}\\a\u{1b}]8;;\u{1b}\\\n"
            ),
            "error: no\tü\na\n"
        );
    }

    #[test]
    fn only_the_last_state_of_a_progress_bar_is_shown() {
        assert_eq!(plain_text("a\r\nb\r\n"), "a\nb\n");
        assert_eq!(plain_text(" 10 %\r 50 %\r100 %\ndone\n"), "100 %\ndone\n");
        assert_eq!(plain_text("10 %\r\u{1b}[K20 %\r\u{1b}[K"), "20 %");
    }
}
