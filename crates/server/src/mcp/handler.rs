//! Answers the requests of a client.

use std::collections::HashSet;
use std::time::Duration;

use dirigent::events::Digest;
use dirigent::{ApprovalAnswer, Decision, Goal, Mode, RunFilter, RunState, Steering, UserPresence};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, InputResponses, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::time::{Instant, timeout};
use url::Url;

use super::arguments::{
    self, AnswerRun, DecideCall, DecisionKind, GoalMode, GuideRun, ListRuns, MAX_PAGE, MAX_WAIT, OneRun,
    StartGoal, WaitRun,
};
use super::host::Host;
use super::person::{Channel, filled_forms};
use super::progress::Progress;
use super::results::{
    CancelledRun, Delivered, DiffResult, ListedRun, RunList, RunStatus, StartedRun, State, failure, success,
};
use super::snapshot::Snapshot;
use super::tools::{INSTRUCTIONS, ToolName};
use super::waiting::{Waited, Waiting, next_step};
use crate::limits::limits;
use crate::problem::Problem;
use crate::steering::{effect, guidance};

/// The longest time that a client may take to name its roots.
const ROOTS_TIME: Duration = Duration::from_secs(5);

/// The handler of one client's requests.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) host: Host,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let server = Implementation::new("dirigent", env!("CARGO_PKG_VERSION")).with_title("Dirigent");
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ToolName::available(self.host.decider).map(ToolName::definition);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        ToolName::from_name(name, self.host.decider).map(ToolName::definition)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::from_name(&request.name, self.host.decider) else {
            let known = ToolName::available(self.host.decider).map(|tool| tool.definition().name);
            let known = known.collect::<Vec<_>>().join(", ");
            let message = format!("unknown tool `{}`: there are {known}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let result = self.call(tool, request, context).await;
        Ok(result.unwrap_or_else(|problem| failure(&problem).into()))
    }
}

