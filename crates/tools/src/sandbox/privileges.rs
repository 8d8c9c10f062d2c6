//! What root can do that a command has no use for. To anybody else it makes no difference.

use rustix::io::Result;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Takes all privileges from the calling thread, and from all that it starts, but those over the files that it can reach. They must go:
/// `CAP_PERFMON` reads the environment of every process past Landlock's rule, and our secrets are in ours.
///
/// Nothing gets them back, root's programs neither, as no program gains privileges in a domain.
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
