//! Plans that change no files: usages, checks, counts and lists.

use dirigent_core::observation::ObservationStatus;

use super::subtasks::{Draft, DraftOrCall, PlanningContext, agent_subtask, calls_subtask};
use crate::checks::{self, CheckKind};
use crate::conversation::Call;
use crate::empty_plan::EmptyPlan;
use crate::goal::{CheckSelection, CountTarget};
use crate::prompt_sections::{failure_reason, interrupted_call};
use crate::scope::Scope;
use crate::sub_agent_task::SubAgentTask;
use crate::tools::{self, Pattern, planned_call};

/// The id of the sub-task that runs commands.
const CHECK: &str = "check";

/// Plans one sub-agent that finds the usages.
pub(super) fn find_usages(symbol: &str, scope: &Scope) -> Draft {
    let task = SubAgentTask::FindUsages {
        symbol: symbol.to_owned(),
        scope: scope.clone(),
    };
    let title = format!("Find every usage of {symbol}");
    Draft {
        summary: format!("Find every usage of `{symbol}`{scope}; nothing is changed."),
        subtasks: vec![agent_subtask("explore", title, Vec::new(), "explore", &task)],
    }
}

/// Plans the user's command, or the project's tests or build.
pub(super) fn check(context: &PlanningContext<'_>, selection: &CheckSelection) -> DraftOrCall {
    let of_project = |kind: CheckKind| -> Result<Vec<Vec<String>>, Call> {
        let checks = checks::project_checks(context.conversation, &[])?.into_iter();
        let of_kind = checks.filter(|check| check.kind == kind);
        Ok(of_kind.map(|check| check.command).collect())
    };
    let commands = match selection {
        CheckSelection::Command(command) => match already_run(context, command) {
            Some(plan) => return Ok(plan.into()),
            None => vec![command.clone()],
        },
        CheckSelection::Tests => of_project(CheckKind::Tests)?,
        CheckSelection::Build => of_project(CheckKind::Build)?,
    };
    if commands.is_empty() {
        let why = "this project has no check that the offline model knows (Cargo, Python tests, an npm test script, Go). \
                   Give the command in backticks: run `make test`.";
        return Ok(EmptyPlan::Impossible(why.to_owned()).into());
    }
    let lines: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    let calls = commands.iter().map(|command| tools::command(command)).collect();
    let title = format!("Run {}", lines.join(" and "));
    Ok(Draft {
        summary: format!("Run `{}` and report how it ends.", lines.join("` and `")),
        subtasks: vec![calls_subtask(CHECK, title, Vec::new(), calls)],
    })
}

/// Returns the plan if the user's command has already been started in an earlier iteration: it is not run twice. `None` if it has not been
/// started.
fn already_run(context: &PlanningContext<'_>, command: &[String]) -> Option<EmptyPlan> {
    let mut observations = context.sections.past_observations();
    let ran = observations.find(|observation| {
        observation.subtask.0 == CHECK && observation.status != ObservationStatus::Skipped
    })?;
    let line = command.join(" ");
    Some(match (ran.status, interrupted_call(&ran)) {
        (ObservationStatus::Succeeded, _) => {
            EmptyPlan::NothingToDo(format!("`{line}` has already run, and succeeded."))
        }
        (_, Some(_)) => EmptyPlan::Impossible(format!(
            "`{line}` was interrupted. It is not run again, because it may have done part of its work."
        )),
        (_, None) => EmptyPlan::Impossible(format!(
            "`{line}` has already run, and failed: {}",
            failure_reason(&ran)
        )),
    })
}

/// Plans one call whose output is the count or the list.
pub(super) fn count(target: &CountTarget, scope: &Scope) -> Draft {
    let (title, call) = match target {
        CountTarget::Lines => (
            "Count the lines".to_owned(),
            tools::search(Pattern::Lines("^"), scope),
        ),
        CountTarget::Files => ("Count the files".to_owned(), list_call(scope)),
        CountTarget::FileNames => ("List the files".to_owned(), list_call(scope)),
        CountTarget::Text(text) => (format!("Count {text}"), tools::search(Pattern::Text(text), scope)),
        CountTarget::Word(word) => (format!("Count {word}"), tools::search(Pattern::Word(word), scope)),
    };
    Draft {
        summary: format!("{title}{scope}; nothing is changed."),
        subtasks: vec![calls_subtask(
            "count",
            title,
            Vec::new(),
            vec![planned_call(call)],
        )],
    }
}

/// Number of folder levels to list.
const DEPTH: u32 = 32;

fn list_call(scope: &Scope) -> Call {
    match scope.only.as_slice() {
        [only] => tools::list(only, DEPTH),
        _ => tools::list(".", DEPTH),
    }
}
