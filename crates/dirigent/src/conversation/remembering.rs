//! The memory's answers to messages of a conversation: saves, recalls and deletes facts, without a model (INTENT-1).

use std::path::PathBuf;

use dirigent_core::intent::{MemoryIntent, is_about_user};
use dirigent_core::turn::ReadyAnswer;

use crate::DirigentError;
use crate::memory::{Added, Fact, FactId, FactScope, Memory, MemoryError, Secret, Visible};

/// Maximum number of facts in an answer.
const MAX_SHOWN: usize = 10;

/// The memory, for one message of a conversation.
pub(super) struct TurnMemory {
    pub(super) memory: Memory,
    /// The folder of the conversation.
    pub(super) workspace: PathBuf,
    /// The user's message. The answer is in the same language.
    pub(super) message: String,
    pub(super) undo: UndoHint,
}

/// How the user can delete a fact that was just saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoHint {
    /// "forget that", as the next message.
    ForgetThat,
    /// A message that says which fact to forget.
    ForgetAbout,
}

/// An answer of the memory.
pub(super) struct Answered {
    pub(super) answer: ReadyAnswer,
    /// True if the message must not be stored, because it looks like a secret: later turns would send it to models.
    pub(super) hides_message: bool,
    is_chinese: bool,
}

impl Answered {
    /// Returns the placeholder for a message that must not be stored.
    pub(super) fn shown_message(&self) -> &'static str {
        if self.is_chinese {
            "（要求记住的内容可能含有机密，未保存）"
        } else {
            "(a request to remember something that looks like a secret; its text was not saved)"
        }
    }
}

impl TurnMemory {
    /// Executes the request and returns the answer. `last_kept` is the fact that the conversation saved most recently.
    pub(super) async fn answer(
        &self,
        wanted: &MemoryIntent,
        last_kept: Option<u64>,
    ) -> Result<Answered, DirigentError> {
        match wanted {
            MemoryIntent::Remember { fact } => self.remember(fact).await,
            MemoryIntent::Recall { query } => Ok(self.answered(self.recall(query).await?)),
            MemoryIntent::Forget { query } => Ok(self.answered(self.forget(query).await?)),
            MemoryIntent::Undo => Ok(self.answered(self.undo(last_kept).await?)),
        }
    }

    async fn remember(&self, fact: &str) -> Result<Answered, DirigentError> {
        let scope = if is_about_user(fact) {
            FactScope::User
        } else {
            FactScope::Workspace(self.workspace.clone())
        };
        match self.memory.add(scope, fact).await {
            Ok(Added::Kept(fact)) => Ok(Answered {
                answer: ReadyAnswer {
                    text: self.kept(&fact),
                    kept_fact: Some(fact.id.0),
                },
                ..self.answered(String::new())
            }),
            Ok(Added::Known(fact)) => {
                let text = self.say(
                    || format!("I remember this already: {}", fact.text),
                    || format!("这个我已经记住了：{}", fact.text),
                );
                Ok(self.answered(text))
            }
            Err(DirigentError::Memory(MemoryError::Secret { secret })) => Ok(Answered {
                hides_message: true,
                ..self.answered(self.refused(secret))
            }),
            Err(DirigentError::Memory(error)) => {
                let text = self.say(
                    || format!("I did not save this: {error}"),
                    || format!("没有记住：{error}"),
                );
                Ok(self.answered(text))
            }
            Err(error) => Err(error),
        }
    }

    fn kept(&self, fact: &Fact) -> String {
        let about_user = fact.scope == FactScope::User;
        let english = || {
            let about = if about_user {
                "about you, in every folder"
            } else {
                "about this folder"
            };
            let undo = match self.undo {
                UndoHint::ForgetThat => "forget that",
                UndoHint::ForgetAbout => "forget what I told you about …",
            };
            format!(
                "I will remember ({about}): {}\n\nTo undo it, say \"{undo}\".",
                fact.text
            )
        };
        let chinese = || {
            let about = if about_user {
                "关于你，在所有文件夹中"
            } else {
                "关于这个文件夹"
            };
            let undo = match self.undo {
                UndoHint::ForgetThat => "撤销刚才的记忆",
                UndoHint::ForgetAbout => "忘掉关于……",
            };
            format!("记住了（{about}）：{}\n\n要撤销，请说“{undo}”。", fact.text)
        };
        self.say(english, chinese)
    }

    fn refused(&self, secret: Secret) -> String {
        self.say(
            || {
                format!(
                    "I did not save this, because it looks like it contains {secret}, and facts are sent to models. Keep secrets in a \
                     password manager, and let me remember only where to find them."
                )
            },
            || "没有记住，因为其中可能含有密码、密钥或卡号等机密，而记住的内容会发送给模型。请把机密存放在密码管理器中，只让我记住它存放的位置。".to_owned(),
        )
    }

