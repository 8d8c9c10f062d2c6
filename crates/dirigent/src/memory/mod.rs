//! Memory: facts that the user asked to be remembered, about the user or about a workspace (INTENT-1).
//!
//! Facts are stored in the journal's database, and only on request. [`Memory::relevant`] finds the few facts that are related to a text, so
//! that a program can give them to a model as the user's notes. A fact that looks like a secret is refused, because facts are sent to models.
//!
//! ```
//! use dirigent::Dirigent;
//! use dirigent::memory::{FactScope, Visible};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), dirigent::DirigentError> {
//! # let folder = tempfile::tempdir().unwrap();
//! let dirigent = Dirigent::builder().journal(folder.path().join("journal.db")).build().await?;
//! let memory = dirigent.memory();
//!
//! let kept = memory.add(FactScope::User, "My favourite colour is green").await?;
//! let found = memory.search(Visible::User, "favourite colours").await?;
//! assert_eq!(found, [kept.fact().clone()]);
//!
//! memory.delete(kept.fact().id).await?;
//! assert!(memory.list(Visible::User).await?.is_empty());
//! # Ok(())
//! # }
//! ```

pub(crate) mod clean;
mod query;
mod secret;

use std::fmt;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use dirigent_core::text::visible_line;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, NewFact, StoredFact, VisibleFacts};
use serde::{Deserialize, Serialize};

use crate::blocking::with_journal;
use crate::time::now;
use crate::{Dirigent, DirigentError};

pub use secret::Secret;
pub(crate) use secret::find as find_secret;

/// Maximum length of a fact in bytes.
pub const MAX_FACT_BYTES: usize = 2_000;
/// Maximum number of facts in a list or search result.
pub const MAX_LISTED: usize = 1_000;
/// Maximum number of [relevant](Memory::relevant) facts.
pub const MAX_RELEVANT: usize = 8;
/// Maximum length of all relevant facts together, in characters.
pub const MAX_RELEVANT_CHARS: usize = 2_000;

/// The number of a fact. The number of a deleted fact is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactId(pub u64);

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FactId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(FactId)
    }
}

/// The subject of a fact. JSON: `{"scope": "user"}` or `{"scope": "workspace", "workspace": "/home/me/project"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scope", content = "workspace", rename_all = "snake_case")]
pub enum FactScope {
    /// A fact about the user, which applies in every folder.
    User,
    /// A fact about a folder, which applies to conversations that work there.
    Workspace(PathBuf),
}

/// A fact in the memory. JSON: `"id"`, the fields of [`FactScope`], `"text"`, and `"at"` in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The fact's number.
    pub id: FactId,
    /// The fact's subject.
    #[serde(flatten)]
    pub scope: FactScope,
    /// The fact, on one line.
    pub text: String,
    /// The time when it was added.
    pub at: Timestamp,
}

/// The result of [`Memory::add`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The fact was added.
    Kept(Fact),
    /// An equal fact already existed, and is unchanged.
    Known(Fact),
}

impl Added {
    /// The fact in the memory.
    pub fn fact(&self) -> &Fact {
        match self {
            Added::Kept(fact) | Added::Known(fact) => fact,
        }
    }
}

/// The facts that a list or search includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// The facts about the user.
    User,
    /// The facts about the user and about this folder.
    Workspace(PathBuf),
    /// All facts, of every folder.
    All,
}

/// Why a fact is refused or not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The fact has no text.
    #[error("the fact is empty: say what to remember, such as \"the staging server is called blue\"")]
    Empty,
    /// The fact is too long.
    #[error("the fact has {bytes} bytes, more than {MAX_FACT_BYTES}: say it in fewer words, or split it")]
    TooLong {
        /// The length of the fact.
        bytes: usize,
    },
    /// The fact looks like a secret.
    #[error(
        "the fact was not saved: it seems to contain {secret}, and facts are sent to models. Keep secrets in a password manager, \
         and save only where to find them"
    )]
    Secret {
        /// The kind of secret that it seems to contain.
        secret: Secret,
    },
    /// There is no fact with this number.
    #[error("there is no fact {id}: it was deleted or never existed; list the facts to see their numbers")]
    NoSuchFact {
        /// The number.
        id: FactId,
    },
}

