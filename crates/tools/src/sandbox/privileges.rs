//! Dropping root's privileges that commands do not need. Has no effect for other users.

use rustix::io::Result;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Drops all privileges of the calling thread and of the processes that it starts, except those for accessible files and low ports.
///
/// This is necessary because `CAP_PERFMON` can read the environment of every process, with Dirigent's secrets in it, despite Landlock.
/// The privileges cannot be regained, even by root's programs, because no program gains privileges in a domain.
pub(super) fn drop_privileges() -> Result<()> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::NET_BIND_SERVICE;
    let ours = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: ours.effective & kept,
            permitted: ours.permitted & kept,
            inheritable: CapabilitySet::empty(),
        },
    )
}
