//! The seccomp filter of confined commands, which denies some system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// System calls that access the user's keyrings or, for root, control the system itself.
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

/// Installs the filters for the calling thread and the processes that it starts from now on. They cannot be removed.
pub(super) fn apply(network: bool) -> Result<(), String> {
    let mut denied: Rules = DENIED_SYSCALLS
        .iter()
        .flat_map(|call| unconditional(*call))
        .collect();
    if !network {
        // Sockets of every family, including the Unix sockets of Docker and D-Bus. `socketpair` reaches nothing outside and stays allowed.
        denied.extend(unconditional(libc::SYS_socket));
    }
    // These requests insert input into the user's terminal.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let rule = argument(1, request).map_err(|error| error.to_string())?;
        denied.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    // io_uring performs operations that no filter sees. With `ENOSYS`, programs assume an older kernel and fall back to other calls.
    let unavailable: Rules = unconditional(libc::SYS_io_uring_setup).collect();
    // The filter ignores `PR_SET_DUMPABLE`, because a process that makes itself unreadable in /proc would be
    // missing from the list of the domain's processes.
    let dumpable = argument(0, libc::PR_SET_DUMPABLE as u64).map_err(|error| error.to_string())?;
    let ignored = Rules::from([(libc::SYS_prctl, vec![dumpable])]);
    for (rules, errno) in [(denied, libc::EACCES), (unavailable, libc::ENOSYS), (ignored, 0)] {
        let program = compile(rules, errno.unsigned_abs()).map_err(|error| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns rules that match a system call by each of its numbers. A call can have two numbers, because x86-64
/// has a second table of calls (x32) that every process can use.
fn unconditional(call: libc::c_long) -> impl Iterator<Item = (i64, Vec<SeccompRule>)> {
    const X32: libc::c_long = 0x4000_0000;
    let x32_call = cfg!(target_arch = "x86_64").then_some(call | X32);
    std::iter::once(call)
        .chain(x32_call)
        .map(|call| (call, Vec::new()))
}

fn argument(index: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let equals = SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
    SeccompRule::new(vec![equals])
}

/// Compiles a filter that turns matching calls into no-ops that return `errno` (0 for success).
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
