//! Approval rules: calls that the user always allows, within a run, a conversation, a folder or everywhere.
//!
//! Such rules are in the journal; the user's configuration is never written. When a run starts, its policy includes the rules of its
//! conversation, the rules of its workspace, and the rules that apply everywhere. A rule that is added later is sent to each active run in its
//! scope, and a resumed run gets the rules that were added while it did not run. The run then applies the rule, including to calls that are
//! already waiting. For a run in a git worktree, the workspace is the folder for which the worktree was made.
//!
//! A rule never overrides a rule that denies the call, or that asks about it and is at least as specific ([`Policy::allows_with`](dirigent_core::policy::Policy::allows_with)), and
//! never approves a plan. A rule about the tools of an MCP service counts only for the program or the address that the service had when the user
//! allowed its calls: another service of the same name asks again.

use std::collections::BTreeMap;
use std::path::Path;

use dirigent_core::id::{ConversationId, RunId};
use dirigent_core::policy::{Rule, Ruling};
use dirigent_core::spec::ServiceEndpoints;
use dirigent_core::steering::Steering;
use dirigent_mcp::{ServiceConfig, service_of};
use dirigent_runtime::{Orchestrator, RunHandle, RuntimeError, SteerOutcome};
use dirigent_store::{Journal, NewRule, RunFilter, RunState, StoreError};
use futures::future::join_all;

use crate::blocking::with_journal;
use crate::first_spec::endpoints_of;
use crate::services::endpoints;
use crate::time::now;
use crate::worktree::users_folder;
use crate::{Dirigent, DirigentError};

pub use dirigent_core::policy::CallPattern;
pub use dirigent_store::{RuleScope, StoredRule as ApprovalRule};

/// The scope of a rule: where it allows calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The run.
    Run,
    /// The run's conversation.
    Conversation,
    /// The run's workspace.
    Workspace,
    /// All runs.
    Everywhere,
}

/// Why a rule cannot be added or deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalRuleError {
    /// The run is not a turn of a conversation.
    #[error("run {} is not a turn of a conversation: allow the calls within the run or its folder", run.short())]
    NoConversation {
        /// The run.
        run: RunId,
    },
    /// The pattern is too long for the user to read, has control characters, or could not appear in a configuration.
    #[error(
        "these calls cannot be allowed by a rule: its text would be too long or unclear; add a shorter rule to your configuration"
    )]
    Pattern,
    /// There is no rule with this number.
    #[error(
        "there is no approval rule {id}: it was deleted or never existed; list the rules to see their numbers"
    )]
    NoSuchRule {
        /// The number.
        id: u64,
    },
}

/// The approval rules of a journal. Clones are handles of the same rules.
#[derive(Clone)]
pub struct ApprovalRules {
    journal: Journal,
    orchestrator: Orchestrator,
    /// The MCP services of the configuration.
    services: Vec<ServiceConfig>,
}

/// A rule that [`ApprovalRules::allow`] has saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRule {
    /// The rule.
    pub rule: ApprovalRule,
    /// Whether the run already has the rule, or will get it when it is resumed; `None` if the run has ended.
    pub outcome: Option<SteerOutcome>,
}

impl Dirigent {
    /// Returns the approval rules, which all runs of the journal share.
    pub fn approval_rules(&self) -> ApprovalRules {
        ApprovalRules {
            journal: self.journal.clone(),
            orchestrator: self.orchestrator.clone(),
            services: self.services.configured().to_vec(),
        }
    }

    /// The rules of a new run, as part of its policy. `endpoints` are those of the services that the run may use.
    pub(crate) async fn starting_rules(
        &self,
        workspace: &str,
        conversation: Option<ConversationId>,
        endpoints: ServiceEndpoints,
    ) -> Result<Vec<Rule>, DirigentError> {
        let of_conversation = conversation.map(RuleScope::Conversation);
        let mut scopes = vec![RuleScope::Everywhere, RuleScope::Workspace(workspace.to_owned())];
        scopes.extend(of_conversation);
        let stored = self
            .reading(move |journal| rules_in(journal, &scopes, &endpoints))
            .await?;
        let allow = |rule: ApprovalRule| Rule {
            ruling: Ruling::Allow,
            calls: rule.calls,
        };
        Ok(stored.into_iter().map(allow).collect())
    }

