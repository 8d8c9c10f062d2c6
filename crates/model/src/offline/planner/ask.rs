//! Planning what only looks: usages, checks, counts and lists.

use super::{Draft, Planned, Planning, for_agent, of_calls};
use crate::offline::brief::Brief;
use crate::offline::checks::{self, CheckKind};
use crate::offline::goal::{Counted, Wanted};
use crate::offline::no_work::NoWork;
use crate::offline::scope::Scope;
use crate::offline::tools::{self, Pattern, in_plan};

/// One agent that finds the usages.
pub(super) fn find_usages(symbol: &str, scope: &Scope) -> Draft {
    let brief = Brief::FindUsages {
        symbol: symbol.to_owned(),
        scope: scope.clone(),
    };
    Draft {
        summary: format!("Find every usage of `{symbol}`{scope}; nothing is changed."),
        subtasks: vec![for_agent(
            "explore",
            format!("Find every usage of {symbol}"),
            Vec::new(),
            "explore",
            &brief,
        )],
    }
}

/// The command that was asked for, or those of the project.
pub(super) fn check(planning: &Planning<'_>, wanted: &Wanted) -> Planned {
    let commands: Vec<Vec<String>> = match wanted {
        Wanted::Command(command) => vec![command.clone()],
        Wanted::Tests | Wanted::Build | Wanted::Everything => {
            let checks = checks::of_project(planning.conversation, &[])?.into_iter();
            let is_wanted = |kind: CheckKind| match wanted {
                Wanted::Tests => kind == CheckKind::Tests,
                Wanted::Build => kind == CheckKind::Build,
                Wanted::Everything | Wanted::Command(_) => true,
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
        return Ok(NoWork::Impossible(why.to_owned()).into());
    }
    let lines: Vec<String> = commands
        .iter()
        .map(|command| format!("`{}`", command.join(" ")))
        .collect();
    let calls = commands.iter().map(|command| tools::command(command)).collect();
    Ok(Draft {
        summary: format!("Run {} and report how it ends.", lines.join(" and ")),
        subtasks: vec![of_calls(
            "check",
            format!("Run {}", lines.join(" and ").replace('`', "")),
            Vec::new(),
            calls,
        )],
    })
}

/// One call whose output is the count or the list.
pub(super) fn count(what: &Counted, scope: &Scope) -> Draft {
    let (title, call) = match what {
        Counted::Lines => (
            "Count the lines".to_owned(),
            tools::search(Pattern::Lines("^"), scope),
        ),
        Counted::Files => ("Count the files".to_owned(), listing(scope)),
        Counted::FileNames => ("List the files".to_owned(), listing(scope)),
        Counted::Text(text) => (format!("Count {text}"), tools::search(Pattern::Text(text), scope)),
        Counted::Word(word) => (format!("Count {word}"), tools::search(Pattern::Word(word), scope)),
    };
    Draft {
        summary: format!("{title}{scope}; nothing is changed."),
        subtasks: vec![of_calls("count", title, Vec::new(), vec![in_plan(call)])],
    }
}

/// How deep files are listed.
const DEPTH: u32 = 32;

fn listing(scope: &Scope) -> crate::offline::conversation::Call {
    match scope.only.as_slice() {
        [only] => tools::list(only, DEPTH),
        _ => tools::list(".", DEPTH),
    }
}
