//! The intent of a message in a conversation: a request for an MCP tool, a request about facts, an answer to a pending call or question, or
//! none of these (INTENT-1, MCP-3).
//!
//! [`classify`] looks only at the words, in English and Chinese, in this order:
//!
//! 1. **MCP**: explicit wording ("use the xxx tool", 用 xxx 工具) requests a tool, known or not. Without the noun ("call xxx", 调用 xxx)
//!    the name must be known and the words must be a request. A service's trigger keyword also counts.
//! 2. **Memory**: the message begins with a request to remember, recall or forget a fact.
//! 3. **HITL** (human in the loop): a call or question is pending, and the words fit it. Clear words decide. Unclear words are never
//!    interpreted as a decision; the user is asked again.
//! 4. **Normal**: everything else.
//!
//! Negated and quoted wording does not count. Quotations, code, and lines that begin with `>` are quoted.
//!
//! By design, these are not intents: "remember to …" and 记得关闭文件 (a task for the model, not a fact about the user), "note that …" and "keep
//! in mind that …" (hints for a task), a request to remember something after other sentences (the task in them would be lost), "do you
//! remember the film" and 我们看的电影 (not facts that the user stated).
//!
//! The result is journaled. JSON: `{"intent": {"kind": "memory", "action": "remember", "fact": "…"},
//! "reason": {"rule": "remember", "words": ["remember that"]}}`, and a second intent, with the same fields, in `"also"`.

mod choice;
mod decision;
mod hitl;
mod language;
mod mcp;
mod memory;
mod mention;
mod quotes;
mod requests;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::id::EffectId;
use crate::question::OpenQuestion;
use language::all;
use words::Words;

pub use mention::{PhraseMention, find_mention};

/// The context that influences how a message is classified.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntentContext<'a> {
    /// The registered MCP services.
    pub services: &'a [KnownService],
    /// The names of Dirigent's own tools, which need no service.
    pub own_tools: &'a [String],
    /// The calls and questions that wait for the user, in the order shown.
    pub pending: &'a [PendingRequest],
    /// True if the message before this one saved a fact, so that "forget that" deletes it again.
    pub has_just_remembered: bool,
    /// True if an earlier message saved a fact that was not deleted since. Then "forget that" deletes this fact, but "undo that" and "never
    /// mind" do not, because they may be about something else by then.
    pub has_kept_fact: bool,
}

/// An MCP service and its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownService {
    /// The service's name.
    pub name: String,
    /// The names of the service's tools: the current tools or, if the service is not running, its tools when it last ran.
    pub tools: Vec<String>,
    /// Words that refer to this service without its name.
    pub trigger_keywords: Vec<String>,
    /// The service's state.
    pub state: ServiceState,
}

/// The state of an MCP service. JSON: `"running"`, `"idle"`, `"stopped"` or `"failed"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// The service is running.
    Running,
    /// The service is idle or was never started; it is started when needed.
    Idle,
    /// The user stopped the service.
    Stopped,
    /// The service failed.
    Failed,
}

/// A call or question that waits for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// The effect id of the call or question.
    pub effect: EffectId,
    /// What the request needs: a decision or an answer.
    pub kind: PendingKind,
}

/// What a pending request needs from the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingKind {
    /// A decision about a call.
    Approval,
    /// An answer to a question.
    Question {
        /// The suggested answers, in the order shown; empty if there are none.
        choices: Vec<String>,
    },
}

/// The message's intent and the reason for it, on one line: `memory (remember: "remember that")`.
impl fmt::Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.intent {
            Intent::Mcp(_) => "mcp",
            Intent::Memory(_) => "memory",
            Intent::Hitl(_) => "hitl",
            Intent::Normal => "normal",
        };
        let rule = serde_json::to_value(self.reason.rule).unwrap_or_default();
        let rule = rule.as_str().unwrap_or_default().replace('_', " ");
        let words: Vec<String> = self
            .reason
            .words
            .iter()
            .map(|words| format!("{words:?}"))
            .collect();
        match (self.reason.rule, words.as_slice()) {
            (IntentRule::None, _) => write!(f, "{kind} (no rule matched)")?,
            (_, []) => write!(f, "{kind} ({rule})")?,
            (_, words) => write!(f, "{kind} ({rule}: {})", words.join(", "))?,
        }
        match &self.also {
            Some(also) => write!(f, ", and {also}"),
            None => Ok(()),
        }
    }
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

/// The classification of a message, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// The message's intent.
    pub intent: Intent,
    /// The rule that applied, and the words that it matched.
    pub reason: IntentReason,
    /// A second intent, Memory or HITL, of a message whose first intent is MCP. A message that names a tool may also
    /// contain a fact or an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<Box<Classification>>,
}

/// The intent of a message. JSON: an object with the field `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Intent {
    /// The message asks for tools of MCP services.
    Mcp(McpIntent),
    /// The message saves, recalls or deletes facts.
    Memory(MemoryIntent),
    /// The message answers a pending call or question.
    Hitl(HitlIntent),
    /// Anything else.
    Normal,
}

