//! `chat`: a conversation at the terminal, or one message from a script.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use console::style;
use dirigent::events::EndReason;
use dirigent::{
    Conversation, ConversationFilter, ConversationInfo, ConversationSettings, Dirigent, DirigentError, Mode,
    Report, ResumedTurn, RunHandle, Sent, SteerOutcome, StillWaiting, UserPresence,
};

use crate::args::{ChatCommand, DiffCommand, UndoCommand, WatchOptions};
use crate::chat_input::{COMMANDS, ChatLine, Input, ReadLine, command_name, parse};
use crate::config;
use crate::exit::{Exit, UsageError};
use crate::interactive::HistoryCursor;
use crate::markdown;
use crate::mcp;
use crate::open::open_configured;
use crate::output::{Output, sanitize};
use crate::pending_requests::PendingRequests;
use crate::request_text::request_lines;
use crate::signals::ShutdownSignals;
use crate::undo;
use crate::watch::{EndedRun, print_summary, user_presence, watch_to_end};
use crate::workflow::{Asker, ChatInput, Requested};
use crate::workflow_text;

/// The number of earlier turns that are shown when a conversation is opened.
const SHOWN_TURNS: usize = 3;
/// The number of changed files that the line about a turn names.
const SHOWN_FILES: usize = 5;
/// The number of earlier messages in the history of the line editor.
const HISTORY: usize = 100;

pub(crate) async fn chat(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ChatCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    if let Some(name) = command.message.as_deref().and_then(command_name) {
        output.error(&format!(
            "{name} is a command of the interactive chat, not a message: start `dirigent chat` or `dirigent chat --context last`, and type it there"
        ));
        return Ok(Exit::Usage);
    }
    let mut signals = ShutdownSignals::listen()?;
    let mut chat = Chat::open(db, file, &command, output).await?;
    if let Some(message) = &command.message {
        return chat.send(message, None, &mut signals).await;
    }
    chat.converse(&mut signals).await
}

/// An open conversation.
struct Chat<'a> {
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    dirigent: Dirigent,
    conversation: Conversation,
    info: ConversationInfo,
    watching: WatchOptions,
    user: UserPresence,
    /// Whether the next turn begins with a summary of the conversation.
    compact: bool,
    output: &'a Output,
}

impl<'a> Chat<'a> {
    async fn open(
        db: Option<PathBuf>,
        file: Option<PathBuf>,
        command: &ChatCommand,
        output: &'a Output,
    ) -> anyhow::Result<Self> {
        let chosen = command.model.model.clone();
        let config = config::load(file.clone(), chosen.clone())?;
        config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
        config::warn_unconfined(&config, output);
        let mut dirigent = open_configured(db.clone(), &config).await?;
        let mode = command.mode.map(Mode::from);
        let prompt = command.prompt.system_prompt.clone();
        if let Some(name) = &prompt {
            dirigent.system_prompts().get(name, None).await?;
        }
        let conversation = match &command.context {
            Some(text) if text == "last" => last_conversation(&dirigent, &command.workspace).await?,
            Some(text) => dirigent.find_conversation(text).await?,
            None => {
                let settings = ConversationSettings {
                    mode: mode.unwrap_or_default(),
                    model: chosen.clone(),
                    system_prompt: prompt.clone(),
                    ..ConversationSettings::default()
                };
                dirigent.create_conversation(&command.workspace, settings).await?
            }
        };
        let mut info = conversation.info().await?;
        if command.context.is_some() {
            let settings = ConversationSettings {
                mode: mode.unwrap_or(info.settings.mode),
                model: chosen.or(info.settings.model.clone()),
                system_prompt: prompt.or(info.settings.system_prompt.clone()),
                ..info.settings.clone()
            };
            if settings.model.is_some() && command.model.model.is_none() {
                dirigent = open_with_model(&db, &file, settings.model.clone()).await?;
            }
            if settings != info.settings {
                conversation.set_settings(settings.clone()).await?;
                info.settings = settings;
            }
        }
        let conversation = dirigent.conversation(conversation.id()).await?;
        mcp::warn(&dirigent, &info.workspace, Some(conversation.id()), output).await?;
        // No greeting is shown here, so only this note tells the user that the conversation works in another folder.
        let is_elsewhere = std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .is_ok_and(|folder| folder != info.workspace);
        if command.context.is_some() && command.message.is_some() && is_elsewhere && !command.watching.json {
            let folder = sanitize(&info.workspace.display().to_string());
            output.note(&format!(
                "  conversation {} works in {folder}",
                conversation.id().short()
            ));
        }
        Ok(Chat {
            user: user_presence(&command.watching, output),
            watching: WatchOptions {
                in_chat: true,
                ..command.watching.clone()
            },
            db,
            file,
            dirigent,
            conversation,
            info,
            compact: false,
            output,
        })
    }

