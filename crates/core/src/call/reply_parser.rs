//! Parses a reply into text or calls. [`super::scan`] finds JSON in the reply, [`super::shape`] decides which JSON is a call in which form,
//! and [`super::context_calls`] stores the calls in the model's context. This module classifies the reply as a whole.

use std::ops::Range;

use serde_json::Value;

use super::candidate::CallCandidate;
use super::context_calls::ContextCalls;
use super::form::CallForm;
use super::json::read_json;
use super::json_scanner::{Dialect, JsonEnd, scan_json};
use super::lookalike;
use super::malformed::MalformedReply;
use super::markup::GapContent;
use super::scan::{Scan, scan};
use super::shape::{only_last_terminates, read_calls};
use super::submission::Submission;
use crate::message::{FinishReason, ModelReply, ToolCall};
use crate::tool::ToolSpec;

/// Maximum number of different calls to collect from one reply. Two are already an error, and comparing calls takes time.
const MAX_DIFFERENT: usize = 32;

/// The content of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyContent {
    /// Text without calls. The thinking before the text and the white space around it are removed.
    Text(String),
    /// At least one call, in the order in which the calls run.
    Calls(Vec<ToolCall>),
    /// Text with a call that may be a quotation: it occurs in the model's context, or words follow it (CALL-7). Nothing is executed; the
    /// model must clarify whether it means the call or answers with this text.
    CallInProse(String),
}

/// A parser of replies for a model's call form (CALL-4), tools and context.
///
/// A reply that was cut short is never executed (CALL-7). If the provider delivered native calls, only those count (CALL-2): they run in
/// their order (LOOP-1), and one unreadable call makes the whole reply malformed. Otherwise the text is searched for calls (CALL-5): after
/// prose, in code fences, after thinking.
///
/// Calls by form:
///
/// - [`CallForm::Json`]: an object `{"tool": string, "parameters": object, "terminate": boolean}`, all three required (CALL-1).
/// - [`CallForm::JsonSchema`]: the same object. A reply that consists of `{"answer": string}` counts as that text, because a server that
///   enforces a schema allows no other final answer.
/// - [`CallForm::Native`]: none; text contains no calls.
/// - [`CallForm::ToolCall`]: an object `{"tool_call": {"name": string, "arguments": object}}` (CALL-3). Such a call never terminates.
/// - [`CallForm::Auto`] and [`CallForm::AutoNative`]: the objects of `Json`, with an optional `terminate` that defaults to false, and of `ToolCall`; an object with
///   `name`, `tool_name` or `function`, and with `arguments` or `parameters`; `{"tool_calls": […]}`, `{"function_call": {…}}`; and the
///   JSON, or name with arguments, that call markup of a known model family announces.
///
/// A JSON array of calls is several calls in order, of which only the last may terminate.
///
/// These rules decide whether a call counts:
///
/// - A call that does not occur in the context counts after prose. If words follow it, the reply is [`ReplyContent::CallInProse`].
/// - A call that occurs in the context counts only as the whole reply, apart from thinking and one code fence or call markup. Among words,
///   the reply is [`ReplyContent::CallInProse`], unless it ends with a call that does not occur in the context; then the quoted call is
///   ignored.
/// - Repetitions of the same call count once.
/// - A reply that consists of several call objects, one after the other, is the array of them, if none of them occurs in the context.
///   Otherwise different calls are [`MalformedReply::Ambiguous`].
/// - The call form with a placeholder for the tool's name, as shown to models, is not a call.
///
/// These replies are malformed and never count as an answer (LOOP-3):
///
/// - an object in the configured form that is invalid JSON, is not closed, or has a missing field or a field of the wrong type; but an
///   object whose `tool` is not a string is text;
/// - a reply that consists of a call in a form other than the configured one, or ends with the call markup of another model family;
/// - a reply that consists of a tool's name with arguments in any notation, of a part of a call, or of the parameters of the agent's
///   terminating tool;
/// - a reply that consists of unclosed thinking, or that has no call although the finish reason announces one.
///
/// [`CallForm::Auto`] repairs unambiguous deviations from JSON that small models write: strings in single quotes, `True`, `False`, `None`,
/// a comma before a closing bracket or brace, a full-width colon or comma, and a line break or tab in a string. Nothing else is repaired,
/// in particular no unclosed value.
///
/// Anomalies in an object that is meant as a call are handled alike in every form; outside of such objects they are prose:
///
/// | anomaly | result |
/// | --- | --- |
/// | not JSON, or not closed | malformed (`Auto` repairs it first, as described) |
/// | a duplicate key at any depth | malformed |
/// | nesting deeper than 64 levels | malformed |
/// | an integer beyond 64 bits, `1e999` | malformed, because it cannot be represented exactly |
/// | a lone surrogate (`\ud800`) | malformed |
/// | NUL or another control character | malformed everywhere; allowed if escaped (`\u0000`) |
/// | a byte order mark | malformed outside a string; allowed in a string |
#[derive(Clone, Copy, Debug)]
pub struct ReplyParser<'a> {
    /// The model's call form.
    pub form: CallForm,
    /// The tools that the model may call, including the terminating tool.
    pub tools: &'a [ToolSpec],
    /// The calls in the model's context.
    pub context: &'a ContextCalls,
}

