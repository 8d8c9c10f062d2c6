//! Planning what only looks: usages, checks, counts and lists.

use super::{Draft, DraftOrCall, PlanningContext, agent_subtask, calls_subtask};
use crate::checks::{self, CheckKind};
use crate::empty_plan::EmptyPlan;
use crate::goal::{CheckSelection, CountTarget};
use crate::scope::Scope;
use crate::sub_agent_task::SubAgentTask;
use crate::tools::{self, Pattern, planned_call};

/// One agent that finds the usages.
pub(crate) fn find_usages(symbol: &str, scope: &Scope) -> Draft {
    let task = SubAgentTask::FindUsages {
        symbol: symbol.to_owned(),
        scope: scope.clone(),
    };
    Draft {
        summary: format!("Find every usage of `{symbol}`{scope}; nothing is changed."),
        subtasks: vec![agent_subtask(
            "explore",
            format!("Find every usage of {symbol}"),
            Vec::new(),
            "explore",
            &task,
        )],
    }
}

/// The command that was asked for, or those of the project.
pub(crate) fn check(context: &PlanningContext<'_>, selection: &CheckSelection) -> DraftOrCall {
    let commands: Vec<Vec<String>> = match selection {
        CheckSelection::Command(command) => vec![command.clone()],
        CheckSelection::Tests | CheckSelection::Build | CheckSelection::Everything => {
            let checks = checks::project_checks(context.conversation, &[])?.into_iter();
            let is_wanted = |kind: CheckKind| match selection {
                CheckSelection::Tests => kind == CheckKind::Tests,
                CheckSelection::Build => kind == CheckKind::Build,
                CheckSelection::Everything | CheckSelection::Command(_) => true,
            };
            checks
                .filter(|check| is_wanted(check.kind))
                .map(|check| check.command)
                .collect()
        }
    };
    if commands.is_empty() {
        let why = "this project has no check that the offline model knows (Cargo, Python tests, an npm test script, Go). \
                   Name the command in backticks: run `make test`.";
        return Ok(EmptyPlan::Impossible(why.to_owned()).into());
    }
    let lines: Vec<String> = commands
        .iter()
        .map(|command| format!("`{}`", command.join(" ")))
        .collect();
    let calls = commands.iter().map(|command| tools::command(command)).collect();
    Ok(Draft {
        summary: format!("Run {} and report how it ends.", lines.join(" and ")),
        subtasks: vec![calls_subtask(
            "check",
            format!("Run {}", lines.join(" and ").replace('`', "")),
            Vec::new(),
            calls,
        )],
    })
}

/// One call whose output is the count or the list.
pub(crate) fn count(target: &CountTarget, scope: &Scope) -> Draft {
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

/// How deep files are listed.
const DEPTH: u32 = 32;

fn list_call(scope: &Scope) -> crate::conversation::Call {
    match scope.only.as_slice() {
        [only] => tools::list(only, DEPTH),
        _ => tools::list(".", DEPTH),
    }
}