    /// Reads messages and commands until the end of the input.
    async fn converse(&mut self, signals: &mut ShutdownSignals) -> anyhow::Result<Exit> {
        let is_terminal = self.user == UserPresence::Present;
        let agents = self.dirigent.agents(Some(&self.info.workspace)).await?;
        let workflows = self.dirigent.workflows(Some(&self.info.workspace)).await?;
        let agents = agents.agents.iter().map(|agent| agent.name.clone());
        let workflows = workflows.names().map(|name| format!("/{name}"));
        let names = workflows.chain(agents).collect();
        let mut input = Input::new(is_terminal, names)?;
        if is_terminal {
            self.greet(&mut input).await?;
        }
        let mut exit = self.finish_last_turn(signals).await?;
        let mut interrupted = false;
        loop {
            if exit == Exit::Killed {
                return Ok(exit);
            }
            let line = match input.read("› ", signals).await? {
                ReadLine::Line(line) => line,
                ReadLine::Interrupted if interrupted => return Ok(exit),
                ReadLine::Interrupted => {
                    interrupted = true;
                    self.output.note("  Ctrl-C again or Ctrl-D leaves the chat");
                    continue;
                }
                ReadLine::End => return Ok(exit),
                ReadLine::Terminated => {
                    self.dirigent.shutdown().await?;
                    std::process::exit(Exit::Cancelled.code().into());
                }
            };
            interrupted = false;
            let line = line.replace("\\\n", "\n");
            if line.trim().is_empty() {
                continue;
            }
            // At a terminal, an error in one line does not end the chat.
            exit = match self.handle(&line, &mut input, signals).await {
                Ok(Some(exit)) => exit,
                Ok(None) => return Ok(exit),
                Err(error) if is_terminal => {
                    self.output.error(&sanitize(&format!("{error:#}")));
                    Exit::from_error(&error)
                }
                Err(error) => return Err(error),
            };
            if !is_terminal && exit != Exit::Success {
                return Ok(exit);
            }
        }
    }

    /// Prints the conversation's id and folder, and shows its last turns.
    async fn greet(&self, input: &mut Input) -> anyhow::Result<()> {
        let turns = self.conversation.turns(HISTORY).await?;
        let messages: Vec<String> = turns.iter().map(|turn| turn.message.clone()).collect();
        input.set_conversation(&self.info.workspace, &messages);
        let mode = match self.info.settings.mode {
            Mode::Auto => "",
            Mode::Plan | Mode::ApprovedPlan => " · plan mode",
        };
        let id = self.conversation.id().short();
        let folder = sanitize(&self.info.workspace.display().to_string());
        self.output.note(
            &style(format!(
                "conversation {id} · {folder}{mode} · /help lists commands"
            ))
            .dim()
            .to_string(),
        );
        for turn in turns.iter().rev().take(SHOWN_TURNS).rev() {
            self.output
                .note(&format!("\n{} {}", style("›").dim(), sanitize(&turn.message)));
            self.output.note(&markdown::render(&turn.report.summary));
        }
        Ok(())
    }

    /// Continues the last turn if its process died or it is waiting for the user.
    async fn finish_last_turn(&mut self, signals: &mut ShutdownSignals) -> anyhow::Result<Exit> {
        if self.user == UserPresence::Absent {
            return Ok(Exit::Success);
        }
        match self.conversation.resume_last(self.user).await? {
            Some(resumed) => self.watch_resumed(&resumed, signals).await,
            None => Ok(Exit::Success),
        }
    }