/// Parses a reply of a model without tools and context.
pub fn parse(reply: &ModelReply, form: CallForm) -> Result<ReplyContent, MalformedReply> {
    let context = ContextCalls::default();
    let parser = ReplyParser {
        form,
        tools: &[],
        context: &context,
    };
    parser.parse(reply)
}

impl ReplyParser<'_> {
    /// Parses a reply.
    pub fn parse(&self, reply: &ModelReply) -> Result<ReplyContent, MalformedReply> {
        match reply.finish {
            FinishReason::Length
            | FinishReason::Interrupted
            | FinishReason::Filtered
            | FinishReason::Oversized => Err(MalformedReply::CutShort { finish: reply.finish }),
            FinishReason::Stop | FinishReason::ToolCalls if !reply.malformed_calls.is_empty() => {
                Err(MalformedReply::UnreadableCalls {
                    calls: reply.malformed_calls.clone(),
                })
            }
            FinishReason::Stop | FinishReason::ToolCalls if !reply.calls.is_empty() => {
                Ok(ReplyContent::Calls(reply.calls.clone()))
            }
            FinishReason::Stop => self.in_text(&reply.content),
            FinishReason::ToolCalls => match self.in_text(&reply.content)? {
                ReplyContent::Text(_) => Err(MalformedReply::NoCall),
                content @ (ReplyContent::Calls(_) | ReplyContent::CallInProse(_)) => Ok(content),
            },
        }
    }

    fn in_text(&self, content: &str) -> Result<ReplyContent, MalformedReply> {
        let scan = scan(content, self.form);
        if scan.only_thinking {
            return Err(MalformedReply::OnlyThinking);
        }
        let calls = Calls::read(&scan, self)?;
        if let Some(parsed) = calls.into_content(content, &scan, self)? {
            return Ok(parsed);
        }
        let answer = content[scan.answer..].trim();
        match self.intent(content, answer, &scan) {
            ReplyIntent::Answer => Ok(ReplyContent::Text(self.text_of(answer))),
            ReplyIntent::CallInProse => Ok(ReplyContent::CallInProse(answer.to_owned())),
            ReplyIntent::Call(malformed) => Err(malformed),
        }
    }

    /// Classifies text without a call in the configured form (LOOP-3).
    fn intent(&self, content: &str, answer: &str, scan: &Scan<'_>) -> ReplyIntent {
        let offered: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let takes_text_calls = match self.form {
            CallForm::Json
            | CallForm::JsonSchema
            | CallForm::ToolCall
            | CallForm::Auto
            | CallForm::AutoNative => true,
            CallForm::Native => false,
        };
        match self.in_other_form(content, scan, &offered, takes_text_calls) {
            ReplyIntent::Answer => {}
            meant @ (ReplyIntent::CallInProse | ReplyIntent::Call(_)) => return meant,
        }
        if let Some(markup) = scan.bare_markup {
            let end = scan
                .last_closer
                .filter(|end| *end > markup)
                .unwrap_or(content.len());
            let has_words_after = GapContent::new(content, end..content.len()).words;
            match (has_words_after, takes_text_calls) {
                (false, _) => return ReplyIntent::Call(MalformedReply::Unreadable),
                (true, true) => return ReplyIntent::CallInProse,
                (true, false) => {}
            }
        }
        if lookalike::names_tool(answer, &offered) || lookalike::is_tool_code(answer) {
            return ReplyIntent::Call(MalformedReply::Unreadable);
        }
        if let Some(tool) = self.bare_parameters(answer) {
            return ReplyIntent::Call(MalformedReply::BareParameters { tool });
        }
        let is_lookalike = scan.lookalikes.is_some_and(|(first, last)| {
            let is_whole = !GapContent::new(content, scan.answer.min(first)..first).words;
            lookalike::is_call(&content[first..], is_whole, &offered)
                || lookalike::is_call(&content[last..], false, &offered)
        });
        let is_whole_call = |(first, _): (usize, usize)| {
            !GapContent::new(content, scan.answer.min(first)..first).words
                && lookalike::is_call(&content[first..], false, &offered)
        };
        if scan.lookalikes.is_some_and(is_whole_call)
            || takes_text_calls && (is_lookalike || lookalike::is_piece_of_call(answer, &offered))
        {
            return ReplyIntent::Call(MalformedReply::Unreadable);
        }
        ReplyIntent::Answer
    }

    /// Classifies calls in a form other than the configured one.
    ///
    /// A reply is a call if it consists of such a call, or ends with a call that does not occur in the context and names one of the model's
    /// tools, or ends with call markup. Many objects have a name, so an object without other evidence is a call only if it is the whole
    /// reply and names one of the model's tools.
    fn in_other_form(
        &self,
        content: &str,
        scan: &Scan<'_>,
        offered: &[&str],
        takes_text_calls: bool,
    ) -> ReplyIntent {
        let others: Vec<&CallCandidate<'_>> = scan
            .candidates
            .iter()
            .filter(|candidate| !candidate.is_own)
            .collect();
        let Some(last) = others.last() else {
            return ReplyIntent::Answer;
        };
        let spans: Vec<Range<usize>> = others.iter().map(|candidate| candidate.span.clone()).collect();
        let around = SurroundingText::new(content, scan, &spans);
        let has_words_before = around.words_before || around.words_between;
        let has_words_after = match last.end {
            JsonEnd::Closed => around.words_after,
            JsonEnd::Unfinished => false,
            JsonEnd::Invalid(_) | JsonEnd::ControlCharacter => {
                !lookalike::ends_reply(&content[last.span.start..])
            }
        };
        let calls = read_calls(last, CallForm::Auto);
        if calls.as_ref().is_ok_and(Vec::is_empty) && !last.announced.is_by_markup() {
            return ReplyIntent::Answer;
        }
        let is_quoted = calls.iter().flatten().any(|call| self.context.contains(call));
        let is_offered = match &calls {
            Ok(calls) => calls.iter().any(|call| offered.contains(&call.tool.as_str())),
            Err(_) => offered
                .iter()
                .any(|tool| last.text.contains(&format!("\"{tool}\""))),
        };
        let is_distinctive = last.announced.is_by_markup() || last.keys.are_distinctive();
        let is_among_words = has_words_after || has_words_before && is_quoted;
        let is_call = match (takes_text_calls, is_distinctive) {
            (true, true) => {
                !is_among_words && (!has_words_before || is_offered || last.announced.is_by_markup())
            }
            (false, true) => {
                !is_among_words && (last.announced.is_by_markup() || !has_words_before && is_offered)
            }
            (_, false) => !is_among_words && !has_words_before && is_offered,
        };
        match (is_call, takes_text_calls && is_distinctive) {
            (true, _) => ReplyIntent::Call(MalformedReply::OtherForm),
            (false, true) => ReplyIntent::CallInProse,
            (false, false) => ReplyIntent::Answer,
        }
    }

    /// Returns the terminating tool if the whole answer consists of its bare parameters.
    fn bare_parameters(&self, answer: &str) -> Option<String> {
        let submission = Submission::among(self.tools)?;
        let object = answer.find('{')?;
        let candidate = scan_json(answer, object, Dialect::Lenient);
        let is_alone = !GapContent::new(answer, 0..object).words
            && !GapContent::new(answer, candidate.end_offset..answer.len()).words;
        match read_json(&CallCandidate::new(answer, object, &candidate)) {
            Ok(Value::Object(fields)) if is_alone && submission.fits(&fields) => Some(submission.tool),
            Ok(_) | Err(_) => None,
        }
    }

    /// The text of a reply without a call.
    fn text_of(&self, answer: &str) -> String {
        let wrapped = match self.form {
            CallForm::JsonSchema => wrapped_answer(answer),
            CallForm::Json
            | CallForm::Native
            | CallForm::ToolCall
            | CallForm::Auto
            | CallForm::AutoNative => None,
        };
        wrapped.unwrap_or_else(|| answer.to_owned())
    }
}

