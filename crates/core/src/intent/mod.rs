//! What a conversation's message is: a request for an MCP tool, a fact to remember or recall, an answer to what waits for the user, or
//! anything else (INTENT-1, MCP-3).
//!
//! [`classify`] checks in this order, in English and Chinese, by words alone:
//!
//! 1. **MCP**: explicit wording ("use the xxx tool", 用 xxx 工具) names a tool, known or not; without the noun ("call xxx", 调用 xxx) the
//!    name must be known and the words must be a request. Otherwise a service's trigger keyword counts.
//! 2. **Memory**: the message begins with a request to remember, recall or forget a fact.
//! 3. **HITL** (human in the loop): something is pending, and the words fit it. Clear words decide. Unclear words are asked back and never
//!    guessed.
//! 4. **Normal**: everything else.
//!
//! Negated and quoted wording is no intent; quoted are quotations, code, and lines that begin with `>`.
//!
//! What is *not* an intent, on purpose: "remember to …" and 记得关闭文件 (a task for the model, not a fact about the user), "note that …" and
//! "keep in mind that …" (hints of a task), a request to remember behind other sentences (the task would be lost), "do you remember the
//! film" and 我们看的电影 (no fact that the user told).
//!
//! The result is data for the journal. JSON: `{"intent": {"kind": "memory", "action": "remember", "fact": "…"},
//! "reason": {"rule": "remember", "words": ["remember that"]}}`, and `"also"` with the same fields where a message is two things.

mod choice;
mod decision;
mod hitl;
mod language;
mod mcp;
mod memory;
mod quotes;
mod requests;
mod words;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::id::EffectId;
use crate::question::OpenQuestion;
use words::Words;

/// What the meaning of a message depends on besides its words.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntentContext<'a> {
    /// The registered MCP services.
    pub services: &'a [KnownService],
    /// The names of Dirigent's own tools, which need no service.
    pub own_tools: &'a [String],
    /// The calls and questions that wait for the user, in the order shown.
    pub pending: &'a [PendingRequest],
    /// True if the message before this one kept a fact, so that "forget that" undoes it.
    pub has_just_remembered: bool,
}

/// An MCP service and its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownService {
    /// The service's name.
    pub name: String,
    /// The names of its tools: the current ones, or those from when it last ran.
    pub tools: Vec<String>,
    /// Words that mean this service without naming it.
    pub trigger_keywords: Vec<String>,
    /// Whether it runs.
    pub state: ServiceState,
}

/// Whether an MCP service runs. JSON: `"running"`, `"idle"`, `"stopped"` or `"failed"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It runs.
    Running,
    /// It idles or was never started, and is started on need.
    Idle,
    /// The user stopped it.
    Stopped,
    /// It is in error.
    Failed,
}

/// A call or question that waits for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// The effect id of the call or question.
    pub effect: EffectId,
    /// What is asked for.
    pub kind: PendingKind,
}

/// What a pending request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingKind {
    /// A decision about a call.
    Approval,
    /// An answer.
    Question {
        /// The suggested answers, in the order shown; empty if there are none.
        choices: Vec<String>,
    },
}

impl From<&Approval> for PendingRequest {
    fn from(approval: &Approval) -> Self {
        PendingRequest {
            effect: approval.effect,
            kind: PendingKind::Approval,
        }
    }
}

impl From<&OpenQuestion> for PendingRequest {
    fn from(open: &OpenQuestion) -> Self {
        let choices = open.question.choices.clone();
        PendingRequest {
            effect: open.effect,
            kind: PendingKind::Question { choices },
        }
    }
}

/// What a message is, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// What the message is.
    pub intent: Intent,
    /// The rule that decided, and the words that it matched.
    pub reason: IntentReason,
    /// What the message is besides an MCP intent, which takes neither a fact nor an answer away: Memory or HITL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<Box<Classification>>,
}

/// What a message is. JSON: an object with the field `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Intent {
    /// It asks for tools of MCP services.
    Mcp(McpIntent),
    /// It keeps, recalls or deletes a fact.
    Memory(MemoryIntent),
    /// It answers what waits for the user.
    Hitl(HitlIntent),
    /// Anything else.
    Normal,
}

/// The tools and services that a message asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpIntent {
    /// At least one, in the order of the message.
    pub targets: Vec<McpTarget>,
}

/// A tool or service that a message asks for. JSON: an object with the field `target`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "snake_case")]
pub enum McpTarget {
    /// A tool of a service.
    Tool {
        /// The tool's name.
        name: String,
        /// The service's name.
        service: String,
        /// Whether the service runs.
        state: ServiceState,
    },
    /// A service.
    Service {
        /// The service's name.
        name: String,
        /// Whether the service runs.
        state: ServiceState,
    },
    /// One of Dirigent's own tools, which agents have anyway.
    OwnTool {
        /// The tool's name.
        name: String,
    },
    /// A name that is neither; the user is told so.
    Unknown {
        /// The name as written.
        name: String,
    },
}

