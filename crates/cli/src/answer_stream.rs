//! The answer of a turn while it arrives: whole blocks of Markdown are shown as soon as they are complete.
//!
//! A block, such as a paragraph, a list or a code block, ends at an empty line outside of code. The reply may turn out to be a tool call,
//! so nothing is shown from the first block that looks like one.

use dirigent::Delta;
use dirigent::events::AgentId;

use crate::markdown;

/// The part of the lead's reply that was shown.
#[derive(Debug, Default)]
pub(crate) struct AnswerStream {
    /// The agent whose replies are answers; `None` until it is known.
    lead: Option<AgentId>,
    /// The number of the lead's request.
    turn: u32,
    /// The reply so far.
    text: String,
    /// The number of bytes at the beginning of the reply that have been shown.
    shown: usize,
    /// Set if nothing more of this reply is shown, because it looks like a call, a piece of it was missed, or it was shown before the
    /// model was asked again.
    is_stopped: bool,
}

impl AnswerStream {
    /// Sets the agent whose replies are answers.
    pub(crate) fn set_lead(&mut self, lead: AgentId) {
        self.lead = Some(lead);
    }

    /// Adds a piece of a reply. Returns the blocks that are complete now, rendered; `None` if there are none.
    pub(crate) fn push(&mut self, delta: &Delta) -> Option<String> {
        if self.lead != Some(delta.agent) {
            return None;
        }
        if delta.start == 0 || delta.turn != self.turn {
            *self = AnswerStream {
                lead: self.lead,
                turn: delta.turn,
                is_stopped: delta.turn == self.turn && self.shown > 0,
                ..AnswerStream::default()
            };
        }
        self.is_stopped |= delta.start != self.text.len();
        if self.is_stopped {
            return None;
        }
        self.text.push_str(&delta.text);
        let end = self.shown + complete_blocks(&self.text[self.shown..]);
        let mut text = &self.text[self.shown..end];
        if let Some(call) = first_call(text) {
            (text, self.is_stopped) = (&text[..call], true);
        }
        self.shown += text.len();
        let rendered = markdown::render(text);
        (!rendered.is_empty()).then(|| format!("\n{rendered}"))
    }

    /// Returns the part of the answer that has not been shown.
    pub(crate) fn rest<'a>(&self, answer: &'a str) -> &'a str {
        let shown = self.text.get(..self.shown).unwrap_or_default();
        // The answer has neither the blank lines before the reply nor the spaces around it.
        answer
            .strip_prefix(shown.trim_start())
            .or_else(|| answer.strip_prefix(shown.trim()))
            .unwrap_or(answer)
    }
}

/// The length of the complete blocks at the beginning, in bytes.
fn complete_blocks(text: &str) -> usize {
    let (mut end, mut at, mut fence) = (0, 0, None);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if !line.ends_with('\n') {
            break;
        }
        let trimmed = line.trim();
        match (fence, fence_of(trimmed)) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(opened), Some(closed))
                if opened == closed && trimmed.trim_start_matches(opened).is_empty() =>
            {
                fence = None;
            }
            _ if trimmed.is_empty() && fence.is_none() => end = at,
            _ => {}
        }
    }
    end
}

/// The character of a line that begins or ends a code block.
fn fence_of(line: &str) -> Option<char> {
    ['`', '~']
        .into_iter()
        .find(|mark| line.starts_with(&mark.to_string().repeat(3)))
}