/// The meaning of text that has no call in the configured form.
enum ReplyIntent {
    Answer,
    CallInProse,
    Call(MalformedReply),
}

/// Placeholders for a tool's name in the call forms shown to models.
const PLACEHOLDERS: [&str; 2] = ["name of the tool", "the tool's name"];

/// The calls in the text that have the configured form.
struct Calls {
    /// The range of each call, in order.
    spans: Vec<Range<usize>>,
    /// Different calls that do not occur in the context.
    new: Vec<Vec<ToolCall>>,
    /// Index in `spans` of the last call that does not occur in the model's context; 0 if there is none.
    last_new: usize,
    /// Different calls that occur in the context.
    quoted: Vec<Vec<ToolCall>>,
    /// Ranges of calls with a placeholder instead of a tool's name.
    placeholders: Vec<Range<usize>>,
    /// The number of calls in `spans` that call markup surrounds.
    in_markup: usize,
    /// The call of each object, in order and without immediate repetitions; `None` if an array is among them.
    sequence: Option<Vec<ToolCall>>,
}

impl Calls {
    fn read(scan: &Scan<'_>, parser: &ReplyParser<'_>) -> Result<Self, MalformedReply> {
        let mut calls = Calls {
            spans: Vec::new(),
            new: Vec::new(),
            last_new: 0,
            quoted: Vec::new(),
            placeholders: Vec::new(),
            in_markup: 0,
            sequence: Some(Vec::new()),
        };
        for candidate in scan.candidates.iter().filter(|candidate| candidate.is_own) {
            let read = read_calls(candidate, parser.form)?;
            if read.iter().any(|call| PLACEHOLDERS.contains(&call.tool.as_str())) {
                calls.placeholders.push(candidate.span.clone());
                continue;
            }
            if read.is_empty() {
                continue;
            }
            calls.extend_sequence(&read);
            let different = if read.iter().any(|call| parser.context.contains(call)) {
                &mut calls.quoted
            } else {
                calls.last_new = calls.spans.len();
                &mut calls.new
            };
            if different.len() < MAX_DIFFERENT && !different.contains(&read) {
                different.push(read);
            }
            calls.in_markup += usize::from(candidate.announced.is_by_markup());
            calls.spans.push(candidate.span.clone());
        }
        Ok(calls)
    }