/// The tools and services that a message asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpIntent {
    /// The requested tools and services in the order of the message; never empty.
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
        /// The service's state.
        state: ServiceState,
    },
    /// A service.
    Service {
        /// The service's name.
        name: String,
        /// The service's state.
        state: ServiceState,
    },
    /// One of Dirigent's own tools, which is available without a service.
    OwnTool {
        /// The tool's name.
        name: String,
    },
    /// A name that is neither a known tool nor a known service. The user is told that the name is unknown.
    Unknown {
        /// The name as written.
        name: String,
    },
}

/// A message's request about facts. JSON: an object with the field `action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum MemoryIntent {
    /// Save a fact.
    Remember {
        /// The fact as written.
        fact: String,
    },
    /// Answer from the saved facts.
    Recall {
        /// The search terms: the question without its question words. Empty to ask for all facts.
        query: String,
    },
    /// Delete facts about a topic.
    Forget {
        /// The search terms of the topic.
        query: String,
    },
    /// Delete the most recently saved fact.
    Undo,
}

/// A message's answer to a pending call or question. JSON: an object with the field `answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HitlIntent {
    /// Approve the only waiting call.
    Approve {
        /// The call.
        effect: EffectId,
    },
    /// Reject the call.
    Reject {
        /// The call.
        effect: EffectId,
        /// The reason as written, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Change the call's parameters. `words` are not the new parameters themselves; the changed call is shown before it runs (APPROVE-3).
    Edit {
        /// The call.
        effect: EffectId,
        /// The words that describe the change.
        words: String,
    },
    /// Do not run the call, and follow other instructions.
    Guide {
        /// The call.
        effect: EffectId,
        /// The whole message.
        guidance: String,
    },
    /// Take one of a question's choices.
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
    /// The words are not clearly an answer, so the pending requests are shown again. The rule says why.
    Unclear,
}

/// The reason for a classification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentReason {
    /// The rule that applied.
    pub rule: IntentRule,
    /// The words that the rule matched, as written; empty if the rule does not depend on particular words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// The rules of [`classify`]. JSON: the name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentRule {
    /// A tool or service that is named with a noun: "use the xxx tool".
    NamedTool,
    /// A known tool or service without a noun: "call xxx".
    KnownName,
    /// A service's trigger keyword.
    TriggerKeyword,
    /// A request to save a fact.
    Remember,
    /// A question about saved facts.
    Recall,
    /// A request to delete the facts about a topic.
    Forget,
    /// A request to delete the last fact.
    Undo,
    /// Every word belongs to an approval or a rejection.
    Decision,
    /// A rejection with a reason.
    DecisionWithReason,
    /// Words that introduce changed parameters.
    Edit,
    /// Other instructions instead of the call.
    Instead,
    /// A choice's number or ordinal.
    ChoiceNumber,
    /// A choice's text.
    ChoiceText,
    /// The user's own answer instead of a choice.
    OwnAnswer,
    /// An open question, for which the whole message is the answer.
    OpenQuestion,
    /// Unclear: several requests are pending, and the words fit more than one of them.
    SeveralRequests,
    /// Unclear: words such as "maybe" or "wait".
    Hedged,
    /// Unclear: decision words or choices together with other words.
    MixedWords,
    /// Unclear: a number for which there is no choice.
    NoSuchChoice,
    /// Unclear: more than one choice is mentioned.
    SeveralChoices,
    /// No rule matched.
    None,
}

/// Classifies a message of a conversation by its words, the known tools and the pending requests (INTENT-1). Every message gets a
/// classification.
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

/// Returns true for a fact about the user ("my name is Ann", 我喜欢喝茶), and false for one about the project ("the tests need a database",
/// "we deploy on Fridays", "I use tabs in this project").
pub fn is_about_user(fact: &str) -> bool {
    let words = Words::new(fact);
    let has = |phrases| words.find(0..words.len(), all(phrases)).is_some();
    has(|language| language.about_user) && !has(|language| language.about_project)
}

/// Returns true for an answer that is also valid if the message names a tool. An answer to an open question does not count, since every
/// message would fit it.
fn is_clear_answer(answer: &Classification) -> bool {
    answer.reason.rule != IntentRule::OpenQuestion && answer.intent != Intent::Hitl(HitlIntent::Unclear)
}

impl Classification {
    /// The request about facts in the message, even if the message also has an MCP intent; `None` if there is none.
    pub fn memory(&self) -> Option<&MemoryIntent> {
        match &self.intent {
            Intent::Memory(intent) => Some(intent),
            Intent::Mcp(_) => self.also.as_deref()?.memory(),
            Intent::Hitl(_) | Intent::Normal => None,
        }
    }

    /// The message's answer to a pending call or question, even if the message also has an MCP intent; `None` if there is none.
    pub fn answer(&self) -> Option<&HitlIntent> {
        match &self.intent {
            Intent::Hitl(intent) => Some(intent),
            Intent::Mcp(_) => self.also.as_deref()?.answer(),
            Intent::Memory(_) | Intent::Normal => None,
        }
    }

    /// Returns the classification without any words of the message, for a message that must not be stored.
    pub fn without_words(self) -> Self {
        let intent = match self.intent {
            Intent::Memory(MemoryIntent::Remember { .. }) => {
                let fact = String::new();
                Intent::Memory(MemoryIntent::Remember { fact })
            }
            intent => intent,
        };
        Classification {
            intent,
            reason: IntentReason {
                rule: self.reason.rule,
                words: Vec::new(),
            },
            also: self.also.map(|also| Box::new(also.without_words())),
        }
    }

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
