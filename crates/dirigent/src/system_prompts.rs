//! Base system prompts: the user's texts with which the system prompts of agents begin (PROMPT-1).
//!
//! Dirigent appends the agent's role, its tools, how to call them and when to finish (PROMPT-2;
//! [`Builder::prompts`](crate::Builder::prompts) returns the result). A run keeps the text that it was started with. The prompt named
//! `default` always exists: its first version ships with Dirigent.
//!
//! ```
//! use dirigent::{Dirigent, Goal};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), dirigent::DirigentError> {
//! # let folder = tempfile::tempdir().unwrap();
//! let dirigent = Dirigent::builder().journal(folder.path().join("journal.db")).build().await?;
//! let prompts = dirigent.system_prompts();
//!
//! let first = prompts.create("support", "You answer customers of a bakery.").await?;
//! let second = prompts.update("support", first.version, "You answer customers of a bakery, in rhymes.").await?;
//! assert_eq!(second.version, 2);
//! // The text has changed since version 1, so this would undo what another user wrote.
//! assert!(prompts.update("support", first.version, "You sell bread.").await.is_err());
//!
//! let goal = Goal::new("Which bread has no nuts?").system_prompt("support");
//! # let _ = goal;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;

use dirigent_core::agent_spec::BasePrompt;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, StoredPrompt};
use serde::{Deserialize, Serialize};

use crate::blocking::with_journal;
use crate::config::ALL_AGENTS;
use crate::time::now;
use crate::{Dirigent, DirigentError};

/// The name of the prompt that always exists.
pub const DEFAULT_PROMPT: &str = "default";
/// Maximum length of a prompt in bytes.
pub const MAX_PROMPT_BYTES: usize = 32 * 1024;
/// Maximum length of a prompt's name in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The first version of the default prompt.
const DEFAULT_TEXT: &str = include_str!("../../../config/prompts/default_base.md");

/// A version of a base system prompt. JSON: `{"name": "support", "version": 2, "text": "…", "at": 1764150000000}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemPrompt {
    /// The prompt's name.
    pub name: String,
    /// The number of the version, from 1.
    pub version: u32,
    /// The text.
    pub text: String,
    /// When the version was written, in milliseconds since 1970-01-01 UTC; `None` for the version that ships with Dirigent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Why a base system prompt cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemPromptError {
    /// The name is not valid.
    #[error(
        "`{name}` can't be the name of a system prompt: use up to {MAX_NAME_BYTES} of the characters a-z, 0-9, - and _, and begin with a letter"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The prompt has no text.
    #[error("the system prompt is empty: write what every conversation with it begins with")]
    Empty,
    /// The prompt is too long.
    #[error("the system prompt has {bytes} bytes, more than {MAX_PROMPT_BYTES}: shorten it")]
    TooLong {
        /// The length of the prompt.
        bytes: usize,
    },
    /// A prompt has control characters other than line breaks and tabs.
    #[error("the system prompt has the control character U+{:04X} on line {line}: remove it", u32::from(*character))]
    ControlCharacter {
        /// The character.
        character: char,
        /// The line of the character, from 1.
        line: usize,
    },
    /// A prompt with this name exists.
    #[error("a system prompt named `{name}` already exists: edit it, or choose another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no prompt with this name.
    #[error("there is no system prompt `{name}`; available system prompts: {}", known.join(", "))]
    NoSuchPrompt {
        /// The name.
        name: String,
        /// The names of all prompts.
        known: Vec<String>,
    },
    /// The configuration names a prompt for an agent, but the prompt does not exist.
    #[error(
        "`[base_prompts]` in your configuration assigns the system prompt `{name}`, which does not exist, to `{agent}`; available system prompts: {}",
        known.join(", ")
    )]
    NoSuchBasePrompt {
        /// The agent's name.
        agent: String,
        /// The prompt's name.
        name: String,
        /// The names of all prompts.
        known: Vec<String>,
    },
    /// The prompt does not have this version.
    #[error("the system prompt `{name}` has no version {version}: the latest is {latest}")]
    NoSuchVersion {
        /// The prompt's name.
        name: String,
        /// The number of the version.
        version: u32,
        /// The number of the latest version.
        latest: u32,
    },
    /// The prompt has been changed since the version that the caller edited.
    #[error(
        "the system prompt `{name}` was not changed, because the change was made to version {version}, and the prompt now has version {latest}: \
         read the latest version, and change that"
    )]
    Conflict {
        /// The prompt's name.
        name: String,
        /// The version that the caller edited.
        version: u32,
        /// The number of the latest version.
        latest: u32,
    },
    /// The default prompt cannot be deleted.
    #[error(
        "the system prompt `{DEFAULT_PROMPT}` can't be deleted, because it is used where no other is named: edit it instead"
    )]
    Default,
}