    fn extend_sequence(&mut self, read: &[ToolCall]) {
        self.sequence = self.sequence.take().and_then(|mut sequence| match read {
            [call] => {
                if sequence.last() != Some(call) {
                    sequence.push(call.clone());
                }
                Some(sequence)
            }
            _ => None,
        });
    }

    /// Returns the calls of a reply that consists of several call objects, one after the other: such a reply means the same as an array of
    /// these calls. `None` for any other reply, and if one of the calls may be quoted (CALL-7).
    fn in_sequence(&mut self, scan: &Scan<'_>, around: &SurroundingText) -> Option<Vec<ToolCall>> {
        let is_uniform = self.in_markup == 0 || self.in_markup == self.spans.len();
        let is_whole = !around.has_words() && !around.marks && around.wrappers() <= 1;
        let is_all = self.quoted.is_empty() && self.placeholders.is_empty() && scan.lookalikes.is_none();
        let is_sequence = is_uniform && is_whole && is_all && self.new.len() > 1;
        self.sequence.take().filter(|_| is_sequence)
    }

    /// Classifies a reply by its calls; `None` if it has none.
    fn into_content(
        mut self,
        content: &str,
        scan: &Scan<'_>,
        parser: &ReplyParser<'_>,
    ) -> Result<Option<ReplyContent>, MalformedReply> {
        let context = parser.context;
        let is_form_alone = self.spans.is_empty() && !self.placeholders.is_empty();
        if is_form_alone && !SurroundingText::new(content, scan, &self.placeholders).has_words() {
            return Err(MalformedReply::WrongFields {
                problems: vec!["replace the placeholder with the name of a tool".to_owned()],
            });
        }
        let mut around = SurroundingText::new(content, scan, &self.spans);
        around.markup |= self.in_markup > 0;
        // A closing thinking tag without an opening tag turns everything before it into thinking, unless the tag is merely a quotation.
        let quotes_thinking = scan.is_unopened && context.has_thinking_end() && self.new.is_empty();
        let answer = if quotes_thinking { 0 } else { scan.answer };
        let in_prose = || Some(ReplyContent::CallInProse(content[answer..].trim().to_owned()));
        let is_last = self.last_new + 1 == self.spans.len();
        let is_whole = self.spans.len() == 1
            && !around.has_words()
            && !around.marks
            && around.wrappers() <= 1
            && !quotes_thinking;
        if let Some(calls) = self.in_sequence(scan, &around) {
            only_last_terminates(&calls)?;
            return Ok(Some(ReplyContent::Calls(calls)));
        }
        Ok(match (self.new.len(), self.quoted.len()) {
            (0, 0) => None,
            (0, 1) if is_whole => self.quoted.pop().map(ReplyContent::Calls),
            (0, 1) => in_prose(),
            (0, _) if around.has_words() => in_prose(),
            (1, _) if is_last && !around.words_after && (around.has_words() || self.quoted.is_empty()) => {
                self.new.pop().map(ReplyContent::Calls)
            }
            (1, _) if around.has_words() => in_prose(),
            (_, _) => {
                let tools = self
                    .new
                    .into_iter()
                    .chain(self.quoted)
                    .flatten()
                    .map(|call| call.tool);
                return Err(MalformedReply::Ambiguous {
                    tools: tools.take(MAX_DIFFERENT).collect(),
                });
            }
        })
    }
}

