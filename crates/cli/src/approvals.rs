//! `approvals`: the rules by which the user always allows calls.

use std::collections::BTreeSet;
use std::path::PathBuf;

use console::style;
use dirigent::approval_rules::{ApprovalRule, RuleScope};
use dirigent::{Dirigent, render};

use crate::args::{ApprovalsCommand, ListApprovalsCommand, RemoveApprovalCommand};
use crate::exit::Exit;
use crate::open::{open_existing, open_if_created, open_if_exists};
use crate::output::{Output, sanitize};
use crate::request_text::one_line;
use crate::time::local;

pub(crate) async fn approvals(
    db: Option<PathBuf>,
    command: ApprovalsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        ApprovalsCommand::List(command) => list(db, &command, output).await,
        ApprovalsCommand::Remove(command) => remove(db, &command, output).await,
    }
}

/// Reads all rules; none without a journal.
pub(crate) async fn rules(db: Option<PathBuf>) -> anyhow::Result<Vec<ApprovalRule>> {
    rules_of(open_if_exists(db).await?).await
}

async fn rules_of(dirigent: Option<Dirigent>) -> anyhow::Result<Vec<ApprovalRule>> {
    Ok(match dirigent {
        Some(dirigent) => dirigent.approval_rules().list().await?,
        None => Vec::new(),
    })
}

async fn list(db: Option<PathBuf>, command: &ListApprovalsCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open_if_created(db).await?;
    let outdated = match &dirigent {
        Some(dirigent) => outdated(dirigent).await?,
        None => BTreeSet::new(),
    };
    let rules = rules_of(dirigent).await?;
    for rule in &rules {
        let is_outdated = outdated.contains(&rule.id);
        output.print(&if command.json {
            let mut json = render::approval_rule(rule);
            json["outdated"] = is_outdated.into();
            json.to_string()
        } else if is_outdated {
            let why = "does not count: its service has another program or address now";
            format!("{}\n    {}", line(rule), style(why).yellow())
        } else {
            line(rule)
        });
    }
    if rules.is_empty() && !command.json {
        output.note("no rules yet: to add one, answer `always` when a call is waiting for your approval");
    }
    Ok(Exit::Success)
}

/// Returns the numbers of the rules that do not count, because their service is another one now. The project of a rule that is not about a
/// folder is the current one.
pub(crate) async fn outdated(dirigent: &Dirigent) -> anyhow::Result<BTreeSet<u64>> {
    let rules = dirigent.approval_rules();
    let mut folders = BTreeSet::from([PathBuf::from(".")]);
    for rule in rules.list().await? {
        if let (RuleScope::Workspace(folder), Some(_)) = (&rule.scope, &rule.service) {
            folders.insert(PathBuf::from(folder));
        }
    }
    let mut outdated = BTreeSet::new();
    for folder in folders {
        outdated.extend(rules.outdated_in(&folder, None).await?.iter().map(|rule| rule.id));
    }
    Ok(outdated)
}

async fn remove(
    db: Option<PathBuf>,
    command: &RemoveApprovalCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let rule = dirigent.approval_rules().delete(command.id).await?;
    output.print(&format!("Removed {}", line(&rule)));
    output.note("runs that started with it keep it");
    Ok(Exit::Success)
}

/// Formats a rule on one line: its number, its calls, its scope and its time.
pub(crate) fn line(rule: &ApprovalRule) -> String {
    let within = match &rule.scope {
        RuleScope::Run(run) => format!("in run {}", run.short()),
        RuleScope::Conversation(conversation) => format!("in conversation {}", conversation.short()),
        RuleScope::Workspace(folder) => format!("in {}", sanitize(folder)),
        RuleScope::Everywhere => "everywhere".to_owned(),
    };
    format!(
        "{}  {}  {}",
        style(rule.id).bold(),
        one_line(&rule.calls.to_string()),
        style(format!("({within}, since {})", local(rule.at))).dim()
    )
}