    async fn recall(&self, query: &str) -> Result<String, DirigentError> {
        let (all_words, visible) = (query.trim(), self.visible());
        let mut found = self.memory.search_all_words(visible.clone(), all_words).await?;
        if found.is_empty() {
            found = self.memory.search(visible, all_words).await?;
        }
        Ok(match found.as_slice() {
            [] if all_words.is_empty() => self.say(
                || "I remember no facts yet. Say \"remember that …\" to save one.".to_owned(),
                || "我还没有记住任何内容。说“记住……”，我就会记住。".to_owned(),
            ),
            [] => self.say(
                || format!("I remember no fact about \"{all_words}\". Say \"remember that …\" to save one."),
                || format!("我没有记住关于“{all_words}”的内容。说“记住……”，我就会记住。"),
            ),
            [only] => self.say(
                || format!("You told me: {}", only.text),
                || format!("你告诉过我：{}", only.text),
            ),
            several => {
                let facts = self.list(several);
                self.say(
                    || format!("You told me:\n\n{facts}"),
                    || format!("你告诉过我：\n\n{facts}"),
                )
            }
        })
    }

    /// Deletes the fact that contains all words of the query. If several facts do, deletes none, because it is not clear which one is
    /// meant.
    async fn forget(&self, query: &str) -> Result<String, DirigentError> {
        let found = self.memory.search_all_words(self.visible(), query).await?;
        match found.as_slice() {
            [] => self.nothing_to_forget(query).await,
            [only] => self.delete(only.id).await,
            several => {
                let facts = self.list(several);
                Ok(self.say(
                    || format!("I deleted nothing, because several facts match. Say which one:\n\n{facts}"),
                    || format!("没有删除，因为有多条相关的内容。请说明是哪一条：\n\n{facts}"),
                ))
            }
        }
    }

    /// Explains why no fact was deleted, and lists the facts that contain some words of the query.
    async fn nothing_to_forget(&self, query: &str) -> Result<String, DirigentError> {
        let similar = self.memory.search(self.visible(), query).await?;
        if similar.is_empty() {
            return Ok(self.say(
                || format!("I deleted nothing, because I remember no fact about \"{query}\"."),
                || format!("没有删除，因为我没有记住关于“{query}”的内容。"),
            ));
        }
        let facts = self.list(&similar);
        Ok(self.say(
            || format!("I deleted nothing, because no fact has all words of \"{query}\". These facts have some of the words; say which one:\n\n{facts}"),
            || format!("没有删除，因为没有一条内容同时包含“{query}”的所有词。以下内容包含其中一些，请说明是哪一条：\n\n{facts}"),
        ))
    }

    async fn undo(&self, last_kept: Option<u64>) -> Result<String, DirigentError> {
        match last_kept {
            Some(id) => self.delete(FactId(id)).await,
            None => Ok(self.say(
                || "Nothing to undo: no facts saved in this conversation remain.".to_owned(),
                || "没有可撤销的内容：这次对话没有记住还在的内容。".to_owned(),
            )),
        }
    }

    async fn delete(&self, id: FactId) -> Result<String, DirigentError> {
        match self.memory.delete(id).await {
            Ok(fact) => Ok(self.say(
                || format!("I have forgotten: {}", fact.text),
                || format!("已忘掉：{}", fact.text),
            )),
            Err(DirigentError::Memory(MemoryError::NoSuchFact { .. })) => Ok(self.say(
                || "The fact has already been deleted.".to_owned(),
                || "这条内容已经删除了。".to_owned(),
            )),
            Err(error) => Err(error),
        }
    }

    fn visible(&self) -> Visible {
        Visible::Workspace(self.workspace.clone())
    }

    fn list(&self, facts: &[Fact]) -> String {
        let mut lines: Vec<String> = facts
            .iter()
            .take(MAX_SHOWN)
            .map(|fact| format!("- {}", fact.text))
            .collect();
        let more = facts.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            lines.push(self.say(|| format!("- and {more} more"), || format!("- 还有 {more} 条")));
        }
        lines.join("\n")
    }

    fn answered(&self, text: String) -> Answered {
        Answered {
            answer: ReadyAnswer {
                text,
                kept_fact: None,
            },
            hides_message: false,
            is_chinese: self.is_chinese(),
        }
    }

    /// Returns the text in the message's language.
    fn say(&self, english: impl FnOnce() -> String, chinese: impl FnOnce() -> String) -> String {
        if self.is_chinese() { chinese() } else { english() }
    }

    fn is_chinese(&self) -> bool {
        self.message.chars().any(|c| matches!(c, '\u{4e00}'..='\u{9fff}'))
    }
}