/// The text around calls.
#[derive(Default)]
struct SurroundingText {
    words_before: bool,
    words_between: bool,
    words_after: bool,
    marks: bool,
    fences: usize,
    markup: bool,
}

impl SurroundingText {
    /// Analyses the text outside of the spans, which are in order, and outside of thinking.
    fn new(content: &str, scan: &Scan<'_>, spans: &[Range<usize>]) -> SurroundingText {
        let mut around = SurroundingText::default();
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return around;
        };
        let mut taken: Vec<&Range<usize>> = spans.iter().chain(&scan.skipped).collect();
        taken.sort_by_key(|range| range.start);
        let mut from = scan.answer;
        let ends = taken
            .iter()
            .map(|range| (range.start, range.end))
            .chain([(content.len(), content.len())]);
        for (start, end) in ends {
            if start > from {
                let gap = GapContent::new(content, from..start);
                around.fences += gap.fences;
                around.markup |= gap.markup;
                around.marks |= gap.marks;
                if start <= first.start {
                    around.words_before |= gap.words;
                } else if from >= last.end {
                    around.words_after |= gap.words;
                } else {
                    around.words_between |= gap.words;
                }
            }
            from = from.max(end);
        }
        around
    }

    fn has_words(&self) -> bool {
        self.words_before || self.words_between || self.words_after
    }

    /// Number of code fences and markup around the calls.
    fn wrappers(&self) -> usize {
        self.fences.div_ceil(2) + usize::from(self.markup)
    }
}

/// The text of an answer that consists of `{"answer": text}`; `None` for any other answer.
fn wrapped_answer(answer: &str) -> Option<String> {
    if !answer.starts_with('{') {
        return None;
    }
    let candidate = scan_json(answer, 0, Dialect::Strict);
    if candidate.end_offset != answer.len() {
        return None;
    }
    match read_json(&CallCandidate::new(answer, 0, &candidate)) {
        Ok(Value::Object(mut object)) if object.len() == 1 => match object.swap_remove("answer") {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        },
        Ok(_) | Err(_) => None,
    }
}