impl SystemPrompt {
    /// Returns a prompt that ships with Dirigent: the first version of the default prompt. For programs that have no journal yet.
    ///
    /// # Errors
    /// [`SystemPromptError::NoSuchPrompt`], [`SystemPromptError::NoSuchVersion`].
    pub fn shipped(name: &str, version: Option<u32>) -> Result<Self, SystemPromptError> {
        let shipped = shipped();
        let name = name.to_owned();
        match version {
            _ if name != shipped.name => Err(SystemPromptError::NoSuchPrompt {
                name,
                known: vec![shipped.name],
            }),
            Some(version) if version != shipped.version => Err(SystemPromptError::NoSuchVersion {
                name,
                version,
                latest: shipped.version,
            }),
            Some(_) | None => Ok(shipped),
        }
    }
}

/// The base system prompts of a journal. Clones are handles of the same prompts.
#[derive(Clone, Debug)]
pub struct SystemPrompts {
    journal: Journal,
}

impl Dirigent {
    /// Returns the base system prompts, which all runs and conversations of the journal can use.
    pub fn system_prompts(&self) -> SystemPrompts {
        SystemPrompts {
            journal: self.journal.clone(),
        }
    }

    /// Reads the base prompts of a run's agents. `lead` is the name of the lead's prompt, if the run sets one.
    pub(crate) async fn base_prompts(&self, lead: Option<String>) -> Result<BasePrompts, DirigentError> {
        let factory = self.run_spec_factory.clone();
        self.reading(move |journal| {
            let configured = factory.base_prompt_names();
            let mut names = configured.clone();
            match lead {
                Some(lead) => drop(names.insert(LEAD.to_owned(), lead)),
                None => drop(
                    names
                        .entry(LEAD.to_owned())
                        .or_insert_with(|| DEFAULT_PROMPT.to_owned()),
                ),
            }
            let read = |(agent, name): (String, String)| {
                let prompt = read(journal, &name, None).map_err(|error| match error {
                    DirigentError::SystemPrompt(SystemPromptError::NoSuchPrompt { name, known })
                        if configured.get(&agent) == Some(&name) =>
                    {
                        SystemPromptError::NoSuchBasePrompt {
                            agent: agent.clone(),
                            name,
                            known,
                        }
                        .into()
                    }
                    error => error,
                });
                Ok::<_, DirigentError>((agent, prompt?.into()))
            };
            names
                .into_iter()
                .map(read)
                .collect::<Result<_, _>>()
                .map(BasePrompts)
        })
        .await
    }
}

impl SystemPrompts {
    /// Creates a prompt. Its version is 1 or, if a prompt with this name was deleted before, follows the deleted versions, so that an
    /// update based on a deleted version is a conflict.
    ///
    /// # Errors
    /// [`SystemPromptError::Name`], [`SystemPromptError::Exists`], or an invalid text ([`SystemPromptError::Empty`],
    /// [`SystemPromptError::TooLong`], [`SystemPromptError::ControlCharacter`]); an error of the journal.
    pub async fn create(&self, name: &str, text: &str) -> Result<SystemPrompt, DirigentError> {
        let name = name.to_owned();
        if !is_valid_name(&name) {
            return Err(SystemPromptError::Name { name }.into());
        }
        let text = checked(text)?;
        with_journal(&self.journal, move |journal| {
            if name == DEFAULT_PROMPT {
                return Err(SystemPromptError::Exists { name }.into());
            }
            let mut written = new_version(name, 1, text);
            match journal.create_system_prompt(&written.name, &written.text, written.at)? {
                Some(version) => written.version = version,
                None => {
                    let name = written.name;
                    return Err(SystemPromptError::Exists { name }.into());
                }
            }
            Ok(written.into())
        })
        .await
    }

