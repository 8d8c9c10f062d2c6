//! `conversations`: lists, shows, renames and deletes conversations.

use std::fmt::Write as _;
use std::path::PathBuf;

use console::style;
use dirigent::{ConversationFilter, ConversationTurn, Dirigent, DirigentError};
use serde_json::json;

use crate::args::{
    ConversationsCommand, DeleteConversationCommand, ListConversationsCommand, RenameConversationCommand,
    ShowConversationCommand,
};
use crate::exit::Exit;
use crate::open::{open_existing, open_if_created, open_reading};
use crate::output::{Output, sanitize};
use crate::time::local;

pub(crate) async fn conversations(
    db: Option<PathBuf>,
    command: ConversationsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        ConversationsCommand::List(command) => list(db, command, output).await,
        ConversationsCommand::Show(command) => show(db, &command, output).await,
        ConversationsCommand::Rename(command) => rename(db, &command, output).await,
        ConversationsCommand::Delete(command) => delete(db, &command, output).await,
    }
}

async fn list(
    db: Option<PathBuf>,
    command: ListConversationsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let Some(dirigent) = open_if_created(db).await? else {
        note_none(&command, output);
        return Ok(Exit::Success);
    };
    let workspace = match &command.workspace {
        Some(folder) => Some(folder.canonicalize().map_err(|error| DirigentError::Workspace {
            path: folder.clone(),
            reason: error.to_string(),
        })?),
        None => None,
    };
    let filter = ConversationFilter {
        text: command.search.clone(),
        workspace: workspace.map(|folder| folder.to_string_lossy().into_owned()),
        limit: Some(command.limit),
    };
    let found = dirigent.conversations(filter).await?;
    if found.is_empty() {
        note_none(&command, output);
    }
    for info in &found {
        if command.json {
            output.print(&json!(info).to_string());
            continue;
        }
        let title = if info.title.is_empty() {
            "(no message yet)"
        } else {
            &info.title
        };
        let folder = sanitize(&info.workspace.display().to_string());
        output.print(&format!(
            "{}  {}  {:>4} {}  {}  {}",
            style(info.id.short()).bold(),
            local(info.used_at),
            info.turns,
            if info.turns == 1 { "turn " } else { "turns" },
            sanitize(title),
            style(format!("in {folder}")).dim()
        ));
    }
    Ok(Exit::Success)
}

fn note_none(command: &ListConversationsCommand, output: &Output) {
    if command.json {
        return;
    }
    output.note(match &command.search {
        Some(_) => "no conversation has this text",
        None => "no conversations yet; `dirigent chat` begins one",
    });
}

async fn show(
    db: Option<PathBuf>,
    command: &ShowConversationCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_reading(db).await?;
    let conversation = dirigent.find_conversation(&command.conversation).await?;
    let info = conversation.info().await?;
    let turns = conversation.turns(command.limit).await?;
    if command.json {
        let mut object = json!(info);
        object["messages"] = json!(turns);
        output.print(&object.to_string());
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    if command.markdown {
        let _ = writeln!(text, "# {}\n", sanitize(&info.title));
        for turn in &turns {
            let _ = writeln!(text, "## {}\n", sanitize(&turn.message).replace('\n', " "));
            let _ = writeln!(text, "{}\n", sanitize(&outcome(turn)));
        }
    } else {
        for turn in &turns {
            let intent = turn.intent.as_ref();
            let intent = intent.map_or_else(String::new, |intent| {
                format!(" · {}", sanitize(&intent.to_string()))
            });
            let run = style(format!("run {} · {}{intent}", turn.run.short(), local(turn.at))).dim();
            let _ = writeln!(
                text,
                "{} {}  {run}",
                style("›").dim(),
                style(sanitize(&turn.message)).bold()
            );
            let _ = writeln!(text, "{}\n", sanitize(&outcome(turn)));
        }
    }
    output.print(text.trim_end());
    Ok(Exit::Success)
}

/// The answer of a turn or, without an answer, why there is none.
fn outcome(turn: &ConversationTurn) -> String {
    match &turn.report.end {
        Some(dirigent::EndReason::GoalAchieved) => turn.report.summary.clone(),
        Some(reason) => format!("({reason})"),
        None => "(not finished)".to_owned(),
    }
}

async fn rename(
    db: Option<PathBuf>,
    command: &RenameConversationCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let conversation = dirigent.find_conversation(&command.conversation).await?;
    conversation.rename(&command.title).await?;
    output.note(&format!("renamed conversation {}", conversation.id().short()));
    Ok(Exit::Success)
}

async fn delete(
    db: Option<PathBuf>,
    command: &DeleteConversationCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let conversation = dirigent.find_conversation(&command.conversation).await?;
    let info = conversation.info().await?;
    let what = format!(
        "conversation {} ({} {}): {}",
        info.id.short(),
        info.turns,
        if info.turns == 1 { "turn" } else { "turns" },
        sanitize(&info.title)
    );
    if !command.yes {
        if !output.is_interactive() {
            output.error(&format!("nothing was deleted: add --yes to delete {what}"));
            return Ok(Exit::Usage);
        }
        let answer = output.ask(&format!(
            "Delete {what}? Its files stay as they are, but can no longer be undone. [y/N] "
        ));
        if !answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")) {
            output.note("nothing was deleted");
            return Ok(Exit::Success);
        }
    }
    conversation.delete().await?;
    output.note(&format!("deleted {what}"));
    Ok(Exit::Success)
}
