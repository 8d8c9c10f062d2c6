//! What a reply says: text, or calls. Where JSON stands in it is for [`super::scan`] to find, which of it is a call for [`super::shape`] to
//! say, form by form, and which call was given to the model for [`super::context_calls`]; here it is told what becomes of the whole.

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
use super::shape::read_calls;
use super::submission::Submission;
use crate::message::{FinishReason, ModelReply, ToolCall};
use crate::tool::ToolSpec;

/// More different calls in one reply are not counted: one is too many already, and comparing them takes time.
const MAX_DIFFERENT: usize = 32;

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyContent {
    /// No call: its text, without the thinking before it and without white space around it.
    Text(String),
    /// At least one call, in the order in which they are to run.
    Calls(Vec<ToolCall>),
    /// A call among words that may be quoted: one that stands in what the model was given, or one with words after it (CALL-7). Nothing
    /// is carried out, and only the model can say whether it meant to call or to answer with this text.
    CallInProse(String),
}

/// What a reply is read with: the form in which the model calls tools (CALL-4), what it may call, and what it was given.
///
/// A reply that was cut short is never acted on, whatever it holds (CALL-7). Calls that the provider delivered as such count alone
/// (CALL-2), and one among them that can't be read makes the whole reply malformed; they run in the order given (LOOP-1). Otherwise the
/// text is searched for a call (CALL-5): after prose, in code fences, after thinking.
///
/// What is a call:
///
/// - [`CallForm::Json`]: an object `{"tool": string, "parameters": object, "terminate": boolean}`, all three required (CALL-1).
/// - [`CallForm::JsonSchema`]: the same. And a reply that is `{"answer": string}` and nothing else is that text, as a server that holds a
///   model to a schema can't let it say any other way that it has finished.
/// - [`CallForm::Native`]: nothing; text is text.
/// - [`CallForm::ToolCall`]: an object `{"tool_call": {"name": string, "arguments": object}}` (CALL-3). It never terminates.
/// - [`CallForm::Auto`]: the objects of `Json`, where `terminate` may be left out and is false then, and of `ToolCall`; an object with `name`,
///   `tool_name` or `function` and its `arguments` or `parameters`; `{"tool_calls": […]}`, `{"function_call": {…}}`; and what call markup
///   of a known model family announces, as JSON or as a name with its arguments.
///
/// A JSON array of calls is several calls, in order; only the last may terminate.
///
/// When a call counts:
///
/// - One that is new to the model counts after prose. With words after it, it is [`ReplyContent::CallInProse`].
/// - One that stands in what the model was given counts only as the whole reply, apart from thinking and one code fence or call markup.
///   Among words it is [`ReplyContent::CallInProse`], or nothing, where a new call ends the reply.
/// - The same call several times counts once; different ones are [`MalformedReply::Ambiguous`].
/// - The form as it is shown to models, with a placeholder for the tool's name, is no call.
///
/// What is never an answer (LOOP-3), and malformed instead:
///
/// - an object in the agreed form that is not JSON, is not closed, or has a field that is missing or of the wrong type. One whose `tool` is no
///   string is text;
/// - a reply that is nothing but a call in another form than the agreed one, or ends with another family's call markup;
/// - a reply that is nothing but a tool's name with arguments, in whatever notation, a piece of a call, or the parameters of the agent's
///   own submitting tool;
/// - nothing but thinking that is not closed; nothing, where the reply ended in order to call a tool.
///
/// In [`CallForm::Auto`], what small models write instead of JSON is repaired where it can mean one thing only: strings in single quotes,
/// `True`, `False`, `None`, a comma before a closing bracket or brace, a full-width colon or comma, a line break or tab in a string.
/// Nothing else is, and nothing that is not closed.
///
/// What is odd in an object that is meant as a call has one answer, the same in every form; outside such an object it is prose:
///
/// | in the object | answer |
/// | --- | --- |
/// | it is not JSON, or never closed | malformed (repaired first in `Auto`, as said) |
/// | a key given twice, at any depth | malformed |
/// | nested deeper than 64 levels | malformed |
/// | an integer beyond 64 bits, `1e999` | malformed: it could not be held as it is written |
/// | a lone surrogate (`\ud800`) | malformed |
/// | NUL or another control character | malformed everywhere; escaped (`\u0000`) it is a character |
/// | a byte order mark | malformed outside a string; in one it is a character |
#[derive(Clone, Copy, Debug)]
pub struct ReplyParser<'a> {
    /// How the model calls tools.
    pub form: CallForm,
    /// The tools that it may call, its submitting one included.
    pub tools: &'a [ToolSpec],
    /// The calls in what it was given.
    pub given: &'a ContextCalls,
}

