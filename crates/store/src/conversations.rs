//! Conversations: their records, and the runs that are their turns. The messages are in the journals of the turns.

use std::path::Path;

use dirigent_core::id::ConversationId;
use dirigent_core::time::Timestamp;
use dirigent_runtime::run_log::{RunRecord, TurnNumber};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::job::{Job, RecordWrite};
use crate::journal::Journal;
use crate::maintenance::{delete_rows, is_free};
use crate::run_filter::RunFilter;
use crate::sql::{conversation_key, integer, parsed, unsigned};

/// The default number of conversations in a list.
const DEFAULT_LIMIT: usize = 100;

const RECORDS: &str = "
    SELECT conversation, title, workspace, settings, created_at,
           (SELECT count(*) FROM runs WHERE runs.conversation = conversations.conversation AND entries > 0) AS turns,
           coalesce((SELECT max(runs.created_at) FROM runs WHERE runs.conversation = conversations.conversation), created_at) AS used_at
    FROM conversations";

/// A conversation, without its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRecord {
    /// The conversation's id.
    pub conversation: ConversationId,
    /// The title; empty if there is none yet.
    pub title: String,
    /// Absolute path of the folder in which the conversation's turns work.
    pub workspace: String,
    /// The settings of the conversation's turns, as JSON.
    pub settings: String,
    /// The time at which the conversation was created.
    pub created_at: Timestamp,
    /// The time at which the last turn began. Without turns, the time at which the conversation was created.
    pub used_at: Timestamp,
    /// The number of turns.
    pub turns: u32,
}

/// Selects conversations for a list, most recently used first. By default, selects all conversations, but at
/// most 100.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ConversationFilter {
    /// Text that the title or a message from the user must contain. Case-insensitive for ASCII letters.
    pub text: Option<String>,
    /// The folder in which the turns work, as an absolute path with links resolved.
    pub workspace: Option<String>,
    /// The maximum number of conversations; `None` for 100.
    pub limit: Option<usize>,
}

impl Journal {
    /// Stores a new conversation.
    ///
    /// # Errors
    /// [`StoreError::ConversationExists`]; a write failure.
    pub fn create_conversation(&self, record: ConversationRecord) -> Result<(), StoreError> {
        self.write(Box::new(move |db| {
            let created = db
                .prepare_cached(
                    "INSERT INTO conversations (conversation, title, workspace, settings, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
                )?
                .execute(params![
                    conversation_key(record.conversation),
                    record.title,
                    record.workspace,
                    record.settings,
                    integer(record.created_at.0)
                ])?;
            Ok(match created {
                0 => Err(StoreError::ConversationExists {
                    conversation: record.conversation,
                }),
                _ => Ok(0),
            })
        }))
    }

    /// Changes the title of a conversation, if one is given, and its settings by a JSON merge patch (RFC 7396), in one transaction.
    ///
    /// # Errors
    /// [`StoreError::NoSuchConversation`]; a write failure.
    pub fn change_conversation(
        &self,
        conversation: ConversationId,
        title: Option<String>,
        settings_patch: String,
    ) -> Result<(), StoreError> {
        let missing = self.no_such_conversation(conversation.to_string());
        let changed = self.wait_for_write(Box::new(move |db| {
            db.prepare_cached(
                "UPDATE conversations SET title = coalesce(?2, title), settings = json_patch(settings, ?3) WHERE conversation = ?1",
            )?
            .execute(params![conversation_key(conversation), title, settings_patch])
            .map(|changed| Ok(changed as u64))
        }))?;
        if changed == 0 { Err(missing) } else { Ok(()) }
    }

    /// Sets the title of a conversation that has none.
    ///
    /// # Errors
    /// A write failure.
    pub fn set_first_title(&self, conversation: ConversationId, title: String) -> Result<(), StoreError> {
        self.write(Box::new(move |db| {
            db.prepare_cached("UPDATE conversations SET title = ?2 WHERE conversation = ?1 AND title = ''")?
                .execute(params![conversation_key(conversation), title])
                .map(|changed| Ok(changed as u64))
        }))
    }

