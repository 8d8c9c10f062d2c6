//! `workflow`, and goals that invoke a workflow: `dirigent run "/create_project my-app"`.

use std::path::{Path, PathBuf};

use console::style;
use dirigent::workflows::{
    InvokedWorkflow, Parameter, ParameterKind, RequestedGoal, UntrustedWorkflow, UserRequest,
};
use dirigent::{Dirigent, DirigentError, Goal, OfflineModel, UserPresence, WorkflowError, Workflows, render};

use crate::args::{
    ListWorkflowsCommand, NewWorkflowCommand, RunWorkflowCommand, ShowWorkflowCommand, TrustWorkflowCommand,
    WorkflowCommand,
};
use crate::chat_input::{Input, ReadLine, command_name};
use crate::config;
use crate::exit::Exit;
use crate::open::build;
use crate::output::{Output, sanitize};
use crate::run;
use crate::signals::{ShutdownSignal, ShutdownSignals};
use crate::workflow_text;

pub(crate) async fn workflow(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: WorkflowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        WorkflowCommand::List(command) => list(db, file, &command, output).await,
        WorkflowCommand::Show(command) => show(db, file, &command, output).await,
        WorkflowCommand::Run(command) => {
            let RunWorkflowCommand {
                name,
                arguments,
                options,
            } = *command;
            let requested = Requested::Workflow { name, arguments };
            run::start_new(db, file, requested, options, output).await
        }
        WorkflowCommand::Trust(command) => trust(db, file, &command, output).await,
        WorkflowCommand::New(command) => new(file, &command, output).await,
    }
}

/// Reads the workflows for display, which needs no model and creates no journal.
async fn read(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    workspace: &Path,
    output: &Output,
) -> anyhow::Result<Workflows> {
    let config = config::load(file, None)?;
    let mut builder = Dirigent::builder().config(&config);
    if let Some(db) = db {
        builder = builder.journal(db);
    }
    let workflows = builder.workflows(Some(workspace)).await?;
    for note in &workflows.notes {
        output.note(&sanitize(&format!("note: {note}")));
    }
    Ok(workflows)
}

/// Opens the journal, in which trusted files are stored. No model is needed.
async fn open(db: Option<PathBuf>, file: Option<PathBuf>) -> anyhow::Result<Dirigent> {
    let config = config::load(file, None)?;
    let builder = Dirigent::builder().config(&config).model(OfflineModel);
    Ok(build(builder, db).await?)
}

async fn list(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &ListWorkflowsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let workflows = read(db, file, &command.workspace, output).await?;
    let category = command.category.as_deref();
    if let Some(category) = category
        && !workflows.categories().contains(category)
    {
        let categories: Vec<&str> = workflows.categories().into_iter().collect();
        output.error(&sanitize(&format!(
            "there is no workflow in the category `{category}`; the categories are {}",
            categories.join(", ")
        )));
        return Ok(Exit::Usage);
    }
    output.print(&match command.json {
        true => render::workflows(&workflows, category).to_string(),
        false => workflow_text::list(&workflows, category),
    });
    Ok(Exit::Success)
}

async fn show(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &ShowWorkflowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let workflows = read(db, file, &command.workspace, output).await?;
    let workflow = workflows.find(without_slash(&command.name)).map_err(failed)?;
    output.print(&match command.json {
        true => render::workflow(workflow).to_string(),
        false => workflow_text::workflow(workflow),
    });
    Ok(Exit::Success)
}

