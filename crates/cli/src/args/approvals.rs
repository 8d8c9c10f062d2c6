//! Arguments of the `approvals` commands.

use clap::{Args, Subcommand};

pub(crate) const APPROVALS_HELP: &str = "\
In the dialog about a call that is waiting for your approval, `always` allows this call, or calls like it from now on: within the run, its conversation, \
its folder, or everywhere. Dirigent keeps such rules in the journal and never changes your configuration. A saved rule never \
overrides a rule in [approvals] that denies the call, or that asks about it and is at least as specific.

Examples:
  dirigent approvals list
  dirigent approvals remove 3";

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the calls that you always allow
    List(ListApprovalsCommand),
    /// Remove a rule, so that such calls wait for your approval again
    Remove(RemoveApprovalCommand),
}

#[derive(Args)]
pub(crate) struct ListApprovalsCommand {
    /// Print one JSON object per rule
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RemoveApprovalCommand {
    /// The rule's number, as `approvals list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
}