    /// Reads the record of a conversation.
    ///
    /// # Errors
    /// [`StoreError::NoSuchConversation`]; a read failure.
    pub fn conversation(&self, conversation: ConversationId) -> Result<ConversationRecord, StoreError> {
        let found = self.readers().with(|db| {
            db.prepare_cached(&format!("{RECORDS} WHERE conversation = ?1"))?
                .query_row([conversation_key(conversation)], record)
                .optional()
        })?;
        found.ok_or_else(|| self.no_such_conversation(conversation.to_string()))
    }

    /// Finds a conversation by its id, by at least 4 hexadecimal digits of the beginning or end of its id
    /// (dashes are ignored), or by `last` for the most recently used conversation. `last` finds a
    /// conversation without turns only if no conversation has turns.
    ///
    /// # Errors
    /// [`StoreError::NoSuchConversation`], [`StoreError::AmbiguousConversation`]; a read failure.
    pub fn find_conversation(&self, text: &str) -> Result<ConversationId, StoreError> {
        const MIN_DIGITS: usize = 4;
        let text = text.trim();
        let digits = text.replace('-', "").to_ascii_lowercase();
        let condition = match text {
            "last" => "WHERE ?1 = 'last' ORDER BY turns = 0, used_at DESC, id DESC LIMIT 1",
            _ if digits.len() < MIN_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                return Err(self.no_such_conversation(text.to_owned()));
            }
            _ => {
                "WHERE conversation LIKE ?1 || '%' OR conversation LIKE '%' || ?1 OR substr(conversation, -8) LIKE ?1 || '%'"
            }
        };
        let found: Vec<ConversationId> = self.readers().with(|db| {
            db.prepare_cached(&format!("{RECORDS} {condition}"))?
                .query_map([&digits], |row| parsed(row, 0))?
                .collect()
        })?;
        match found.as_slice() {
            [] => Err(self.no_such_conversation(text.to_owned())),
            [conversation] => Ok(*conversation),
            [..] => Err(StoreError::AmbiguousConversation {
                text: text.to_owned(),
                candidates: found,
            }),
        }
    }

    /// Reads the records of the conversations that the filter selects, most recently used first.
    ///
    /// # Errors
    /// A read failure.
    pub fn conversations(&self, filter: &ConversationFilter) -> Result<Vec<ConversationRecord>, StoreError> {
        let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
        self.readers().with(|db| {
            db.prepare_cached(&format!(
                "{RECORDS}
                 WHERE (?1 IS NULL OR workspace = ?1)
                   AND (?2 IS NULL OR instr(lower(title), lower(?2)) > 0 OR EXISTS (
                       SELECT 1 FROM runs
                       WHERE runs.conversation = conversations.conversation AND instr(lower(goal), lower(?2)) > 0))
                 ORDER BY used_at DESC, id DESC LIMIT ?3"
            ))?
            .query_map(params![filter.workspace, filter.text, integer(limit as u64)], record)?
            .collect()
        })
    }

    /// Returns the number of conversations whose settings have this system prompt.
    ///
    /// # Errors
    /// A read failure.
    pub fn conversations_with_prompt(&self, name: &str) -> Result<u64, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached("SELECT count(*) FROM conversations WHERE settings ->> '$.system_prompt' = ?1")?
                .query_row([name], |row| unsigned(row, 0))
        })
    }

    /// Reads the records of the last turns of a conversation, the newest first. Turns that never began are left out.
    ///
    /// # Errors
    /// A read failure.
    pub fn last_turns(
        &self,
        conversation: ConversationId,
        limit: usize,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let filter = RunFilter::new().conversation(conversation).limit(limit);
        Ok(self.run_page(&filter)?.runs)
    }

    /// Deletes a conversation with its turns, and the contents to which no other run refers.
    ///
    /// # Errors
    /// [`StoreError::NoSuchConversation`]; [`StoreError::ConversationActive`] while a process owns one of its turns; a write failure.
    pub fn delete_conversation(&self, conversation: ConversationId) -> Result<(), StoreError> {
        let missing = self.no_such_conversation(conversation.to_string());
        let path = self.path().to_owned();
        let deleted = self.wait_for_write(Box::new(move |db| delete(db, &path, conversation)))?;
        if deleted == 0 {
            return Err(missing);
        }
        self.delete_unused_contents().map(drop)
    }

    fn no_such_conversation(&self, text: String) -> StoreError {
        StoreError::NoSuchConversation {
            text,
            path: self.path().to_owned(),
        }
    }

    /// Writes records within a transaction.
    pub(crate) fn write(&self, write: RecordWrite) -> Result<(), StoreError> {
        self.wait_for_write(write).map(drop)
    }

    /// Writes records within a transaction; returns the number that the write returns.
    pub(crate) fn wait_for_write(&self, write: RecordWrite) -> Result<u64, StoreError> {
        self.wait(|reply| Job::Write { write, reply })
    }
}