/// The memory in a journal. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    journal: Journal,
}

impl Dirigent {
    /// Returns the memory, which all runs and conversations of the journal share.
    pub fn memory(&self) -> Memory {
        Memory {
            journal: self.journal.clone(),
        }
    }
}

impl Memory {
    /// Adds a fact. Line breaks become spaces, and invisible characters are removed. A fact is not added again if an equal fact already
    /// exists for the same scope or for the user. The comparison ignores letter case, spaces and final punctuation.
    ///
    /// # Errors
    /// [`MemoryError::Empty`], [`MemoryError::TooLong`], [`MemoryError::Secret`]; [`DirigentError::Workspace`] if there is no such folder;
    /// an error of the journal.
    pub async fn add(&self, scope: FactScope, text: &str) -> Result<Added, DirigentError> {
        let text = checked(text)?;
        let same = clean::same(&text);
        with_journal(&self.journal, move |journal| {
            let workspace = match scope {
                FactScope::User => None,
                FactScope::Workspace(folder) => Some(resolved(&folder)?),
            };
            loop {
                let fact = NewFact {
                    workspace: workspace.clone(),
                    text: text.clone(),
                    same: same.clone(),
                    at: now(),
                };
                let kept = journal.add_fact(fact)?;
                let stored = match kept {
                    Some(id) => journal.fact(id)?.map(|fact| Added::Kept(fact.into())),
                    None => journal
                        .same_fact(workspace.as_deref(), &same)?
                        .map(|fact| Added::Known(fact.into())),
                };
                // Another process may have deleted the fact in the meantime.
                if let Some(added) = stored {
                    return Ok(added);
                }
            }
        })
        .await
    }

    /// Lists up to [`MAX_LISTED`] facts, the newest first.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn list(&self, visible: Visible) -> Result<Vec<Fact>, DirigentError> {
        with_journal(&self.journal, move |journal| {
            Ok(facts(journal.facts(&stored(visible), MAX_LISTED)?))
        })
        .await
    }

    /// Returns a fact.
    ///
    /// # Errors
    /// [`MemoryError::NoSuchFact`]; an error of the journal.
    pub async fn show(&self, id: FactId) -> Result<Fact, DirigentError> {
        with_journal(&self.journal, move |journal| {
            let fact = journal.fact(id.0)?.ok_or(MemoryError::NoSuchFact { id })?;
            Ok(fact.into())
        })
        .await
    }

    /// Finds up to [`MAX_LISTED`] facts that contain words of the text, the best matches first. For an empty text, lists all facts.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn search(&self, visible: Visible, text: &str) -> Result<Vec<Fact>, DirigentError> {
        let words = query::searched_words(text);
        if words.is_empty() {
            return if text.trim().is_empty() {
                self.list(visible).await
            } else {
                Ok(Vec::new())
            };
        }
        with_journal(&self.journal, move |journal| {
            Ok(facts(journal.search_facts(
                &stored(visible),
                &words,
                MAX_LISTED,
            )?))
        })
        .await
    }

    /// Finds up to [`MAX_LISTED`] facts that contain all words of the text, except common words such as "the" or 的, the best matches
    /// first. For an empty text, lists all facts.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn search_all_words(&self, visible: Visible, text: &str) -> Result<Vec<Fact>, DirigentError> {
        let mut found = self.search(visible.clone(), text).await?;
        for word in query::searched_words(text) {
            if found.is_empty() {
                break;
            }
            let (visible, words) = (stored(visible.clone()), vec![word]);
            let with_word = with_journal(&self.journal, move |journal| {
                Ok(journal.search_facts(&visible, &words, MAX_LISTED)?)
            })
            .await?;
            found.retain(|fact| with_word.iter().any(|other| other.id == fact.id.0));
        }
        Ok(found)
    }

    /// Deletes a fact and returns it.
    ///
    /// # Errors
    /// [`MemoryError::NoSuchFact`]; an error of the journal.
    pub async fn delete(&self, id: FactId) -> Result<Fact, DirigentError> {
        with_journal(&self.journal, move |journal| {
            let fact = journal.fact(id.0)?.ok_or(MemoryError::NoSuchFact { id })?;
            if !journal.delete_fact(id.0)? {
                return Err(MemoryError::NoSuchFact { id }.into());
            }
            Ok(fact.into())
        })
        .await
    }

    /// Finds the facts that are related to a text: those that share words with it, apart from common ones such as "the" or 的, the best
    /// matches first. Returns at most [`MAX_RELEVANT`] facts with at most [`MAX_RELEVANT_CHARS`] characters in total; a fact that would
    /// exceed the limit is left out.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn relevant(&self, visible: Visible, text: &str) -> Result<Vec<Fact>, DirigentError> {
        let words = query::telling_words(text);
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let found = with_journal(&self.journal, move |journal| {
            Ok(facts(journal.search_facts(
                &stored(visible),
                &words,
                MAX_RELEVANT * 4,
            )?))
        })
        .await?;
        Ok(bounded(found))
    }
}