    /// Executes an input line. Returns `None` to leave the chat.
    async fn handle(
        &mut self,
        line: &str,
        input: &mut Input,
        signals: &mut ShutdownSignals,
    ) -> anyhow::Result<Option<Exit>> {
        match parse(line) {
            ChatLine::Message(message) => return Ok(Some(self.send(&message, Some(input), signals).await?)),
            ChatLine::Quit => return Ok(None),
            ChatLine::Help => {
                for (command, what) in COMMANDS {
                    self.output.note(&format!("  {command:26} {what}"));
                }
                self.output
                    .note("  While a turn runs: type guidance, or a fact to remember, and Enter; Esc or Ctrl-C stops the turn.");
            }
            ChatLine::Workflows(category) => {
                let workflows = self.dirigent.workflows(Some(&self.info.workspace)).await?;
                let list = workflow_text::list(&workflows, category.as_deref());
                if list.is_empty() {
                    self.output.note("  there is no workflow in this category");
                }
                self.output.note(list.trim_end());
            }
            ChatLine::Undo => self.undo().await?,
            ChatLine::Diff => self.diff().await?,
            ChatLine::Cost => {
                let usage = self.conversation.usage().await?;
                let cost = if usage.cost.is_zero() {
                    String::new()
                } else {
                    format!(" · cost: {}", usage.cost)
                };
                self.output.note(&format!(
                    "  turns: {} · requests: {} · input tokens: {} ({} from the cache) · output tokens: {}{cost}",
                    self.conversation.info().await?.turns,
                    usage.model_calls,
                    usage.input_tokens,
                    usage.cached_input_tokens,
                    usage.output_tokens,
                ));
            }
            ChatLine::Model(None) => {
                let config = config::load(self.file.clone(), self.info.settings.model.clone())?;
                self.output
                    .note(&format!("  {}", sanitize(config.default_model())));
            }
            ChatLine::Model(Some(model)) => {
                self.dirigent = open_with_model(&self.db, &self.file, Some(model.clone())).await?;
                self.conversation = self.dirigent.conversation(self.conversation.id()).await?;
                self.info.settings.model = Some(model);
                self.conversation.set_settings(self.info.settings.clone()).await?;
            }
            ChatLine::Mode(None) => self.output.note(match self.info.settings.mode {
                Mode::Auto => "  auto",
                Mode::Plan | Mode::ApprovedPlan => "  plan",
            }),
            ChatLine::Mode(Some(mode)) => {
                self.info.settings.mode = mode;
                self.conversation.set_settings(self.info.settings.clone()).await?;
            }
            ChatLine::Compact => {
                self.compact = true;
                self.output
                    .note("  the next turn begins with a summary of the conversation");
            }
            ChatLine::Clear => {
                let settings = self.info.settings.clone();
                self.conversation = self
                    .dirigent
                    .create_conversation(&self.info.workspace, settings)
                    .await?;
                self.info = self.conversation.info().await?;
                self.compact = false;
                self.greet(input).await?;
            }
            ChatLine::Title(title) => self.conversation.rename(&title).await?,
            ChatLine::Invalid(what) => self.output.error(&sanitize(&what)),
        }
        Ok(Some(Exit::Success))
    }