async fn trust(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &TrustWorkflowCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open(db, file).await?;
    let untrusted = dirigent.workflows(Some(&command.workspace)).await?.untrusted;
    let mut exit = Exit::Success;
    let files: Vec<&UntrustedWorkflow> = if command.all {
        untrusted.iter().collect()
    } else {
        let mut files = Vec::new();
        for path in &command.files {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let found = untrusted
                .iter()
                .find(|file| file.path.canonicalize().ok().as_ref() == Some(&real));
            match found {
                Some(file) => files.push(file),
                None => {
                    output.error(&sanitize(&format!(
                        "{} is not an untrusted workflow file of the project: `dirigent workflow list` shows the files to trust",
                        path.display()
                    )));
                    exit = Exit::Usage;
                }
            }
        }
        files
    };
    for file in files {
        dirigent.trust_workflow(file).await?;
        output.print(&sanitize(&format!(
            "/{} is trusted: {}",
            file.name,
            file.path.display()
        )));
    }
    Ok(exit)
}

async fn new(file: Option<PathBuf>, command: &NewWorkflowCommand, output: &Output) -> anyhow::Result<Exit> {
    let config = config::load(file, None)?;
    let name = without_slash(&command.name);
    let path = Workflows::create_file(&config, name).await?;
    output.print(&sanitize(&path.to_string_lossy()));
    if Workflows::is_shipped(name) {
        output.note(&format!(
            "`{name}` also ships with Dirigent: your file takes its place until you delete or rename it"
        ));
    }
    output.note("edit this file, then invoke the workflow by its name");
    Ok(Exit::Success)
}

fn without_slash(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

/// The user's request: a goal or a workflow.
pub(crate) enum Requested {
    /// A goal in words, or a message such as `/create_project my-app`.
    Words(String),
    /// A workflow with words that the shell has split.
    Workflow { name: String, arguments: Vec<String> },
}

impl Requested {
    /// Returns the goal; `None` if the user cancels. If a user is present, asks them to trust a project's workflow and for missing
    /// parameters.
    pub(crate) async fn goal(
        self,
        dirigent: &Dirigent,
        workspace: &Path,
        user: UserPresence,
        asker: &mut Asker<'_>,
    ) -> anyhow::Result<Option<Goal>> {
        loop {
            let request = match &self {
                Requested::Words(text) => UserRequest::Text(text),
                Requested::Workflow { name, arguments } => UserRequest::Words {
                    name: without_slash(name),
                    words: arguments,
                },
            };
            let interpreting = dirigent.requested_goal(request, Some(workspace));
            let Some(requested) = asker.unless_interrupted(interpreting).await? else {
                return Ok(None);
            };
            match requested? {
                RequestedGoal::Goal(goal) => return Ok(Some(*goal)),
                RequestedGoal::Workflow(invoked) => return complete(*invoked, user, asker).await,
                RequestedGoal::Untrusted(file) => {
                    if user == UserPresence::Absent {
                        return Err(failed(WorkflowError::from(&file)));
                    }
                    if !wants_to_trust(&file, asker).await? {
                        return Ok(None);
                    }
                    dirigent.trust_workflow(&file).await?;
                }
            }
        }
    }
}

/// Shows what was understood of a sentence, and asks a user who is present for missing parameters. `None` if the user cancels.
async fn complete(
    mut invoked: InvokedWorkflow,
    user: UserPresence,
    asker: &mut Asker<'_>,
) -> anyhow::Result<Option<Goal>> {
    if let Some(sentence) = invoked.arguments.sentence() {
        for line in workflow_text::understood(&invoked.workflow, sentence) {
            asker.output.note(&sanitize(&line));
        }
    }
    if user == UserPresence::Present && !ask_missing(&mut invoked, asker).await? {
        return Ok(None);
    }
    Ok(Some(invoked.goal().map_err(failed)?))
}

fn failed(error: WorkflowError) -> anyhow::Error {
    DirigentError::from(error).into()
}

/// Asks the user at the terminal about a workflow.
pub(crate) struct Asker<'a> {
    pub(crate) output: &'a Output,
    /// The chat to whose message the questions belong; `None` outside of a chat.
    pub(crate) chat: Option<ChatInput<'a>>,
}

/// The input and the signals of a chat.
pub(crate) struct ChatInput<'a> {
    /// The line editor, which reads the answers; without it, they come from standard input.
    pub(crate) input: Option<&'a mut Input>,
    pub(crate) signals: &'a mut ShutdownSignals,
    pub(crate) dirigent: &'a Dirigent,
}