    /// Sends a newly started run the rules that were saved after its starting rules, `known`, were read, because whoever saved them may
    /// not have found the run yet. A failure is only logged, because the run has already started: without the rules, it asks the user
    /// about these calls.
    pub(crate) async fn send_later_rules(
        &self,
        run: &RunHandle,
        known: &[Rule],
        workspace: &str,
        conversation: Option<ConversationId>,
        endpoints: ServiceEndpoints,
    ) {
        let rules = match self.starting_rules(workspace, conversation, endpoints).await {
            Ok(rules) => rules,
            Err(error) => {
                tracing::warn!(run = %run.id(), %error, "a new run may lack approval rules that were just saved");
                return;
            }
        };
        for rule in rules.into_iter().filter(|rule| !known.contains(rule)) {
            // Fails only if the run has just ended.
            let _ = run.steer(Steering::AllowCalls { calls: rule.calls }).await;
        }
    }
}

impl ApprovalRules {
    /// Allows matching calls from now on, including in active runs within the rule's scope. An identical rule is not added twice. `run`
    /// is the run in which the user allows the calls.
    ///
    /// # Errors
    /// [`ApprovalRuleError::NoConversation`], [`ApprovalRuleError::Pattern`]; an unknown run; an error of the journal.
    pub async fn allow(
        &self,
        run: RunId,
        within: Within,
        calls: CallPattern,
    ) -> Result<SavedRule, DirigentError> {
        let services = self.services.clone();
        let save = move |journal: &Journal| save(journal, run, within, calls, services);
        let rule = with_journal(&self.journal, save).await?;
        let saved = rule.clone();
        let active = move |journal: &Journal| Ok(active_runs(journal, &saved)?);
        let active = with_journal(&self.journal, active).await?;
        let others = active.into_iter().filter(|other| *other != run);
        let others = others.map(async |other| {
            if let Err(error) = self.send(other, &rule.calls).await {
                tracing::warn!(run = %other, %error, "an active run will not get a new approval rule until it is resumed");
            }
        });
        let (outcome, _) = futures::join!(self.send(run, &rule.calls), join_all(others));
        Ok(SavedRule {
            rule,
            outcome: outcome?,
        })
    }

