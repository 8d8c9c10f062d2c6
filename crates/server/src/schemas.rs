//! The forms of requests and responses for the OpenAPI description. Responses are made from the library's types, which serialize themselves; the types
//! here only describe them.

use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// An error (RFC 9457). `code` stays the same, even if the text changes.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Problem {
    /// `urn:dirigent:problem:` with the code.
    r#type: String,
    title: String,
    status: u16,
    code: String,
    /// What failed, why, and what to do.
    detail: String,
}

/// Which actions the lead may take itself, and whether its plans wait for the user.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) enum Mode {
    Auto,
    Plan,
    ApprovedPlan,
}

/// A run in a list. Times are in milliseconds since 1970-01-01 UTC.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Run {
    run: String,
    /// `running`, `interrupted`, or why it ended: `goal_achieved`, `user_required`, `iteration_limit`, `time_limit`, `budget_exhausted`, `cancelled`, `failed`.
    state: String,
    goal: String,
    workspace: String,
    created_at: u64,
    ended_at: Option<u64>,
    /// The process that owns the run.
    owner_pid: Option<u32>,
    /// The number of its journal entries.
    entries: u64,
    forked_from: Option<Value>,
    conversation: Option<String>,
    turn: Option<u32>,
    problem: Option<String>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// The number of runs on all pages.
    total: u64,
    /// The value of `after` for the next page; `null` on the last one.
    next: Option<String>,
}

/// A new run: the fields of a run in a list, and notes about the files that the goal mentions.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct StartedRun {
    #[schema(inline)]
    run: String,
    state: String,
    goal: String,
    workspace: String,
    notes: Vec<String>,
}

/// The state of a run: the fields of a run in a list, and what its events have told.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct RunState {
    run: String,
    state: String,
    /// The number of the journal entry that the report includes: events after it are new. Absent before the run began.
    seq: Option<u64>,
    /// The report, as in docs/events.md.
    report: Option<Value>,
    /// The limits that the run has, by their names: times in milliseconds, `max_cost` in nano-dollars. Absent before the run began.
    limits: Option<Value>,
    pending_messages: Vec<Value>,
    worktree: Option<String>,
}

/// The outcome of a message to a run.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct SentMessage {
    run: String,
    /// `accepted`, `pending` until the run is resumed or, for a rule that was saved, `ended`.
    state: String,
    /// The rule that a decision with `always` has saved.
    rule: Option<Value>,
}

/// What runs wait for.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct PendingRequests {
    /// The calls that wait for approval: `effect`, `tool`, `parameters`, `workspace`, `asked_at`, `expires_at`, `digest`, `subtask`, `dependents`, and `suggestions`, the patterns of rules that would allow the call.
    approvals: Vec<Value>,
    questions: Vec<Value>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct WaitingRuns {
    /// The runs, each with `approvals` and `questions`.
    runs: Vec<Value>,
}

/// A decision that would be accepted.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct CheckedDecision {
    run: String,
    valid: bool,
    /// The rule that `always` would save: `calls`, `scope` and `subject`.
    rule: Option<Value>,
}

/// The states of all runs: the fields of runs in a list and, for active and waiting runs, `phase`, `iteration`, `waiting` (the numbers of `approvals` and `questions`), `subtasks`
/// (their number by state) and `usage`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct RunStates {
    /// The value of `after`, or of `Last-Event-ID`, for the stream that goes on here.
    id: String,
    runs: Vec<Value>,
    /// How many runs are `running` and `user_required`, and how many `approvals` and `questions` wait.
    counts: Value,
}

/// The plans of a run with the states of their sub-tasks.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Graph {
    run: String,
    /// Each with `iteration`, `summary`, `subtasks` and, if the plan waits for approval, the call's id as `approval`; `null` otherwise.
    iterations: Vec<Value>,
}

/// An output of a run as text: the long texts of the result, one after the other or, if there are none, a line for each value.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Output {
    run: String,
    handle: String,
    /// The number of characters of the whole output.
    characters: u64,
    /// The number of the last line of the whole output.
    last_line: u64,
    /// The name of each long text, such as `output.stdout`, and the `line` with which it begins.
    texts: Vec<Value>,
    /// The other values of the result.
    other_values: Value,
    /// The requested part of the output.
    text: String,
}

/// The changes of a run to files.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Diff {
    run: String,
    files: Vec<Value>,
    commands: Vec<Value>,
    diff: String,
    unfinished: Vec<Value>,
}

/// What an undo does, or did.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Undo {
    run: String,
    after: Option<u64>,
    workspace: String,
    steps: Vec<Value>,
    /// The paths that cannot be undone, with the reasons.
    refused: Vec<Value>,
    other_changes: Value,
    unfinished: Vec<Value>,
    /// Only once it was done.
    done: Option<Value>,
    failed: Option<Value>,
}

/// A conversation.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Conversation {
    conversation: String,
    title: String,
    workspace: String,
    settings: Value,
    created_at: u64,
    used_at: u64,
    turns: u32,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Conversations {
    conversations: Vec<Conversation>,
}

/// A conversation with its last turns: the fields of a conversation in a list, and these.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct ConversationState {
    conversation: String,
    title: String,
    settings: Value,
    /// The last turns, the oldest first: `turn`, `run`, `message`, `intent`, `at`, `report`.
    messages: Vec<Value>,
    usage: Value,
}

/// The answer to a message.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct TurnAnswer {
    conversation: String,
    run: Option<String>,
    /// `answered`, `needs_user`, `limit`, `failed`, `cancelled`, `accepted` or `pending`.
    state: String,
    answer: Option<String>,
    usage: Option<Value>,
    /// Why the turn ended, if not with an answer.
    end: Option<Value>,
    /// The rule that a decision with `always` has saved.
    rule: Option<Value>,
    /// With `needs_user`.
    approvals: Option<Vec<Value>>,
    /// With `needs_user`.
    questions: Option<Vec<Value>>,
}

