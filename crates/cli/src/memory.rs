//! `memory`: the facts that the user asked to be remembered.

use std::path::PathBuf;

use console::style;
use dirigent::Dirigent;
use dirigent::memory::{Added, Fact, FactScope, Visible};
use serde_json::{Value, json};

use crate::agents::existing_folder;
use crate::args::{
    AddFactCommand, DeleteFactCommand, ListFactsCommand, MemoryCommand, SearchFactsCommand, ShowFactCommand,
    VisibleOptions,
};
use crate::exit::Exit;
use crate::open::{open, open_existing, open_if_created, open_reading};
use crate::output::{Output, sanitize};
use crate::time::local;

pub(crate) async fn memory(
    db: Option<PathBuf>,
    command: MemoryCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        MemoryCommand::List(command) => list(db, command, output).await,
        MemoryCommand::Show(command) => show(db, &command, output).await,
        MemoryCommand::Add(command) => add(db, command, output).await,
        MemoryCommand::Delete(command) => delete(db, &command, output).await,
        MemoryCommand::Search(command) => search(db, command, output).await,
    }
}

async fn list(db: Option<PathBuf>, command: ListFactsCommand, output: &Output) -> anyhow::Result<Exit> {
    let visible = visible(&command.visible)?;
    let facts = match open_if_created(db).await? {
        Some(dirigent) => dirigent.memory().list(visible).await?,
        None => Vec::new(),
    };
    if facts.is_empty() && !command.visible.json {
        output.note("no facts yet; add one with `dirigent memory add \"the staging server is called blue\"`");
    }
    print_facts(&facts, &command.visible, output);
    Ok(Exit::Success)
}

async fn search(db: Option<PathBuf>, command: SearchFactsCommand, output: &Output) -> anyhow::Result<Exit> {
    let visible = visible(&command.visible)?;
    let facts = match open_if_created(db).await? {
        Some(dirigent) => {
            let memory = dirigent.memory();
            memory.search(visible, &command.text).await?
        }
        None => Vec::new(),
    };
    if facts.is_empty() && !command.visible.json {
        output.note("no fact contains any of these words; `dirigent memory list --all` lists all facts");
    }
    print_facts(&facts, &command.visible, output);
    Ok(Exit::Success)
}

async fn show(db: Option<PathBuf>, command: &ShowFactCommand, output: &Output) -> anyhow::Result<Exit> {
    let fact = open_reading(db).await?.memory().show(command.id).await?;
    if command.json {
        output.print(&as_json(&fact).to_string());
    } else {
        output.print(&sanitize(&fact.text));
        output.print(
            &style(format!("{}, added {}", scope(&fact), local(fact.at)))
                .dim()
                .to_string(),
        );
    }
    Ok(Exit::Success)
}

async fn add(db: Option<PathBuf>, command: AddFactCommand, output: &Output) -> anyhow::Result<Exit> {
    let scope = match command.workspace {
        Some(folder) => FactScope::Workspace(folder),
        None => FactScope::User,
    };
    let added = open(db).await?.memory().add(scope, &command.text).await?;
    let fact = added.fact();
    if command.json {
        let mut object = as_json(fact);
        object["added"] = matches!(added, Added::Kept(_)).into();
        output.print(&object.to_string());
        return Ok(Exit::Success);
    }
    match &added {
        Added::Kept(_) => {
            output.print(&line(fact));
            output.note(&format!("saved; to undo: `dirigent memory delete {}`", fact.id));
        }
        Added::Known(_) => {
            output.print(&line(fact));
            output.note("this fact is already saved, so nothing was changed");
        }
    }
    Ok(Exit::Success)
}

async fn delete(db: Option<PathBuf>, command: &DeleteFactCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let fact = dirigent.memory().delete(command.id).await?;
    output.print(&if command.json {
        as_json(&fact).to_string()
    } else {
        format!("Deleted {}", line(&fact))
    });
    Ok(Exit::Success)
}

fn visible(options: &VisibleOptions) -> anyhow::Result<Visible> {
    if options.all {
        return Ok(Visible::All);
    }
    Ok(Visible::Workspace(existing_folder(&options.workspace)?))
}

fn print_facts(facts: &[Fact], options: &VisibleOptions, output: &Output) {
    for fact in facts {
        output.print(&if options.json {
            as_json(fact).to_string()
        } else {
            line(fact)
        });
    }
}

/// The number, the text and the scope on one line.
fn line(fact: &Fact) -> String {
    let about = match &fact.scope {
        FactScope::User => String::new(),
        FactScope::Workspace(_) => format!("  {}", style(format!("({})", scope(fact))).dim()),
    };
    format!("{}  {}{about}", style(fact.id).bold(), sanitize(&fact.text))
}

fn scope(fact: &Fact) -> String {
    match &fact.scope {
        FactScope::User => "about you".to_owned(),
        FactScope::Workspace(folder) => format!("about {}", sanitize(&folder.display().to_string())),
    }
}

fn as_json(fact: &Fact) -> Value {
    json!(fact)
}