impl Asker<'_> {
    /// Waits for `work`; `None` if the user stops it in a chat with Ctrl-C. Outside of a chat, Ctrl-C ends the command.
    async fn unless_interrupted<T>(&mut self, work: impl Future<Output = T>) -> anyhow::Result<Option<T>> {
        let Some(chat) = &mut self.chat else {
            return Ok(Some(work.await));
        };
        let signal = tokio::select! {
            done = work => return Ok(Some(done)),
            signal = chat.signals.next() => signal,
        };
        match signal {
            ShutdownSignal::Interrupted => {
                self.output.note("  the workflow was not started");
                Ok(None)
            }
            ShutdownSignal::Terminated | ShutdownSignal::HungUp => {
                chat.dirigent.shutdown().await?;
                std::process::exit(Exit::Cancelled.code().into());
            }
        }
    }

    /// Reads a line; `None` if the user gives no answer: at the end of the input and, in a chat, with Ctrl-C or a command such as `/quit`.
    async fn ask(&mut self, question: &str) -> anyhow::Result<Option<String>> {
        let Some(ChatInput {
            input: Some(input),
            signals,
            dirigent,
        }) = &mut self.chat
        else {
            return Ok(self.output.ask(question));
        };
        let line = match input.read(question, signals).await? {
            ReadLine::Line(line) => line,
            ReadLine::Interrupted | ReadLine::End => {
                self.output.note("  the workflow was not started");
                return Ok(None);
            }
            ReadLine::Terminated => {
                dirigent.shutdown().await?;
                std::process::exit(Exit::Cancelled.code().into());
            }
        };
        if let Some(command) = command_name(&line) {
            self.output.note(&sanitize(&format!(
                "  the workflow was not started, because {command} is a command: enter it again"
            )));
            return Ok(None);
        }
        Ok(Some(line))
    }
}

/// Shows the content of a project's workflow file, and asks whether to trust it.
async fn wants_to_trust(file: &UntrustedWorkflow, asker: &mut Asker<'_>) -> anyhow::Result<bool> {
    asker.output.print(&sanitize(&format!(
        "! /{} is a workflow of the project, {}:\n",
        file.name,
        file.path.display()
    )));
    asker.output.print(&sanitize(&file.text));
    loop {
        let answer = asker
            .ask("y trust it with this content, and run it · n do not run it: ")
            .await?;
        match answer.map(|answer| answer.trim().to_lowercase()).as_deref() {
            Some("y" | "yes") => return Ok(true),
            Some("n" | "no") | None => return Ok(false),
            Some(_) => {}
        }
    }
}

/// Asks for the missing parameters, one after the other. Returns false if the user does not answer.
async fn ask_missing(invoked: &mut InvokedWorkflow, asker: &mut Asker<'_>) -> anyhow::Result<bool> {
    let missing: Vec<Parameter> = invoked.missing().cloned().collect();
    for parameter in &missing {
        loop {
            let Some(answer) = asker.ask(&question(parameter)).await? else {
                return Ok(false);
            };
            match invoked.set(&parameter.name, answer.trim()) {
                Ok(()) => break,
                Err(problem) => asker.output.note(&sanitize(&problem.to_string())),
            }
        }
    }
    Ok(true)
}

fn question(parameter: &Parameter) -> String {
    let kind = match &parameter.kind {
        ParameterKind::String => String::new(),
        kind @ (ParameterKind::Integer
        | ParameterKind::Number
        | ParameterKind::Boolean
        | ParameterKind::Path
        | ParameterKind::Choice(_)) => format!(" [{kind}]"),
    };
    let description = match parameter.description.as_str() {
        "" => String::new(),
        description => format!(" ({description})"),
    };
    let name = style(sanitize(&parameter.name)).bold();
    format!("{name}{}: ", sanitize(&format!("{description}{kind}")))
}