/// A version of a base system prompt.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct SystemPrompt {
    name: String,
    version: u32,
    text: String,
    at: Option<u64>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct SystemPrompts {
    system_prompts: Vec<SystemPrompt>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct DeletedPrompt {
    /// The number of conversations that use the prompt.
    conversations: u64,
}

/// The system prompt and the native tools that the lead's model gets.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct EnhancedPrompt {
    agent: String,
    calls: Value,
    system: String,
    tools: Vec<Value>,
    tokens: u64,
}

/// A workflow.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Workflow {
    name: String,
    /// How to invoke it in a message.
    usage: String,
    description: String,
    category: String,
    /// Each with `name`, `type`, `required`, `default`, `pattern`, `choices`, `description`.
    parameters: Vec<Value>,
    agent: Option<String>,
    mode: String,
    tools: Option<Vec<String>>,
    approval: Vec<Value>,
    source: String,
    file: Option<String>,
    notes: Vec<String>,
    template: String,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Workflows {
    workflows: Vec<Workflow>,
    /// All categories.
    categories: Vec<String>,
    /// The project's files that are not trusted, each with `name`, `file`, `digest` and `text`.
    untrusted: Vec<Value>,
    refused: Vec<Value>,
}

/// A fact: about the user, or about a folder.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Fact {
    id: u64,
    /// `user` or `workspace`.
    scope: String,
    workspace: Option<String>,
    text: String,
    at: u64,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Facts {
    facts: Vec<Fact>,
}

/// A sub-agent.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Agent {
    name: String,
    source: String,
    file: Option<String>,
    description: String,
    tools: Vec<String>,
    access: String,
    model: Option<String>,
    limits: Value,
    notes: Vec<String>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Agents {
    agents: Vec<Agent>,
    refused: Vec<Value>,
    lead: Value,
    reflector: Value,
}

/// An MCP service.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct McpService {
    name: String,
    /// `disabled`, `stopped`, `not_started`, `starting`, `running` or `error`.
    state: String,
    origin: Value,
    hides: Vec<Value>,
    settings: Value,
    /// The tools, each with `name` and `summary`; in a list of services, their number.
    tools: Value,
    unavailable: Value,
    last_start: Option<Value>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct McpServices {
    services: Vec<McpService>,
    untrusted: Option<Value>,
    skipped: Vec<Value>,
    notes: Vec<String>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct McpLogs {
    name: String,
    state: String,
    /// When the last start was first seen to have this outcome.
    at: Option<u64>,
    error: Option<String>,
    stderr: Vec<String>,
}

/// A rule by which you always allow calls.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct ApprovalRule {
    id: u64,
    calls: String,
    /// `run`, `conversation`, `workspace` or `everywhere`.
    scope: String,
    /// The run, the conversation or the folder.
    subject: Option<String>,
    at: u64,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct ApprovalRules {
    rules: Vec<ApprovalRule>,
}

/// The usage of the runs that began in a period. A fork does not count what it shares with its source.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct UsageBody {
    by: String,
    from: u64,
    to: u64,
    /// The number of runs.
    runs: u64,
    /// `requests`, `estimated_requests`, `tool_calls`, `input_tokens`, `cached_input_tokens`, `output_tokens`, and `cost` in nano-dollars.
    total: Value,
    /// The same by day, model or agent, which is the `key`. The key `run` has what belongs to no model or agent: the calls of plans and, by model, requests without a reply.
    rows: Vec<Value>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct Health {
    status: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct RunPath {
    /// The id of a run, at least four digits of its beginning or end, or `last`.
    run: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct EffectPath {
    /// The id of the call, such as `a3.4`: its `effect` in answers and events.
    effect: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct HandlePath {
    /// The handle of the output, such as `a3.4`, the `effect` of a call.
    handle: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct ContextPath {
    /// The id of a conversation, at least four digits of it, or `last`.
    conversation: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct NamePath {
    /// The name.
    name: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct FactPath {
    /// The number of the fact.
    fact: u64,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct RulePath {
    /// The number of the rule.
    rule: u64,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes addresses")]
pub(crate) struct ModelPath {
    /// The name of a model.
    model: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub(crate) struct SystemPromptHeader {
    /// The name of the base system prompt that is put in front of a request without a system message; `default` if absent.
    #[param(rename = "X-System-Prompt-Id")]
    system_prompt: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub(crate) struct McpSessionHeader {
    /// The id of the session; absent in the first message, which begins one.
    #[param(rename = "Mcp-Session-Id")]
    session: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub(crate) struct VersionHeader {
    /// The `ETag` of the version that was changed.
    #[param(rename = "If-Match")]
    version: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers")]
pub(crate) struct LastEventHeader {
    /// The id of the last event that a client which connects again has got. It precedes `after`.
    #[param(rename = "Last-Event-ID")]
    last: Option<String>,
}

/// A value of any form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct AnyJson(Value);

/// A request of OpenAI's chat completions.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct ChatCompletion {
    /// A name from `[models.NAME]`, `default`, `offline`, or `PROVIDER/NAME`.
    model: String,
    messages: Vec<Value>,
    /// Whether to send the completion in chunks.
    stream: Option<bool>,
}

/// A model of OpenAI's API.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct OfferedModel {
    id: String,
    object: String,
    created: u64,
    owned_by: String,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct OfferedModels {
    object: String,
    data: Vec<OfferedModel>,
}

/// An error of OpenAI's API.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes JSON")]
pub(crate) struct OpenAiError {
    /// `message`, `type`, `param` and `code`.
    error: Value,
}