/// Checks and normalizes the text of a fact.
fn checked(text: &str) -> Result<String, MemoryError> {
    let text = visible_line(text);
    if text.is_empty() {
        return Err(MemoryError::Empty);
    }
    if text.len() > MAX_FACT_BYTES {
        return Err(MemoryError::TooLong { bytes: text.len() });
    }
    match secret::find(&text) {
        Some(secret) => Err(MemoryError::Secret { secret }),
        None => Ok(text),
    }
}

/// Selects facts in order, up to [`MAX_RELEVANT`] facts with [`MAX_RELEVANT_CHARS`] characters in total. Skips facts that do not fit.
fn bounded(found: Vec<Fact>) -> Vec<Fact> {
    let mut left = MAX_RELEVANT_CHARS;
    let fits = |fact: &Fact| {
        let chars = fact.text.chars().count();
        let fits = chars <= left;
        if fits {
            left -= chars;
        }
        fits
    };
    found.into_iter().filter(fits).take(MAX_RELEVANT).collect()
}

/// Converts to the store's filter. The folder is made canonical, as in the journal; a folder that does not exist has no facts.
fn stored(visible: Visible) -> VisibleFacts {
    match visible {
        Visible::User => VisibleFacts::User,
        Visible::Workspace(folder) => {
            let folder = folder.canonicalize().unwrap_or(folder);
            VisibleFacts::Workspace(folder.to_string_lossy().into_owned())
        }
        Visible::All => VisibleFacts::All,
    }
}

/// The canonical path of a folder.
fn resolved(folder: &Path) -> Result<String, DirigentError> {
    let failed = |reason: String| DirigentError::Workspace {
        path: folder.to_owned(),
        reason,
    };
    let resolved = folder.canonicalize().map_err(|error| failed(error.to_string()))?;
    if !resolved.is_dir() {
        return Err(failed("it is not a folder: give the project's folder".to_owned()));
    }
    let text = resolved.into_os_string().into_string();
    text.map_err(|_| failed("its path is not valid UTF-8: rename the folder, or move it".to_owned()))
}

fn facts(stored: Vec<StoredFact>) -> Vec<Fact> {
    stored.into_iter().map(Fact::from).collect()
}

impl From<StoredFact> for Fact {
    fn from(stored: StoredFact) -> Self {
        Fact {
            id: FactId(stored.id),
            scope: match stored.workspace {
                Some(workspace) => FactScope::Workspace(workspace.into()),
                None => FactScope::User,
            },
            text: stored.text,
            at: stored.at,
        }
    }
}