/// Returns the position of the first block that may be a call: JSON, markup, or a code block that contains one of these.
fn first_call(text: &str) -> Option<usize> {
    let (mut at, mut in_block) = (0, false);
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        let is_first = !in_block && !trimmed.is_empty();
        let begins = |line: &str| line.trim().starts_with(['{', '[', '<']);
        let is_call =
            begins(line) || fence_of(trimmed).is_some() && lines.peek().is_some_and(|next| begins(next));
        if is_first && is_call {
            return Some(at);
        }
        in_block = !trimmed.is_empty();
        at += line.len();
    }
    None
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const LEAD: AgentId = AgentId(1);

    fn stream() -> AnswerStream {
        console::set_colors_enabled(false);
        let mut stream = AnswerStream::default();
        stream.set_lead(LEAD);
        stream
    }

    fn piece(agent: AgentId, turn: u32, start: usize, text: &str) -> Delta {
        let delta = json!({"agent": agent, "turn": turn, "start": start, "text": text});
        serde_json::from_value(delta).expect("the JSON of a delta")
    }

    /// Pushes the answer in pieces of three bytes. Returns the text that was shown, and the rest.
    fn show(answer: &str) -> (String, String) {
        let (mut stream, mut shown) = (stream(), String::new());
        for (index, bytes) in answer.as_bytes().chunks(3).enumerate() {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            let blocks = stream.push(&piece(LEAD, 1, 3 * index, text));
            shown.extend(blocks.map(|blocks| format!("{blocks}\n")));
        }
        (shown, stream.rest(answer.trim()).to_owned())
    }

    #[test]
    fn blocks_are_shown_once_and_whole() {
        let answer = "# Result\n\nTwo files:\n- a\n- b\n\n```rust\nfn a() {}\n\nfn b() {}\n```\n\nDone.";
        let (shown, rest) = show(answer);
        let lines = "\nResult\n\nTwo files:\n\n• a\n• b\n\n    fn a() {}\n    \n    fn b() {}\n";
        assert_eq!(shown, lines);
        assert_eq!(rest, "Done.");
    }

    #[test]
    fn text_that_may_be_a_call_is_not_shown() {
        for call in [
            "{\"tool\": \"search\"}\n\n",
            "```json\n{\"tool\": 1}\n```\n\n",
            "<tool_call>\n\nx",
        ] {
            assert_eq!(show(call).0, "", "{call}");
            let (shown, _) = show(&format!("I look.\n\n{call}And more.\n\n"));
            assert_eq!(shown, "\nI look.\n", "{call}");
        }
    }

    #[test]
    fn the_answer_of_another_agent_is_not_shown() {
        let mut stream = stream();
        assert_eq!(stream.push(&piece(AgentId(2), 1, 0, "Sub-agent.\n\n")), None);
        assert_eq!(stream.rest("Answer."), "Answer.");
    }

    #[test]
    fn after_a_missed_piece_the_rest_of_the_answer_is_printed_at_the_end() {
        let mut stream = stream();
        assert_eq!(
            stream.push(&piece(LEAD, 1, 0, "One.\n\n")),
            Some("\nOne.".to_owned())
        );
        assert_eq!(stream.push(&piece(LEAD, 1, 12, "Three.\n\n")), None);
        assert_eq!(stream.rest("One.\n\nTwo.\n\nThree."), "Two.\n\nThree.");
        // The stream misses the beginning of the next reply, but receives the following reply completely.
        assert_eq!(stream.push(&piece(LEAD, 2, 3, "ne.\n\nTwo.\n\n")), None);
        assert_eq!(stream.rest("One.\n\nTwo."), "One.\n\nTwo.");
        assert_eq!(
            stream.push(&piece(LEAD, 3, 0, "Next.\n\n")),
            Some("\nNext.".to_owned())
        );
        assert_eq!(stream.rest("Next.\n\nEnd."), "End.");
    }

    #[test]
    fn the_reply_to_a_repeated_request_is_shown_if_the_first_was_not() {
        let mut stream = stream();
        assert_eq!(stream.push(&piece(LEAD, 1, 0, "On")), None);
        assert_eq!(
            stream.push(&piece(LEAD, 1, 0, "Two.\n\n")),
            Some("\nTwo.".to_owned())
        );
        assert_eq!(stream.push(&piece(LEAD, 1, 0, "Three.\n\n")), None);
        assert_eq!(stream.rest("Three.\n\nEnd."), "Three.\n\nEnd.");
    }
}
