//! Settings of a new run that the journal provides.

use dirigent_core::id::ConversationId;
use dirigent_core::policy::Rule;

use crate::system_prompts::BasePrompts;
use crate::{Dirigent, DirigentError, Goal};

/// Settings of a new run that come from the journal instead of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredSettings {
    pub(crate) base_prompts: BasePrompts,
    /// The approval rules: the calls that the user always allows.
    pub(crate) rules: Vec<Rule>,
}

impl Dirigent {
    /// Reads the settings that the journal adds to a new run's setup.
    pub(crate) async fn stored_settings(
        &self,
        goal: &Goal,
        workspace: &str,
    ) -> Result<StoredSettings, DirigentError> {
        let conversation: Option<ConversationId> = goal.turn.as_ref().map(|turn| turn.conversation);
        Ok(StoredSettings {
            base_prompts: self.base_prompts(goal.system_prompt.clone()).await?,
            rules: self
                .starting_rules(workspace, conversation, goal.own.service_endpoints.clone())
                .await?,
        })
    }
}