impl Handler {
    async fn call(
        &self,
        tool: ToolName,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Problem> {
        let sent = request.arguments;
        Ok(match tool {
            ToolName::StartGoal => success(&self.start_goal(arguments::parse(sent)?, &context).await?).into(),
            ToolName::WaitRun => {
                let forms = (request.input_responses, request.request_state);
                return self.wait_run(arguments::parse(sent)?, forms, &context).await;
            }
            ToolName::RunStatus => success(&self.run_status(arguments::parse(sent)?).await?).into(),
            ToolName::GuideRun => success(&self.guide_run(arguments::parse(sent)?).await?).into(),
            ToolName::AnswerRun => success(&self.answer_run(arguments::parse(sent)?).await?).into(),
            ToolName::CancelRun => success(&self.cancel_run(arguments::parse(sent)?).await?).into(),
            ToolName::ListRuns => success(&self.list_runs(arguments::parse(sent)?).await?).into(),
            ToolName::RunDiff => success(&self.run_diff(arguments::parse(sent)?).await?).into(),
            ToolName::DecideCall => success(&self.decide_call(arguments::parse(sent)?).await?).into(),
        })
    }

    async fn start_goal(
        &self,
        input: StartGoal,
        context: &RequestContext<RoleServer>,
    ) -> Result<StartedRun, Problem> {
        let host = &self.host;
        let slot = host.reserve()?;
        self.learn_roots(context).await;
        let mut goal = Goal::new(input.goal)
            .workspace(host.folders.for_goal(input.workspace).await?)
            .mode(match input.mode {
                GoalMode::Auto => Mode::Auto,
                GoalMode::Plan => Mode::Plan,
            })
            .user(UserPresence::Present);
        if let Some(model) = input.model {
            goal = goal.default_model(model);
        }
        if !input.limits.is_empty() {
            goal = goal.limits(limits(&input.limits, host.dirigent.default_limits())?);
        }
        let (goal, notes) = goal.include_files().await?;
        let run = host.dirigent.start(goal).await?;
        slot.keep_for(&run);
        let record = host.dirigent.record(run.id()).await?;
        Ok(StartedRun {
            run: run.id().to_string(),
            state: State::Running,
            workspace: record.workspace,
            notes,
        })
    }

    /// Asks the client for the folders that it works in, if it has such a list.
    #[expect(
        deprecated,
        reason = "clients of today have roots, which newer versions of the protocol leave out"
    )]
    async fn learn_roots(&self, context: &RequestContext<RoleServer>) {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let is_older = context
            .protocol_version()
            .is_none_or(|version| version < ProtocolVersion::V_2026_07_28);
        if !self.host.folders.have_roots() || capabilities.roots.is_none() || !is_older {
            return;
        }
        // A client that does not answer keeps the roots that it had.
        if let Ok(Ok(listed)) = timeout(ROOTS_TIME, context.peer.list_roots()).await {
            let paths = listed
                .roots
                .iter()
                .filter_map(|root| Url::parse(&root.uri).ok()?.to_file_path().ok());
            self.host.folders.set_roots(paths.collect());
        }
    }

    async fn wait_run(
        &self,
        input: WaitRun,
        (responses, state): (Option<InputResponses>, Option<String>),
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Problem> {
        let run = self.host.find(&input.run).await?;
        let seconds = Duration::from_secs(input.timeout.min(MAX_WAIT).into());
        let mut waiting = Waiting {
            host: self.host.clone(),
            run,
            channel: Channel::of_call(context),
            progress: Progress::of_call(context),
            deadline: Instant::now() + seconds,
            cancelled: context.ct.clone(),
            answered: HashSet::new(),
            declined: HashSet::new(),
            notes: Vec::new(),
        };
        if responses.is_some() {
            let snapshot = Snapshot::read(&self.host, run).await?;
            for (request, filled) in filled_forms(responses, state.as_deref(), &snapshot.requests)? {
                if waiting.may_ask(&request) {
                    waiting.fill(&request, &filled).await;
                }
            }
        }
        Ok(match waiting.wait().await? {
            Waited::Status(status) => success(&*status).into(),
            Waited::Ask(needed) => needed.into(),
        })
    }

    async fn run_status(&self, input: OneRun) -> Result<RunStatus, Problem> {
        let run = self.host.find(&input.run).await?;
        let snapshot = Snapshot::read(&self.host, run).await?;
        Ok(snapshot.status(next_step(&self.host, &snapshot)))
    }

    async fn guide_run(&self, input: GuideRun) -> Result<Delivered, Problem> {
        let run = self.host.find(&input.run).await?;
        let steering = guidance(input.guidance, None, input.when.into())?;
        let delivery = self.host.deliver(run, steering).await?;
        Ok(Delivered {
            run: run.to_string(),
            delivery,
        })
    }

    async fn answer_run(&self, input: AnswerRun) -> Result<Delivered, Problem> {
        let run = self.host.find(&input.run).await?;
        let question = input
            .question
            .as_deref()
            .map(|text| effect("question", text))
            .transpose()?;
        let outcome = self.host.dirigent.answer(run, question, &input.answer).await?;
        let delivery = self.host.continue_after(run, outcome).await?;
        Ok(Delivered {
            run: run.to_string(),
            delivery,
        })
    }

    async fn cancel_run(&self, input: OneRun) -> Result<CancelledRun, Problem> {
        let run = self.host.find(&input.run).await?;
        self.host.dirigent.steer(run, Steering::Cancel).await?;
        Ok(CancelledRun { run: run.to_string() })
    }

    async fn list_runs(&self, input: ListRuns) -> Result<RunList, Problem> {
        let host = &self.host;
        let mut filter = RunFilter::new().limit(input.limit.clamp(1, MAX_PAGE));
        for state in &input.states {
            let state: RunState = state
                .parse()
                .map_err(|error| Problem::invalid(format!("`states` is invalid: {error}")))?;
            filter = filter.state(state);
        }
        if let Some(text) = input.query {
            filter = filter.text(text);
        }
        if let Some(folder) = host.folders.only() {
            filter = filter.workspace_within(folder.to_string_lossy());
        }
        if let Some(text) = input.after {
            filter = filter.after(host.dirigent.find(&text).await?);
        }
        let page = host.dirigent.runs(filter).await?;
        let listed = page
            .runs
            .iter()
            .filter(|record| host.folders.lists(&record.workspace));
        Ok(RunList {
            runs: listed.map(ListedRun::from).collect(),
            next: page.next.map(|run| run.to_string()),
        })
    }

    async fn run_diff(&self, input: OneRun) -> Result<DiffResult, Problem> {
        let run = self.host.find(&input.run).await?;
        let diff = self.host.dirigent.diff(run, None).await?;
        Ok(DiffResult::new(run.to_string(), &diff))
    }

    async fn decide_call(&self, input: DecideCall) -> Result<Delivered, Problem> {
        let run = self.host.find(&input.run).await?;
        let missing = |field: &str| Problem::invalid(format!("`{field}` is missing: this decision needs it"));
        let answer = match input.decision {
            DecisionKind::Approve => ApprovalAnswer::Approve,
            DecisionKind::Edit => ApprovalAnswer::Edit {
                parameters: input.parameters.ok_or_else(|| missing("parameters"))?,
            },
            DecisionKind::Reject => ApprovalAnswer::Reject { reason: input.reason },
            DecisionKind::Guide => ApprovalAnswer::Guide {
                guidance: input.guidance.ok_or_else(|| missing("guidance"))?,
            },
        };
        let steering = Steering::Decide {
            effect: effect("call", &input.call)?,
            decision: Decision {
                digest: Digest(input.digest),
                answer,
            },
        };
        let delivery = self.host.deliver(run, steering).await?;
        Ok(Delivered {
            run: run.to_string(),
            delivery,
        })
    }
}