    /// Returns a version of a prompt, or its latest version.
    ///
    /// # Errors
    /// [`SystemPromptError::NoSuchPrompt`], [`SystemPromptError::NoSuchVersion`]; an error of the journal.
    pub async fn get(&self, name: &str, version: Option<u32>) -> Result<SystemPrompt, DirigentError> {
        let name = name.to_owned();
        with_journal(&self.journal, move |journal| read(journal, &name, version)).await
    }

    /// Changes the text of a prompt whose latest version is `version`; returns the new version. An unchanged text creates no new version.
    ///
    /// # Errors
    /// [`SystemPromptError::Conflict`] if the prompt has been changed since that version; [`SystemPromptError::NoSuchPrompt`]; an invalid
    /// text, as for [`SystemPrompts::create`]; an error of the journal.
    pub async fn update(&self, name: &str, version: u32, text: &str) -> Result<SystemPrompt, DirigentError> {
        let (name, text) = (name.to_owned(), checked(text)?);
        with_journal(&self.journal, move |journal| {
            let latest = read(journal, &name, None)?;
            if latest.version == version && latest.text == text {
                return Ok(latest);
            }
            let written = new_version(name, version.saturating_add(1), text);
            if latest.version == version
                && journal.write_system_prompt(written.clone(), shipped_version(&written.name))?
            {
                return Ok(written.into());
            }
            let name = written.name;
            let latest = read(journal, &name, None)?.version;
            Err(SystemPromptError::Conflict {
                name,
                version,
                latest,
            }
            .into())
        })
        .await
    }

    /// Deletes all versions of a prompt. Runs that were started with the prompt keep its text. Returns the number of conversations that
    /// use the prompt. Their next turns need another prompt.
    ///
    /// # Errors
    /// [`SystemPromptError::Default`], [`SystemPromptError::NoSuchPrompt`]; an error of the journal.
    pub async fn delete(&self, name: &str) -> Result<u64, DirigentError> {
        let name = name.to_owned();
        with_journal(&self.journal, move |journal| {
            if name == DEFAULT_PROMPT {
                return Err(SystemPromptError::Default.into());
            }
            match journal.delete_system_prompt(&name)? {
                0 => Err(no_such_prompt(journal, name)?),
                _ => Ok(journal.conversations_with_prompt(&name)?),
            }
        })
        .await
    }

    /// Lists the latest versions of all prompts: the default prompt, then the others by name.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn list(&self) -> Result<Vec<SystemPrompt>, DirigentError> {
        with_journal(&self.journal, |journal| Ok(list(journal)?)).await
    }

    /// Lists all versions of a prompt, the latest first.
    ///
    /// # Errors
    /// [`SystemPromptError::NoSuchPrompt`]; an error of the journal.
    pub async fn versions(&self, name: &str) -> Result<Vec<SystemPrompt>, DirigentError> {
        let name = name.to_owned();
        with_journal(&self.journal, move |journal| {
            let stored = journal.system_prompt_versions(&name)?;
            let shipped = (name == DEFAULT_PROMPT).then(shipped);
            let versions: Vec<SystemPrompt> = stored.into_iter().map(Into::into).chain(shipped).collect();
            match versions.is_empty() {
                true => Err(no_such_prompt(journal, name)?),
                false => Ok(versions),
            }
        })
        .await
    }
}

const LEAD: &str = "lead";

/// The base prompts of a run's agents, by the agents' names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BasePrompts(BTreeMap<String, BasePrompt>);

impl Default for BasePrompts {
    fn default() -> Self {
        BasePrompts::new(BTreeMap::new())
    }
}