    /// Sends a rule to a run; `None` if the run has ended.
    async fn send(&self, run: RunId, calls: &CallPattern) -> Result<Option<SteerOutcome>, DirigentError> {
        let calls = calls.clone();
        match self.orchestrator.steer(run, Steering::AllowCalls { calls }).await {
            Ok(outcome) => Ok(Some(outcome)),
            // A run that never began starts with the rule.
            Err(RuntimeError::Ended { .. } | RuntimeError::NeverBegan { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists all rules, in the order in which they were added.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn list(&self) -> Result<Vec<ApprovalRule>, DirigentError> {
        with_journal(&self.journal, |journal| Ok(journal.approval_rules()?)).await
    }

    /// Lists the rules that apply to a run, in the order in which they were added.
    ///
    /// # Errors
    /// An unknown run; an error of the journal.
    pub async fn of_run(&self, run: RunId) -> Result<Vec<ApprovalRule>, DirigentError> {
        with_journal(&self.journal, move |journal| {
            let record = journal.run(run)?;
            let folder = users_folder(journal, &record)?;
            let mut scopes = vec![
                RuleScope::Everywhere,
                RuleScope::Workspace(folder),
                RuleScope::Run(run),
            ];
            scopes.extend(record.turn.map(|turn| RuleScope::Conversation(turn.conversation)));
            let endpoints = endpoints_of(journal, run)?;
            Ok(rules_in(journal, &scopes, &endpoints)?)
        })
        .await
    }

    /// Lists the rules that a new run in a workspace, or of a conversation, would have, but that do not count, because the service that they
    /// are about has another program or address now.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn outdated_in(
        &self,
        workspace: &Path,
        conversation: Option<ConversationId>,
    ) -> Result<Vec<ApprovalRule>, DirigentError> {
        let (services, workspace) = (self.services.clone(), workspace.to_owned());
        with_journal(&self.journal, move |journal| {
            let folder = workspace.canonicalize().unwrap_or(workspace);
            let scope = RuleScope::Workspace(folder.to_string_lossy().into_owned());
            let mut scopes = vec![RuleScope::Everywhere, scope];
            scopes.extend(conversation.map(RuleScope::Conversation));
            let mut rules = journal.approval_rules_in(&scopes)?;
            if rules.iter().any(|rule| rule.service.is_some()) {
                let present = endpoints(journal, services, &folder)?;
                rules.retain(|rule| has_service(rule, &present) && !is_about(rule, &present));
            } else {
                rules.clear();
            }
            Ok(rules)
        })
        .await
    }

    /// Deletes a rule, and returns it. Runs that already have the rule keep it.
    ///
    /// # Errors
    /// [`ApprovalRuleError::NoSuchRule`]; an error of the journal.
    pub async fn delete(&self, id: u64) -> Result<ApprovalRule, DirigentError> {
        with_journal(&self.journal, move |journal| match journal.approval_rule(id)? {
            Some(rule) if journal.delete_approval_rule(id)? => Ok(rule),
            Some(_) | None => Err(ApprovalRuleError::NoSuchRule { id }.into()),
        })
        .await
    }
}

/// Reads the rules with one of these scopes. Leaves out those about tools of a service that is missing here, or has another program or address. Blocks.
fn rules_in(
    journal: &Journal,
    scopes: &[RuleScope],
    endpoints: &BTreeMap<String, String>,
) -> Result<Vec<ApprovalRule>, StoreError> {
    let mut rules = journal.approval_rules_in(scopes)?;
    rules.retain(|rule| is_about(rule, endpoints));
    Ok(rules)
}

/// Returns true if the rule is about tools of a service that exists here.
fn has_service(rule: &ApprovalRule, endpoints: &BTreeMap<String, String>) -> bool {
    service_of(&rule.calls.tool).is_some_and(|service| endpoints.contains_key(service.as_str()))
}

/// Returns true unless the rule is about tools of a service that is missing here, or has another program or address.
fn is_about(rule: &ApprovalRule, endpoints: &BTreeMap<String, String>) -> bool {
    match service_of(&rule.calls.tool) {
        Some(service) => rule.service.as_ref() == endpoints.get(service.as_str()),
        None => true,
    }
}

/// Saves a rule, and returns it. Blocks.
fn save(
    journal: &Journal,
    run: RunId,
    within: Within,
    calls: CallPattern,
    services: Vec<ServiceConfig>,
) -> Result<ApprovalRule, DirigentError> {
    let record = journal.run(run)?;
    let scope = match within {
        Within::Run => RuleScope::Run(run),
        Within::Conversation => match record.turn {
            Some(turn) => RuleScope::Conversation(turn.conversation),
            None => return Err(ApprovalRuleError::NoConversation { run }.into()),
        },
        Within::Workspace => RuleScope::Workspace(users_folder(journal, &record)?),
        Within::Everywhere => RuleScope::Everywhere,
    };
    if !calls.is_readable() {
        return Err(ApprovalRuleError::Pattern.into());
    }
    let service = match service_of(&calls.tool) {
        // The user allows calls of the service that the run uses, which may have been replaced in the meantime.
        Some(service) => match endpoints_of(journal, run)?.get(service.as_str()) {
            Some(endpoint) => Some(endpoint.clone()),
            None => {
                let folder = users_folder(journal, &record)?;
                endpoints(journal, services, Path::new(&folder))?.remove(service.as_str())
            }
        },
        None => None,
    };
    let at = now();
    loop {
        let id = journal.add_approval_rule(NewRule {
            scope: scope.clone(),
            calls: calls.clone(),
            at,
            service: service.clone(),
        })?;
        // Another process may have deleted the rule since.
        if let Some(rule) = journal.approval_rule(id)? {
            return Ok(rule);
        }
    }
}

/// Returns the active runs to which the rule applies: those within its scope that use the rule's service, if it names one. Blocks.
fn active_runs(journal: &Journal, rule: &ApprovalRule) -> Result<Vec<RunId>, StoreError> {
    let active = RunFilter::new().state(RunState::Running).limit(usize::MAX);
    let mut runs = Vec::new();
    for record in journal.run_page(&active)?.runs {
        let is_in_scope = match &rule.scope {
            RuleScope::Run(run) => record.run == *run,
            RuleScope::Conversation(id) => record.turn.is_some_and(|turn| turn.conversation == *id),
            RuleScope::Workspace(folder) => users_folder(journal, &record)? == *folder,
            RuleScope::Everywhere => true,
        };
        if is_in_scope && is_about(rule, &*endpoints_of(journal, record.run)?) {
            runs.push(record.run);
        }
    }
    Ok(runs)
}