/// Returns the reason why a run cannot become this turn; `None` if it can. An earlier turn with this number
/// that never began is no obstacle, because it is replaced.
pub(crate) fn refuse_turn(
    db: &Connection,
    path: &Path,
    turn: TurnNumber,
) -> rusqlite::Result<Option<StoreError>> {
    let TurnNumber { conversation, number } = turn;
    let key = conversation_key(conversation);
    let exists = db
        .prepare_cached("SELECT 1 FROM conversations WHERE conversation = ?1")?
        .exists([&key])?;
    if !exists {
        return Ok(Some(StoreError::NoSuchConversation {
            text: conversation.to_string(),
            path: path.to_owned(),
        }));
    }
    let taken: Option<(i64, u64, Option<String>)> = db
        .prepare_cached(
            "SELECT id, entries, (SELECT owner FROM claims WHERE claims.run = runs.id) FROM runs
             WHERE conversation = ?1 AND turn = ?2",
        )?
        .query_row(params![key, number], |row| {
            Ok((row.get(0)?, unsigned(row, 1)?, row.get(2)?))
        })
        .optional()?;
    match taken {
        None => Ok(None),
        Some((id, 0, owner)) if is_free(path, owner.as_deref()).unwrap_or(false) => {
            delete_rows(db, id)?;
            Ok(None)
        }
        Some(_) => Ok(Some(StoreError::TurnExists { conversation, number })),
    }
}

fn delete(
    db: &Connection,
    path: &Path,
    conversation: ConversationId,
) -> rusqlite::Result<Result<u64, StoreError>> {
    let key = conversation_key(conversation);
    let turns: Vec<(i64, Option<String>)> = db
        .prepare_cached(
            "SELECT id, (SELECT owner FROM claims WHERE claims.run = runs.id) FROM runs WHERE conversation = ?1",
        )?
        .query_map([&key], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (_, owner) in &turns {
        match is_free(path, owner.as_deref()) {
            Ok(true) => {}
            Ok(false) => return Ok(Err(StoreError::ConversationActive { conversation })),
            Err(error) => return Ok(Err(error)),
        }
    }
    for (id, _) in turns {
        delete_rows(db, id)?;
    }
    db.prepare_cached("DELETE FROM approval_rules WHERE scope = 'conversation' AND subject = ?1")?
        .execute([&key])?;
    db.prepare_cached("DELETE FROM conversations WHERE conversation = ?1")?
        .execute([&key])
        .map(|deleted| Ok(deleted as u64))
}

fn record(row: &Row<'_>) -> rusqlite::Result<ConversationRecord> {
    Ok(ConversationRecord {
        conversation: parsed(row, 0)?,
        title: row.get(1)?,
        workspace: row.get(2)?,
        settings: row.get(3)?,
        created_at: Timestamp(unsigned(row, 4)?),
        turns: row.get(5)?,
        used_at: Timestamp(unsigned(row, 6)?),
    })
}