/// Reads a reply of a model that has no tools and was given nothing.
pub fn parse(reply: &ModelReply, form: CallForm) -> Result<ReplyContent, MalformedReply> {
    let given = ContextCalls::default();
    let parser = ReplyParser {
        form,
        tools: &[],
        given: &given,
    };
    parser.parse(reply)
}

impl ReplyParser<'_> {
    /// Reads a reply.
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
                said @ (ReplyContent::Calls(_) | ReplyContent::CallInProse(_)) => Ok(said),
            },
        }
    }

    fn in_text(&self, content: &str) -> Result<ReplyContent, MalformedReply> {
        let scan = scan(content, self.form);
        if scan.only_thinking {
            return Err(MalformedReply::OnlyThinking);
        }
        let calls = Calls::read(&scan, self)?;
        if let Some(said) = calls.into_content(content, &scan, self.given)? {
            return Ok(said);
        }
        let answer = content[scan.answer..].trim();
        match self.intent(content, answer, &scan) {
            ReplyIntent::Answer => Ok(ReplyContent::Text(self.text_of(answer))),
            ReplyIntent::CallInProse => Ok(ReplyContent::CallInProse(answer.to_owned())),
            ReplyIntent::Call(malformed) => Err(malformed),
        }
    }

    /// What a text without a call in the agreed form is meant as (LOOP-3).
    fn intent(&self, content: &str, answer: &str, scan: &Scan<'_>) -> ReplyIntent {
        let offered: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let takes_text_calls = match self.form {
            CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => true,
            CallForm::Native => false,
        };
        match self.in_other_form(content, scan, &offered, takes_text_calls) {
            ReplyIntent::Answer => {}
            meant @ (ReplyIntent::CallInProse | ReplyIntent::Call(_)) => return meant,
        }
        if let Some(place) = scan.bare_markup {
            let end = scan
                .last_closer
                .filter(|end| *end > place)
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

    /// What calls in another form than the agreed one are meant as. A reply that is nothing else, or ends with a new one of a tool that the
    /// model has, is a call; so is one that ends with call markup. Many objects have a name: what has no more than that is a call only
    /// alone, and of a tool that the model has.
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
        let is_given = calls.iter().flatten().any(|call| self.given.contains(call));
        let is_offered = match &calls {
            Ok(calls) => calls.iter().any(|call| offered.contains(&call.tool.as_str())),
            Err(_) => offered
                .iter()
                .any(|tool| last.text.contains(&format!("\"{tool}\""))),
        };
        let is_distinctive = last.announced.is_by_markup() || last.keys.are_distinctive();
        let is_among_words = has_words_after || has_words_before && is_given;
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

    /// The submitting tool whose parameters are the whole answer.
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

    /// What a reply without a call says.
    fn text_of(&self, answer: &str) -> String {
        let wrapped = match self.form {
            CallForm::JsonSchema => wrapped_answer(answer),
            CallForm::Json | CallForm::Native | CallForm::ToolCall | CallForm::Auto => None,
        };
        wrapped.unwrap_or_else(|| answer.to_owned())
    }
}

/// What a text is meant as.
enum ReplyIntent {
    Answer,
    CallInProse,
    Call(MalformedReply),
}

/// What stands for a tool's name where the form of a call is shown to models.
const PLACEHOLDERS: [&str; 2] = ["name of the tool", "the tool's name"];

/// The calls of a text in the agreed form.
struct Calls {
    /// Where each stands, in order.
    spans: Vec<Range<usize>>,
    /// Those that are new to the model, each once, and where the last of them stands.
    new: Vec<Vec<ToolCall>>,
    last_new: usize,
    /// Those that stand in what it was given, each once.
    given: Vec<Vec<ToolCall>>,
    /// Where the form itself stands, with a placeholder for the tool.
    placeholders: Vec<Range<usize>>,
    /// Whether call markup is around one of them.
    has_markup: bool,
}

impl Calls {
    fn read(scan: &Scan<'_>, parser: &ReplyParser<'_>) -> Result<Self, MalformedReply> {
        let mut calls = Calls {
            spans: Vec::new(),
            new: Vec::new(),
            last_new: 0,
            given: Vec::new(),
            placeholders: Vec::new(),
            has_markup: false,
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
            let different = if read.iter().any(|call| parser.given.contains(call)) {
                &mut calls.given
            } else {
                calls.last_new = calls.spans.len();
                &mut calls.new
            };
            if different.len() < MAX_DIFFERENT && !different.contains(&read) {
                different.push(read);
            }
            calls.has_markup |= candidate.announced.is_by_markup();
            calls.spans.push(candidate.span.clone());
        }
        Ok(calls)
    }

    /// What becomes of them; `None` where there are none.
    fn into_content(
        mut self,
        content: &str,
        scan: &Scan<'_>,
        given: &ContextCalls,
    ) -> Result<Option<ReplyContent>, MalformedReply> {
        let is_form_alone = self.spans.is_empty() && !self.placeholders.is_empty();
        if is_form_alone && !SurroundingText::new(content, scan, &self.placeholders).has_words() {
            return Err(MalformedReply::WrongFields {
                problems: vec!["put the name of a tool in the place of the placeholder".to_owned()],
            });
        }
        let mut around = SurroundingText::new(content, scan, &self.spans);
        around.markup |= self.has_markup;
        // What is quoted may hold the tag that makes thinking of the words before it.
        let quotes_thinking = scan.is_unopened && given.has_thinking_end() && self.new.is_empty();
        let answer = if quotes_thinking { 0 } else { scan.answer };
        let in_prose = || Some(ReplyContent::CallInProse(content[answer..].trim().to_owned()));
        let is_last = self.last_new + 1 == self.spans.len();
        let is_whole = self.spans.len() == 1
            && !around.has_words()
            && !around.marks
            && around.wrappers() <= 1
            && !quotes_thinking;
        Ok(match (self.new.len(), self.given.len()) {
            (0, 0) => None,
            (0, 1) if is_whole => self.given.pop().map(ReplyContent::Calls),
            (0, 1) => in_prose(),
            (0, _) if around.has_words() => in_prose(),
            (1, _) if is_last && !around.words_after && (around.has_words() || self.given.is_empty()) => {
                self.new.pop().map(ReplyContent::Calls)
            }
            (1, _) if around.has_words() => in_prose(),
            (_, _) => {
                let tools = self
                    .new
                    .into_iter()
                    .chain(self.given)
                    .flatten()
                    .map(|call| call.tool);
                return Err(MalformedReply::Ambiguous {
                    tools: tools.take(MAX_DIFFERENT).collect(),
                });
            }
        })
    }
}

/// What stands around calls.
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
    /// What stands in the text outside those spans, which are in order, and outside thinking.
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

    /// How many code fences and kinds of markup are around the calls.
    fn wrappers(&self) -> usize {
        self.fences.div_ceil(2) + usize::from(self.markup)
    }
}

/// The text in `{"answer": text}`, where that is all there is.
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
