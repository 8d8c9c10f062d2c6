//! Conversations: a user's messages with their answers, in one workspace. Each message is a turn, and each turn is a run, so everything
//! that applies to runs (resuming, approvals, limits, steering, replay, undo) applies to turns.

mod remembering;
mod sending;
mod settings;

use std::path::PathBuf;

use dirigent_core::id::{ConversationId, RunId};
use dirigent_core::intent::Classification;
use dirigent_core::message::Usage;
use dirigent_core::run::Report;
use dirigent_core::text::visible_line;
use dirigent_core::time::Timestamp;
use dirigent_runtime::Orchestrator;
use dirigent_store::{ConversationFilter, ConversationRecord, RunRecord};
use serde::Serialize;

use crate::time::now;
use crate::{Dirigent, DirigentError, Goal};
pub use sending::{ResumedTurn, Sent, StillWaiting};
pub use settings::{ConversationChanges, ConversationSettings};

/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 80;

/// A conversation. Clones share it.
///
/// ```no_run
/// use dirigent::{ConversationSettings, Dirigent, Goal};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let dirigent = Dirigent::builder().build().await?;
/// let chat = dirigent.create_conversation(".", ConversationSettings::default()).await?;
/// let turn = chat.start_turn(Goal::new("Count the lines in notes.txt")).await?;
/// println!("{}", turn.outcome().await?.summary);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Conversation {
    dirigent: Dirigent,
    id: ConversationId,
}

/// A conversation in a list, or its current state. JSON: an object with these fields; the id is `conversation`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConversationInfo {
    /// The conversation's id.
    #[serde(rename = "conversation")]
    pub id: ConversationId,
    /// The title: as the user set it, or the beginning of the first message; empty before the first message.
    pub title: String,
    /// Absolute path of the folder in which the turns work.
    pub workspace: PathBuf,
    /// The settings of the following turns.
    pub settings: ConversationSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last turn began, or when it was created if it has none.
    pub used_at: Timestamp,
    /// The number of its turns.
    pub turns: u32,
}

/// A turn of a conversation: a message of the user and its outcome. JSON: an object with these fields; the number is `turn`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ConversationTurn {
    /// The number of the turn, counted from 1.
    #[serde(rename = "turn")]
    pub number: u32,
    /// The turn's run.
    pub run: RunId,
    /// The user's message.
    pub message: String,
    /// The message's intent, and the reason for it (INTENT-1); `None` if it was not classified, such as the invocation of a workflow.
    pub intent: Option<Classification>,
    /// When the turn began.
    pub at: Timestamp,
    /// The report of the run, with the answer as its summary.
    pub report: Report,
}

impl Dirigent {
    /// Creates a conversation, which has no turns yet. Its turns will work in `workspace`.
    ///
    /// # Errors
    /// [`DirigentError::Workspace`], or a failure of the journal.
    pub async fn create_conversation(
        &self,
        workspace: impl Into<PathBuf>,
        settings: ConversationSettings,
    ) -> Result<Conversation, DirigentError> {
        self.new_conversation(workspace.into(), String::new(), settings)
            .await
    }

    /// Creates a conversation, as [`Self::create_conversation`] does, with a title as for [`Conversation::rename`].
    ///
    /// # Errors
    /// [`DirigentError::EmptyTitle`]; as [`Self::create_conversation`]. In these cases, no conversation is created.
    pub async fn create_titled_conversation(
        &self,
        workspace: impl Into<PathBuf>,
        title: &str,
        settings: ConversationSettings,
    ) -> Result<Conversation, DirigentError> {
        self.new_conversation(workspace.into(), checked_title(title)?, settings)
            .await
    }

    async fn new_conversation(
        &self,
        workspace: PathBuf,
        title: String,
        settings: ConversationSettings,
    ) -> Result<Conversation, DirigentError> {
        let folder = Goal::new("").workspace(workspace);
        let id = ConversationId(Orchestrator::new_run_id().0);
        let created_at = now();
        self.reading(move |journal| {
            let record = ConversationRecord {
                conversation: id,
                title,
                workspace: folder.checked_workspace()?,
                settings: settings.to_json(),
                created_at,
                used_at: created_at,
                turns: 0,
            };
            Ok::<_, DirigentError>(journal.create_conversation(record)?)
        })
        .await?;
        let dirigent = self.clone();
        Ok(Conversation { dirigent, id })
    }

    /// Returns a conversation of the journal.
    ///
    /// # Errors
    /// [`dirigent_store::StoreError::NoSuchConversation`], or a failure of the journal.
    pub async fn conversation(&self, id: ConversationId) -> Result<Conversation, DirigentError> {
        self.reading(move |journal| journal.conversation(id)).await?;
        let dirigent = self.clone();
        Ok(Conversation { dirigent, id })
    }

    /// Finds a conversation by its id, by at least 4 hexadecimal digits of the beginning or end of its id, or by `last` for the most
    /// recently used one.
    ///
    /// # Errors
    /// [`dirigent_store::StoreError::NoSuchConversation`], [`dirigent_store::StoreError::AmbiguousConversation`], or a failure of the journal.
    pub async fn find_conversation(&self, text: &str) -> Result<Conversation, DirigentError> {
        let text = text.to_owned();
        let id = self
            .reading(move |journal| journal.find_conversation(&text))
            .await?;
        let dirigent = self.clone();
        Ok(Conversation { dirigent, id })
    }

    /// Lists conversations, the most recently used ones first.
    ///
    /// # Errors
    /// A failure of the journal.
    pub async fn conversations(
        &self,
        filter: ConversationFilter,
    ) -> Result<Vec<ConversationInfo>, DirigentError> {
        let records = self
            .reading(move |journal| journal.conversations(&filter))
            .await?;
        records.into_iter().map(ConversationInfo::from_record).collect()
    }
}