    /// Sends a message, and shows its turn until it ends. Missing parameters of a workflow are read from `input`.
    async fn send(
        &mut self,
        message: &str,
        input: Option<&mut Input>,
        signals: &mut ShutdownSignals,
    ) -> anyhow::Result<Exit> {
        let requested = Requested::Words(message.to_owned());
        let workspace = &self.info.workspace;
        let (output, dirigent) = (self.output, &self.dirigent);
        let chat = Some(ChatInput {
            input,
            signals: &mut *signals,
            dirigent,
        });
        let Some(goal) = requested
            .goal(dirigent, workspace, self.user, &mut Asker { output, chat })
            .await?
        else {
            return Ok(Exit::Cancelled);
        };
        let goal = goal.workspace(workspace).user(self.user);
        let (mut goal, notes) = goal.include_files().await?;
        for note in notes {
            self.output.note(&sanitize(&format!("note: {note}")));
        }
        if std::mem::take(&mut self.compact) {
            goal = goal.compact();
        }
        match self.conversation.send(goal).await? {
            Sent::Turn(run) => self.watch(&run, 0, signals).await,
            Sent::Message { run, outcome } => {
                let what = match outcome {
                    SteerOutcome::Accepted => "the active turn takes it into account",
                    SteerOutcome::Pending => {
                        "stored for the active turn, whose process has not received it yet"
                    }
                };
                self.output.note(&format!("  {what}: run {}", run.short()));
                Ok(Exit::Success)
            }
            Sent::Resumed(resumed) => self.watch_resumed(&resumed, signals).await,
            Sent::AskedBack(waiting) => self.ask_back(&waiting).await,
            Sent::Answer(answer) => {
                self.print_markdown(&answer);
                Ok(Exit::Success)
            }
            _ => Ok(Exit::Success),
        }
    }

    /// Shows the pending requests again.
    async fn ask_back(&self, waiting: &StillWaiting) -> anyhow::Result<Exit> {
        let (view, _) = self.dirigent.read(waiting.run).await?;
        for line in request_lines(waiting.run, &PendingRequests::from_view(&view)) {
            self.output.print(&line);
        }
        self.output
            .note("  nothing was decided: say clearly what you want, such as `yes, go ahead`, `no` or `the second one`");
        Ok(Exit::NeedsUser)
    }

    async fn watch_resumed(
        &self,
        resumed: &ResumedTurn,
        signals: &mut ShutdownSignals,
    ) -> anyhow::Result<Exit> {
        let run = resumed.run.id().short();
        self.output
            .note(&format!("  continuing the last turn, run {run}"));
        self.watch(&resumed.run, resumed.after, signals).await
    }

    /// Shows a turn until it ends, then its answer.
    async fn watch(
        &self,
        run: &RunHandle,
        last_seq: u64,
        signals: &mut ShutdownSignals,
    ) -> anyhow::Result<Exit> {
        let history = HistoryCursor {
            last_seq,
            answered: false,
        };
        let Some(ended) = watch_to_end(
            &self.dirigent,
            run,
            Some(&self.conversation),
            signals,
            history,
            &self.watching,
            self.output,
        )
        .await?
        else {
            return Ok(Exit::Killed);
        };
        if self.watching.verbose || self.watching.diff {
            print_summary(
                &self.dirigent,
                &ended.events,
                run.id(),
                &self.watching,
                self.output,
            )
            .await?;
        } else if !self.watching.json {
            self.print_answer(&ended, run);
        }
        Ok(Exit::from_end_reason(ended.report.end.as_ref()))
    }

    /// Prints a model's Markdown: rendered at a terminal, unchanged into a pipe or a file.
    fn print_markdown(&self, markdown: &str) {
        if self.output.is_terminal() {
            self.output.print(&format!("\n{}", markdown::render(markdown)));
        } else {
            self.output.print(markdown);
        }
    }

    /// Prints the part of the answer that was not yet printed while streaming, or why there is no answer.
    fn print_answer(&self, ended: &EndedRun, run: &RunHandle) {
        let report = &ended.report;
        let answer = ended.answer.as_ref();
        let rest = answer.map_or(&*report.summary, |answer| answer.rest(&report.summary));
        match &report.end {
            Some(EndReason::GoalAchieved) if rest.trim().is_empty() && !report.summary.is_empty() => {}
            Some(EndReason::GoalAchieved) => self.print_markdown(rest),
            Some(EndReason::Cancelled) => self.output.note("\n  stopped; changes made so far remain"),
            Some(EndReason::UserRequired) => {
                self.output.note(
                    "\n  the turn is waiting for you: decide or answer with your next message, or with a command",
                );
                // The user may decide about the calls in words, so the calls must have been shown in full (APPROVE-3).
                let requests = ended.events.with_view(PendingRequests::from_view);
                for line in request_lines(run.id(), &requests.unwrap_or_default()) {
                    self.output.note(&line);
                }
            }
            Some(reason) => {
                self.output.note("");
                self.output.error(&sanitize(&reason.to_string()));
            }
            None => {}
        }
        // Only the view knows the refused calls, and what changed while commands ran.
        let seen = ended.events.with_view(|view| view.report());
        self.output.note(
            &style(turn_line(seen.as_ref().unwrap_or(report)))
                .dim()
                .to_string(),
        );
    }

