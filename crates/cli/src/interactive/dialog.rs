//! The commands that a user can type in the dialog about a pending call.

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialogCommand {
    Approve,
    /// Allow the call, and calls like it from now on.
    Always,
    Edit,
    Reject(Option<String>),
    Guide(String),
    Later,
    /// Show the whole call.
    View,
    /// Not a command. Contains a message for the user.
    Invalid(&'static str),
}

/// The hint that lists the commands.
pub(crate) const DIALOG_HELP: &str =
    "a approve · always · e edit · r [reason] reject · g TEXT guide · l later";

impl DialogCommand {
    pub(crate) fn parse(line: &str) -> DialogCommand {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest.is_empty()) {
            ("a" | "approve", true) => DialogCommand::Approve,
            ("always", true) => DialogCommand::Always,
            ("e" | "edit", true) => DialogCommand::Edit,
            ("r" | "reject", true) => DialogCommand::Reject(None),
            ("r" | "reject", false) => DialogCommand::Reject(Some(rest.to_owned())),
            ("g" | "guide", false) => DialogCommand::Guide(rest.to_owned()),
            ("g" | "guide", true) => {
                DialogCommand::Invalid("nothing was decided: say what to do instead, as in g TEXT")
            }
            ("l" | "later", true) => DialogCommand::Later,
            ("v" | "view", true) => DialogCommand::View,
            ("a" | "approve" | "always" | "e" | "edit" | "l" | "later" | "v" | "view", false) => {
                DialogCommand::Invalid("nothing was decided: only r and g can be followed by text")
            }
            ("", _) => DialogCommand::Invalid("nothing was decided: Enter alone approves nothing"),
            (_, _) => {
                DialogCommand::Invalid("nothing was decided: not a command; use a, always, e, r, g TEXT or l")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approve_2_only_a_whole_word_decides() {
        for (line, word) in [
            ("a", DialogCommand::Approve),
            (" approve ", DialogCommand::Approve),
            ("always", DialogCommand::Always),
            ("e", DialogCommand::Edit),
            ("r", DialogCommand::Reject(None)),
            ("r not  now", DialogCommand::Reject(Some("not  now".to_owned()))),
            (
                "guide use cargo check",
                DialogCommand::Guide("use cargo check".to_owned()),
            ),
            ("l", DialogCommand::Later),
            ("v", DialogCommand::View),
        ] {
            assert_eq!(DialogCommand::parse(line), word, "{line:?}");
        }
        for line in [
            "",
            "  ",
            "y",
            "ok",
            "aa",
            "a b",
            "approve it",
            "A",
            "g",
            "later on",
            "search only in src",
        ] {
            assert!(
                matches!(DialogCommand::parse(line), DialogCommand::Invalid(_)),
                "{line:?}"
            );
        }
    }
}
