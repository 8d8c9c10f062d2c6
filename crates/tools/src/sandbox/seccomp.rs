//! The system calls that a confined command does not get.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Calls that reach what is not a file: the user's keys, and, for root, the system itself.
const DENIED_SYSCALLS: [libc::c_long; 11] = [
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_userfaultfd,
];

/// Shuts the calling thread, and all that it starts from now on, behind the filters. There is no way back.
pub(super) fn apply(network: bool) -> Result<(), String> {
    let mut refused: Rules = DENIED_SYSCALLS
        .iter()
        .flat_map(|call| unconditional(*call))
        .collect();
    if !network {
        // Of every family, also those of Docker's and D-Bus's sockets; `socketpair` leads nowhere and stays.
        refused.extend(unconditional(libc::SYS_socket));
    }
    // Keys typed into a terminal on behalf of its user.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let rule = argument(1, request).map_err(|error| error.to_string())?;
        refused.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    // Has calls of its own that no filter sees. Programs take it for an older kernel and do without.
    let missing: Rules = unconditional(libc::SYS_io_uring_setup).collect();
    // A process that cannot be looked at would not be found where each has to be looked for.
    let dumpable = argument(0, libc::PR_SET_DUMPABLE as u64).map_err(|error| error.to_string())?;
    let ignored = Rules::from([(libc::SYS_prctl, vec![dumpable])]);
    for (rules, errno) in [(refused, libc::EACCES), (missing, libc::ENOSYS), (ignored, 0)] {
        let program = compile(rules, errno.unsigned_abs()).map_err(|error| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The call by both numbers that it may have: x86 has a second table of calls for the same processes.
fn unconditional(call: libc::c_long) -> impl Iterator<Item = (i64, Vec<SeccompRule>)> {
    const X32: libc::c_long = 0x4000_0000;
    let second = cfg!(target_arch = "x86_64").then_some(call | X32);
    std::iter::once(call).chain(second).map(|call| (call, Vec::new()))
}

fn argument(place: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let same = SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
    SeccompRule::new(vec![same])
}

/// A filter under which these calls return that error (0 for success) without having done anything.
fn compile(rules: Rules, errno: u32) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        architecture,
    )?
    .try_into()
}