impl ConversationInfo {
    fn from_record(record: ConversationRecord) -> Result<Self, DirigentError> {
        let settings =
            serde_json::from_str(&record.settings).map_err(|source| DirigentError::ConversationSettings {
                conversation: record.conversation,
                source,
            })?;
        Ok(ConversationInfo {
            id: record.conversation,
            title: record.title,
            workspace: record.workspace.into(),
            settings,
            created_at: record.created_at,
            used_at: record.used_at,
            turns: record.turns,
        })
    }
}

impl Conversation {
    /// The conversation's id.
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Reads the conversation's current state.
    ///
    /// # Errors
    /// The conversation was deleted, or a failure of the journal.
    pub async fn info(&self) -> Result<ConversationInfo, DirigentError> {
        let id = self.id;
        let record = self
            .dirigent
            .reading(move |journal| journal.conversation(id))
            .await?;
        ConversationInfo::from_record(record)
    }

    /// Sets the title: on one line, without control characters and invisible characters, shortened to 80 characters.
    ///
    /// # Errors
    /// [`DirigentError::EmptyTitle`]; as [`Conversation::info`].
    pub async fn rename(&self, title: &str) -> Result<(), DirigentError> {
        self.change(ConversationChanges {
            title: Some(title.to_owned()),
            ..ConversationChanges::default()
        })
        .await
    }

    /// Applies changes of the title and the settings together: all of them, or none if one is invalid. Changes by others at the same time to other
    /// fields are kept.
    ///
    /// # Errors
    /// [`DirigentError::EmptyTitle`]; as [`Conversation::info`].
    pub async fn change(&self, changes: ConversationChanges) -> Result<(), DirigentError> {
        let (id, settings) = (self.id, changes.settings_patch());
        let title = changes.title.as_deref().map(checked_title).transpose()?;
        self.dirigent
            .reading(move |journal| journal.change_conversation(id, title, settings))
            .await
    }

    /// Sets the title to the beginning of the first message, if there is no title.
    async fn set_first_title(&self, message: &str) -> Result<(), DirigentError> {
        let (id, title) = (self.id, one_line_title(message));
        self.dirigent
            .reading(move |journal| journal.set_first_title(id, title))
            .await
    }

    /// Sets the settings of the next turns.
    ///
    /// # Errors
    /// As [`Conversation::info`].
    pub async fn set_settings(&self, settings: ConversationSettings) -> Result<(), DirigentError> {
        self.change(ConversationChanges {
            title: None,
            mode: Some(settings.mode),
            model: Some(settings.model),
            system_prompt: Some(settings.system_prompt),
            max_tokens: Some(settings.max_tokens),
            max_cost: Some(settings.max_cost),
        })
        .await
    }

    /// Deletes the conversation with its turns, and the recorded contents to which no other run refers.
    ///
    /// # Errors
    /// [`dirigent_store::StoreError::ConversationActive`] while a process owns one of its turns, or a failure of the journal.
    pub async fn delete(self) -> Result<(), DirigentError> {
        let id = self.id;
        self.dirigent
            .reading(move |journal| journal.delete_conversation(id))
            .await
    }

    /// Reads the last turns, at most `limit`, in the order in which they began.
    ///
    /// # Errors
    /// A failure of the journal.
    pub async fn turns(&self, limit: usize) -> Result<Vec<ConversationTurn>, DirigentError> {
        let records = self.last_turns(limit).await?;
        let mut turns = Vec::new();
        for record in records.into_iter().rev() {
            let (view, _) = self.dirigent.read(record.run).await?;
            turns.push(ConversationTurn {
                number: record.turn.map_or(0, |turn| turn.number),
                run: record.run,
                message: record.goal,
                intent: view
                    .run()
                    .spec()
                    .turn
                    .as_ref()
                    .and_then(|turn| turn.intent.clone()),
                at: record.created_at,
                report: view.report(),
            });
        }
        Ok(turns)
    }

    /// The records of the last turns, newest first.
    async fn last_turns(&self, limit: usize) -> Result<Vec<RunRecord>, DirigentError> {
        let id = self.id;
        self.dirigent
            .reading(move |journal| journal.last_turns(id, limit))
            .await
    }

    /// Returns the run of the last turn; `None` before the first turn.
    ///
    /// # Errors
    /// A failure of the journal.
    pub async fn last_run(&self) -> Result<Option<RunRecord>, DirigentError> {
        Ok(self.last_turns(1).await?.pop())
    }

    /// Reads the usage of all turns.
    ///
    /// # Errors
    /// A failure of the journal.
    pub async fn usage(&self) -> Result<Usage, DirigentError> {
        let Some(last) = self.last_run().await? else {
            return Ok(Usage::default());
        };
        let (view, _) = self.dirigent.read(last.run).await?;
        let earlier = view.run().spec().earlier_turns();
        let mut usage = earlier.map(|earlier| earlier.usage).unwrap_or_default();
        usage += view.run().usage();
        Ok(usage)
    }
}

/// The title on one line.
///
/// # Errors
/// [`DirigentError::EmptyTitle`].
fn checked_title(title: &str) -> Result<String, DirigentError> {
    Some(one_line_title(title))
        .filter(|title| !title.is_empty())
        .ok_or(DirigentError::EmptyTitle)
}

fn one_line_title(text: &str) -> String {
    let line = visible_line(text);
    match line.char_indices().nth(MAX_TITLE) {
        Some(_) => line.chars().take(MAX_TITLE - 1).chain(['…']).collect(),
        None => line,
    }
}