/// What a message wants of the memory. JSON: an object with the field `action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum MemoryIntent {
    /// Keep a fact.
    Remember {
        /// The fact as written.
        fact: String,
    },
    /// Answer from facts.
    Recall {
        /// What is asked for, without the words of the question; empty for all facts.
        query: String,
    },
    /// Delete facts.
    Forget {
        /// What they are about.
        query: String,
    },
    /// Delete the fact that was kept last.
    Undo,
}

/// How a message answers what waits for the user. JSON: an object with the field `answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HitlIntent {
    /// Approve the only call that waits.
    Approve {
        /// The call.
        effect: EffectId,
    },
    /// Reject it.
    Reject {
        /// The call.
        effect: EffectId,
        /// The reason as written, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Change its parameters. Words are no parameters: the changed call is shown before it runs (APPROVE-3).
    Edit {
        /// The call.
        effect: EffectId,
        /// The words that say what to change.
        words: String,
    },
    /// Do not run it, and do something else.
    Guide {
        /// The call.
        effect: EffectId,
        /// The whole message.
        guidance: String,
    },
    /// Take a choice of a question.
    Choose {
        /// The question.
        effect: EffectId,
        /// The choice's number, counted from 1.
        number: usize,
    },
    /// Answer a question in the user's own words.
    Answer {
        /// The question.
        effect: EffectId,
        /// The whole message.
        text: String,
    },
    /// The words sound like an answer, but not clearly like one: show again what waits. The rule says why.
    Unclear,
}

/// Why a message was classified as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentReason {
    /// The rule that decided.
    pub rule: IntentRule,
    /// The words that it matched, as written; empty if it depends on no single words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// The rules of [`classify`]. JSON: the name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentRule {
    /// A tool or service is named with its noun: "use the xxx tool".
    NamedTool,
    /// A known tool or service is named without a noun: "call xxx".
    KnownName,
    /// A service's trigger keyword.
    TriggerKeyword,
    /// A request to keep a fact.
    Remember,
    /// A question for a fact.
    Recall,
    /// A request to delete facts about something.
    Forget,
    /// A request to delete the last fact.
    Undo,
    /// All words approve or reject.
    Decision,
    /// A rejection with a reason.
    DecisionWithReason,
    /// Words that introduce changed parameters.
    Edit,
    /// Something else is to be done instead.
    Instead,
    /// A choice's number or ordinal.
    ChoiceNumber,
    /// A choice's text.
    ChoiceText,
    /// None of the choices, but the user's own answer.
    OwnAnswer,
    /// An open question, which takes the whole message.
    OpenQuestion,
    /// Unclear: several requests wait, and the words could be for more than one, or decide more than one call.
    SeveralRequests,
    /// Unclear: words such as "maybe" or "wait".
    Hedged,
    /// Unclear: decision words or choices together with other words.
    MixedWords,
    /// Unclear: a number that no choice has.
    NoSuchChoice,
    /// Unclear: more than one choice.
    SeveralChoices,
    /// No rule matched.
    None,
}

/// Classifies a message of a conversation by its words, what is known and what waits (INTENT-1). Any text has a classification.
pub fn classify(message: &str, context: &IntentContext<'_>) -> Classification {
    let words = Words::new(message);
    let answer = || hitl::classify(&words, context.pending);
    if let Some(named) = mcp::explicit(&words, context) {
        let also = answer().filter(is_clear_answer);
        return named.with(also);
    }
    let memory = || memory::classify(&words, context);
    if let Some(triggered) = mcp::triggered(&words, context) {
        return triggered.with(memory().or_else(answer));
    }
    memory()
        .or_else(answer)
        .unwrap_or_else(|| Classification::new(Intent::Normal, IntentRule::None, []))
}

/// Returns true for an answer that stays one beside the name of a tool. An open question does not: it would take any message.
fn is_clear_answer(answer: &Classification) -> bool {
    answer.reason.rule != IntentRule::OpenQuestion && answer.intent != Intent::Hitl(HitlIntent::Unclear)
}

impl Classification {
    fn new<'w>(intent: Intent, rule: IntentRule, words: impl IntoIterator<Item = &'w str>) -> Self {
        let words = words.into_iter().map(str::to_owned).collect();
        Classification {
            intent,
            reason: IntentReason { rule, words },
            also: None,
        }
    }

    fn with(self, also: Option<Classification>) -> Self {
        Classification {
            also: also.map(Box::new),
            ..self
        }
    }
}
