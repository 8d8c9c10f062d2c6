//! The commands of a chat: lines that begin with `/`.

use dirigent::Mode;

/// A command of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatLine {
    /// A message, or the invocation of a workflow.
    Message(String),
    Help,
    /// Undo the file changes of the last turn.
    Undo,
    /// Show the file changes of the last turn.
    Diff,
    /// Show the usage of the conversation.
    Cost,
    /// Show the model, or choose another.
    Model(Option<String>),
    /// Show the mode, or choose another.
    Mode(Option<Mode>),
    /// Begin the next turn with a summary of the messages so far.
    Compact,
    /// Begin a new conversation.
    Clear,
    /// List the workflows, all or those of a category.
    Workflows(Option<String>),
    /// Set the title.
    Title(String),
    Quit,
    /// A line that begins like a command but is not one, with a message that says what to do.
    Invalid(String),
}

/// The commands and their descriptions, for help and completion.
pub(crate) const COMMANDS: [(&str, &str); 13] = [
    ("/help", "list the commands"),
    (
        "/workflows",
        "list the workflows; /workflows CATEGORY lists those in a category",
    ),
    ("/NAME …", "run the workflow NAME as a turn"),
    ("/diff", "show the file changes of the last turn"),
    ("/undo", "undo the file changes of the last turn"),
    ("/cost", "show tokens and cost of this conversation"),
    ("/model NAME", "use another model from now on"),
    ("/mode auto|plan", "act at once, or show each plan first"),
    (
        "/compact",
        "begin the next turn with a summary of the conversation",
    ),
    ("/clear", "begin a new conversation in the same folder"),
    ("/title TEXT", "name this conversation"),
    (
        "/quit",
        "leave the chat; the conversation is kept (Ctrl-D does the same)",
    ),
    ("\\ at the end of a line", "continue the message on the next line"),
];

/// Parses a line. A line that begins with `/` and an unknown word is a message, because it may name a workflow or a path.
pub(crate) fn parse(line: &str) -> ChatLine {
    let line = line.trim();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(rest.trim()).filter(|rest| !rest.is_empty());
    match (name, argument) {
        ("/help" | "/?", None) => ChatLine::Help,
        ("/workflows", category) => ChatLine::Workflows(category.map(str::to_owned)),
        ("/undo", None) => ChatLine::Undo,
        ("/diff", None) => ChatLine::Diff,
        ("/cost", None) => ChatLine::Cost,
        ("/model", model) => ChatLine::Model(model.map(str::to_owned)),
        ("/mode", None) => ChatLine::Mode(None),
        ("/mode", Some("auto")) => ChatLine::Mode(Some(Mode::Auto)),
        ("/mode", Some("plan")) => ChatLine::Mode(Some(Mode::Plan)),
        ("/mode", Some(other)) => ChatLine::Invalid(format!("there is no mode `{other}`: use auto or plan")),
        ("/compact", None) => ChatLine::Compact,
        ("/clear" | "/new", None) => ChatLine::Clear,
        ("/title", Some(title)) => ChatLine::Title(title.to_owned()),
        ("/title", None) => ChatLine::Invalid("give a title: /title TEXT".to_owned()),
        ("/quit" | "/exit", None) => ChatLine::Quit,
        (
            "/help" | "/?" | "/undo" | "/diff" | "/cost" | "/compact" | "/clear" | "/new" | "/quit" | "/exit",
            Some(_),
        ) => ChatLine::Invalid(format!("{name} takes no argument")),
        _ => ChatLine::Message(line.to_owned()),
    }
}

/// Returns the command's name if the line is a command; `None` for a message.
pub(crate) fn command_name(line: &str) -> Option<&str> {
    match parse(line) {
        ChatLine::Message(_) => None,
        ChatLine::Help
        | ChatLine::Undo
        | ChatLine::Diff
        | ChatLine::Cost
        | ChatLine::Model(_)
        | ChatLine::Mode(_)
        | ChatLine::Compact
        | ChatLine::Clear
        | ChatLine::Workflows(_)
        | ChatLine::Title(_)
        | ChatLine::Quit
        | ChatLine::Invalid(_) => line.split_whitespace().next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(parse("/mode plan"), ChatLine::Mode(Some(Mode::Plan)));
        assert_eq!(
            parse(" /model openai/gpt-5 "),
            ChatLine::Model(Some("openai/gpt-5".to_owned()))
        );
        assert_eq!(
            parse("/workflows code"),
            ChatLine::Workflows(Some("code".to_owned()))
        );
        assert_eq!(
            parse("/undo it"),
            ChatLine::Invalid("/undo takes no argument".to_owned())
        );
        assert_eq!(command_name(" /undo "), Some("/undo"));
        for message in [
            "hello",
            "/etc/hosts is what?",
            "what does /undo do?",
            "/create_project x",
        ] {
            assert_eq!(parse(message), ChatLine::Message(message.to_owned()));
            assert_eq!(command_name(message), None);
        }
    }
}
