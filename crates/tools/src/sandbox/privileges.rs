//! Drops root's privileges that commands do not need. Has no effect for other users.

use rustix::io::Result;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Drops all capabilities of the calling thread and of the processes that it starts, except the capabilities to access and change any file
/// and to listen on ports below 1024.
///
/// This is necessary because, despite Landlock, a process with `CAP_PERFMON` can read the environment of every process, including
/// Dirigent's secrets. Dropped capabilities cannot be regained, not even by running a program as root, because no program gains privileges
/// in a domain.
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