impl BasePrompts {
    /// Creates a set of these prompts, with the default prompt for the lead if none is set for it.
    pub(crate) fn new(mut prompts: BTreeMap<String, BasePrompt>) -> Self {
        prompts.entry(LEAD.to_owned()).or_insert_with(|| shipped().into());
        BasePrompts(prompts)
    }

    /// Returns the base prompt of an agent; `None` if the agent has none, so that its system prompt begins with its role.
    pub(crate) fn of(&self, agent: &str) -> Option<BasePrompt> {
        let of_all = || match agent {
            LEAD | "reflector" => None,
            _ => self.0.get(ALL_AGENTS),
        };
        self.0.get(agent).or_else(of_all).cloned()
    }
}

impl From<StoredPrompt> for SystemPrompt {
    fn from(stored: StoredPrompt) -> Self {
        let StoredPrompt {
            name,
            version,
            text,
            at,
        } = stored;
        let at = Some(at);
        SystemPrompt {
            name,
            version,
            text,
            at,
        }
    }
}

impl From<SystemPrompt> for BasePrompt {
    fn from(prompt: SystemPrompt) -> Self {
        let SystemPrompt {
            name,
            version,
            text,
            at: _,
        } = prompt;
        BasePrompt { name, version, text }
    }
}

/// The first version of the default prompt.
fn shipped() -> SystemPrompt {
    SystemPrompt {
        name: DEFAULT_PROMPT.to_owned(),
        version: 1,
        text: DEFAULT_TEXT.trim_end().to_owned(),
        at: None,
    }
}

/// Returns the number of shipped versions of a prompt.
fn shipped_version(name: &str) -> u32 {
    u32::from(name == DEFAULT_PROMPT)
}

fn new_version(name: String, version: u32, text: String) -> StoredPrompt {
    let at = now();
    StoredPrompt {
        name,
        version,
        text,
        at,
    }
}

/// Reads a version of a prompt, or its latest version.
fn read(journal: &Journal, name: &str, version: Option<u32>) -> Result<SystemPrompt, DirigentError> {
    if let Some(stored) = journal.system_prompt(name, version)? {
        return Ok(stored.into());
    }
    let shipped = (name == DEFAULT_PROMPT).then(shipped);
    if let Some(shipped) = shipped.filter(|shipped| version.is_none_or(|version| version == shipped.version))
    {
        return Ok(shipped);
    }
    let name = name.to_owned();
    let Some(version) = version else {
        return Err(no_such_prompt(journal, name)?);
    };
    let latest = read(journal, &name, None)?.version;
    Err(SystemPromptError::NoSuchVersion {
        name,
        version,
        latest,
    }
    .into())
}

fn list(journal: &Journal) -> Result<Vec<SystemPrompt>, dirigent_store::StoreError> {
    let (default, others): (Vec<StoredPrompt>, _) = journal
        .system_prompts()?
        .into_iter()
        .partition(|prompt| prompt.name == DEFAULT_PROMPT);
    let default = default.into_iter().next().map_or_else(shipped, Into::into);
    Ok([default]
        .into_iter()
        .chain(others.into_iter().map(Into::into))
        .collect())
}

fn no_such_prompt(journal: &Journal, name: String) -> Result<DirigentError, DirigentError> {
    let known = list(journal)?.into_iter().map(|prompt| prompt.name).collect();
    Ok(SystemPromptError::NoSuchPrompt { name, known }.into())
}

fn is_valid_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_allowed)
}

/// Returns the text without surrounding whitespace and with Unix line breaks, if it is a valid prompt.
fn checked(text: &str) -> Result<String, SystemPromptError> {
    let text = text.trim().replace("\r\n", "\n");
    if text.is_empty() {
        return Err(SystemPromptError::Empty);
    }
    if text.len() > MAX_PROMPT_BYTES {
        return Err(SystemPromptError::TooLong { bytes: text.len() });
    }
    for (index, line) in text.split('\n').enumerate() {
        if let Some(character) = line.chars().find(|c| c.is_control() && *c != '\t') {
            let line = index + 1;
            return Err(SystemPromptError::ControlCharacter { character, line });
        }
    }
    Ok(text)
}