    async fn undo(&self) -> anyhow::Result<()> {
        let Some(last) = self.conversation.last_run().await? else {
            self.output.note("  there is no turn yet");
            return Ok(());
        };
        let command = UndoCommand {
            run: last.run.to_string(),
            after: None,
            yes: false,
            include_commands: false,
            dry_run: false,
            skip_changed: false,
            json: false,
        };
        undo::undo(self.db.clone(), &command, self.output).await.map(drop)
    }

    async fn diff(&self) -> anyhow::Result<()> {
        let Some(last) = self.conversation.last_run().await? else {
            self.output.note("  there is no turn yet");
            return Ok(());
        };
        let command = DiffCommand {
            run: last.run.to_string(),
            after: None,
            json: false,
        };
        undo::diff(self.db.clone(), &command, self.output).await.map(drop)
    }
}

/// Returns the number of files and their names, the first ones: "2 files changed: a.rs, b.rs". `None` without files.
fn changed_text(files: &BTreeSet<&str>, what: &str) -> Option<String> {
    let mut names: Vec<String> = files
        .iter()
        .take(SHOWN_FILES)
        .map(|path| sanitize(path))
        .collect();
    if let more @ 1.. = files.len() - names.len() {
        names.push(format!("{more} more"));
    }
    match files.len() {
        0 => None,
        1 => Some(format!("1 file {what}: {}", names.join(", "))),
        count => Some(format!("{count} files {what}: {}", names.join(", "))),
    }
}

/// A line about what a turn did and used.
fn turn_line(report: &Report) -> String {
    let mut parts = Vec::new();
    let plural = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let calls = report.usage.tool_calls.saturating_add(report.refused_calls);
    if calls > 0 {
        let refused = match report.refused_calls {
            0 => String::new(),
            refused => format!(" ({refused} refused)"),
        };
        parts.push(format!("{}{refused}", plural(calls.into(), "tool call")));
    }
    let own = report.changed.iter().map(|file| &*file.path).collect();
    parts.extend(changed_text(&own, "changed"));
    let during = report.changed_during_commands.iter();
    let during = during.flat_map(|command| command.files.iter().map(|file| &*file.path));
    parts.extend(changed_text(&during.collect(), "changed while commands ran"));
    parts.push(plural(report.usage.tokens(), "token"));
    if !report.usage.cost.is_zero() {
        parts.push(report.usage.cost.to_string());
    }
    parts.push(report.duration.to_string());
    format!("  {}", parts.join(" · "))
}

/// Finds the conversation in this folder that was used last.
async fn last_conversation(dirigent: &Dirigent, folder: &Path) -> anyhow::Result<Conversation> {
    let workspace = folder.canonicalize().map_err(|error| DirigentError::Workspace {
        path: folder.to_owned(),
        reason: error.to_string(),
    })?;
    let filter = ConversationFilter {
        workspace: Some(workspace.to_string_lossy().into_owned()),
        limit: Some(1),
        ..ConversationFilter::default()
    };
    if let [last] = dirigent.conversations(filter).await?.as_slice() {
        return Ok(dirigent.conversation(last.id).await?);
    }
    // Fails if there is no conversation in any folder.
    let elsewhere = dirigent.find_conversation("last").await?.info().await?;
    let error = format!(
        "no conversation works in {}; the last one, {}, works in {}: continue it with its id, or start a new one without --context",
        workspace.display(),
        elsewhere.id.short(),
        elsewhere.workspace.display()
    );
    Err(UsageError(sanitize(&error)).into())
}

async fn open_with_model(
    db: &Option<PathBuf>,
    file: &Option<PathBuf>,
    model: Option<String>,
) -> anyhow::Result<Dirigent> {
    let config = config::load(file.clone(), model)?;
    Ok(open_configured(db.clone(), &config).await?)
}
