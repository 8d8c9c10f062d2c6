//! The sandbox's limits, tried by real commands. On a system without Landlock these tests fail, because they could not prove anything.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod guard;

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::folder::{context, printed};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{Confinement, Sandbox, Tool, execute_command};
use rustix::process::{Resource, getrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A timeout that only a hang reaches.
const HANG: Duration = Duration::from_secs(900);

async fn run(sandbox: &Sandbox, workspace: &TempDir, command: Value) -> ToolResult {
    let parameters = json!({"command": command, "timeout_seconds": 600});
    let call = execute_command(sandbox).call(context(workspace.path()), parameters);
    tokio::time::timeout(HANG, call).await.expect("the call ends")
}

/// Output and error output of a shell line in the default sandbox.
async fn shell(workspace: &TempDir, line: &str) -> String {
    said(&run(&Sandbox::default(), workspace, json!(line)).await)
}

fn said(result: &ToolResult) -> String {
    let (stdout, stderr, _) = printed(result);
    stdout + &stderr
}

/// Counts the processes on the machine with `word` in their command line.
fn running(word: &str) -> usize {
    let has_it = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(has_it).count()
}

/// A number of seconds to sleep that no other run of these tests has in a command line.
fn unique(seconds: u32) -> String {
    format!("{seconds}.{:010}", std::process::id())
}

/// Waits until no process has `word` in its command line. The call itself waits only a limited time for the processes that it killed.
async fn ended(word: &str) {
    let gone = async {
        while running(word) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("they end");
}

/// Returns true if a command's signals reach only its own processes. On Linux before 6.12 some of these tests would end all of the user's
/// processes, so they are skipped, with a message.
fn signals_stay_inside(test: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    let version: (u32, u32) = number().zip(number()).expect("Linux has a version");
    if version < (6, 12) {
        // Printed without a macro: the test harness hides the output of macros if the test passes.
        let _ = writeln!(
            std::io::stderr(),
            "left out: {test}: before Linux 6.12 a command can signal others"
        );
    }
    version >= (6, 12)
}

/// Runs a Python script and returns its last line of output.
async fn python(sandbox: &Sandbox, workspace: &TempDir, line: &str) -> String {
    let said = said(&run(sandbox, workspace, json!(["python3", "-c", line])).await);
    said.trim().lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn files_outside_can_be_neither_read_nor_written() {
    let workspace = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "canary-71c2").unwrap();
    std::os::unix::fs::symlink(&secret, workspace.path().join("link")).unwrap();
    let secret = secret.display();
    for line in [
        format!("cat {secret}"),
        "cat link".to_owned(),
        format!("ls {}", outside.path().display()),
        format!("echo x >> {secret}"),
        "echo x > link".to_owned(),
        format!("rm {secret}"),
        format!("mv {secret} here"),
        format!("ln {secret} here && cat here"),
        format!("touch made && mv made {secret}2"),
        format!(
            "touch made && unshare --user --map-root-user --mount sh -c 'mount --bind {secret} made && cat made'"
        ),
        format!("touch {}/new", outside.path().display()),
        format!("truncate -s 0 {secret}"),
        format!("ln -s a {secret}2"),
        "ls \"$HOME\"".to_owned(),
        "touch \"$HOME\"/dirigent-was-here".to_owned(),
        "ls /tmp".to_owned(),
        "touch /tmp/dirigent-was-here".to_owned(),
        "touch /etc/dirigent-was-here".to_owned(),
        "echo x > /dev/tty".to_owned(),
        "mknod disk b 8 0 && head -c 1 disk".to_owned(),
    ] {
        let result = run(&Sandbox::default(), &workspace, json!(line)).await;
        let said = said(&result);
        assert!(!result.succeeded(), "{line}: {said}");
        assert!(!said.contains("canary"), "{line}: {said}");
    }
    assert_eq!(
        fs::read_to_string(outside.path().join("secret")).unwrap(),
        "canary-71c2"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn the_workspace_and_the_temporary_folder_are_writable() {
    let workspace = TempDir::new().unwrap();
    let line = "mkdir -p a/b && echo one > a/b/c && ln a/b/c d && mv d e && ln -s e f && rm f && cat e && mktemp && \
                echo two > \"$TMPDIR/x\" && cat \"$TMPDIR/x\" && mkdir -p \"$XDG_CACHE_HOME/y\" && echo three > /dev/null && \
                cat <(echo four)";
    let result = run(&Sandbox::default(), &workspace, json!(["bash", "-c", line])).await;
    assert!(result.succeeded(), "{result:?}");
    let said = said(&result);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!([lines[0], lines[2], lines[3]], ["one", "two", "four"]);
    assert!(!Path::new(lines[1]).exists());
}

#[tokio::test]
async fn the_temporary_folder_is_removed_whatever_the_command_did_to_it() {
    let workspace = TempDir::new().unwrap();
    for line in [
        "echo $TMPDIR; mkdir $TMPDIR/a; touch $TMPDIR/a/b; chmod 0555 $TMPDIR/a; chmod 0 $TMPDIR",
        "echo $TMPDIR; ln -s / $TMPDIR/root; mkfifo $TMPDIR/pipe",
        "echo $TMPDIR; setsid sh -c 'while :; do touch $TMPDIR/$((i=i+1)); done' >/dev/null 2>&1 & sleep 0.2; echo $TMPDIR",
    ] {
        let said = shell(&workspace, line).await;
        let folder = Path::new(said.lines().next().unwrap());
        assert!(folder.is_absolute() && !folder.exists(), "{line}: {said}");
    }
}

#[tokio::test]
async fn settings_let_commands_read_and_write_more() {
    let workspace = TempDir::new().unwrap();
    let (readable, writable) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(readable.path().join("file"), "text").unwrap();
    let sandbox = Sandbox {
        read: vec![readable.path().to_owned(), "/does/not/exist".into()],
        write: vec![writable.path().to_owned()],
        ..Sandbox::default()
    };
    let (read, write) = (readable.path().display(), writable.path().display());
    let line =
        format!("cat {read}/file && echo ok > {write}/made && cat {write}/made && ! touch {read}/made");
    let result = run(&sandbox, &workspace, json!(line)).await;
    assert!(result.succeeded(), "{result:?}");
    assert!(said(&result).starts_with("textok\n"));
}

#[tokio::test]
async fn without_network_no_socket_of_any_family_can_be_made() {
    let workspace = TempDir::new().unwrap();
    for family in [
        "AF_INET",
        "AF_INET6",
        "AF_UNIX",
        "AF_NETLINK",
        "AF_PACKET",
        "AF_VSOCK",
    ] {
        for kind in ["SOCK_STREAM", "SOCK_DGRAM"] {
            let line = format!("import socket as s; s.socket(s.{family}, s.{kind})");
            let said = python(&Sandbox::default(), &workspace, &line).await;
            assert_eq!(
                said, "PermissionError: [Errno 13] Permission denied",
                "{family} {kind}"
            );
        }
    }
    let line = "import socket as s; a, b = s.socketpair(); a.send(b'pair'); print(b.recv(4))";
    assert_eq!(python(&Sandbox::default(), &workspace, line).await, "b'pair'");
    // The system calls by number: io_uring on every architecture, and `socket` by its second number on x86.
    let line = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall(425, 8, None), ctypes.get_errno())";
    assert_eq!(python(&Sandbox::default(), &workspace, line).await, "-1 38");
    if cfg!(target_arch = "x86_64") {
        let line = "import ctypes; c = ctypes.CDLL(None, use_errno=True); \
                    print(c.syscall(0x40000029, 2, 1, 0), ctypes.get_errno())";
        assert_eq!(python(&Sandbox::default(), &workspace, line).await, "-1 13");
    }
}

#[tokio::test]
async fn with_network_local_listeners_answer() {
    let workspace = TempDir::new().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = TempDir::new().unwrap();
    let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
    let line = format!(
        "import socket as s\n\
         s.create_connection(('127.0.0.1', {}))\n\
         s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', {}))\n\
         s.socket(s.AF_UNIX).connect('{}')\n\
         print('connected')",
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
        folder.path().join("socket").display(),
    );
    let sandbox = Sandbox {
        network: true,
        ..Sandbox::default()
    };
    assert_eq!(python(&sandbox, &workspace, &line).await, "connected");
    let refused = python(&Sandbox::default(), &workspace, &line).await;
    assert!(refused.starts_with("PermissionError"), "{refused}");
    drop((tcp, udp, unix));
}

#[tokio::test]
async fn commands_cannot_signal_dirigents_own_process() {
    if !signals_stay_inside("commands_cannot_signal_dirigents_own_process") {
        return;
    }
    let ours = std::process::id();
    let workspace = TempDir::new().unwrap();
    for line in [
        format!("kill -0 {ours}"),
        format!("kill -TERM {ours}"),
        format!("kill -STOP {ours}"),
        "kill -0 $PPID".to_owned(),
        "kill -0 1".to_owned(),
    ] {
        let result = run(&Sandbox::default(), &workspace, json!(line)).await;
        assert!(!result.succeeded(), "{line}: {result:?}");
    }
    // The command can only signal itself.
    let said = shell(&workspace, "trap 'echo hit' USR1; kill -USR1 -1; echo and lives").await;
    assert!(said.contains("and lives"), "{said}");
}

#[tokio::test]
async fn commands_cannot_inspect_dirigents_own_process() {
    // Dirigent's environment contains secrets.
    let ours = std::process::id();
    let workspace = TempDir::new().unwrap();
    for line in [
        format!("cat /proc/{ours}/environ"),
        format!("head -c 1 /proc/{ours}/mem"),
        format!("readlink /proc/{ours}/fd/0"),
        format!("cat /proc/{ours}/fd/0"),
        format!("cd /proc/{ours}/root"),
        format!("readlink /proc/{ours}/cwd"),
        format!("echo 1000 > /proc/{ours}/oom_score_adj"),
        "cat /proc/$PPID/environ".to_owned(),
        // The name of a variable that only processes outside the sandbox have.
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^CARGO_MANIFEST_DIR=".to_owned(),
        // PTRACE_ATTACH
        format!("python3 -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(16, {ours}, 0, 0) != 0)'"),
    ] {
        let result = run(&Sandbox::default(), &workspace, json!(line)).await;
        assert!(!result.succeeded(), "{line}: {result:?}");
    }
}

#[tokio::test]
async fn the_end_of_one_command_does_not_end_another() {
    if !signals_stay_inside("the_end_of_one_command_does_not_end_another") {
        return;
    }
    let workspace = TempDir::new().unwrap();
    let waiting = shell(
        &workspace,
        "until [ -e go ]; do sleep 0.01; done; echo still here",
    );
    let ending = async {
        for _ in 0..3 {
            let line = "setsid sleep 1000 & kill -9 -1; echo ended";
            let result = run(&Sandbox::default(), &workspace, json!(line)).await;
            assert!(result.succeeded(), "{result:?}");
            // Some shells report on standard error that the child was killed.
            assert_eq!(printed(&result).0, "ended\n");
        }
        fs::write(workspace.path().join("go"), "").unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, ending);
    assert_eq!(waited, "still here\n");
}

#[tokio::test]
async fn timeout_and_job_control_work_in_the_sandbox() {
    let workspace = TempDir::new().unwrap();
    let line = "timeout 0.1 sh -c 'sleep 1000'; echo $?; set -m; sleep 1000 & kill %1; wait %1; echo $?";
    let result = run(&Sandbox::default(), &workspace, json!(["bash", "-c", line])).await;
    let output = said(&result);
    assert!(output.starts_with("124\n"), "{output}");
    assert!(output.contains("143\n"), "{output}");
}

#[tokio::test]
async fn processes_left_behind_by_a_command_end_with_the_call() {
    let workspace = TempDir::new().unwrap();
    let seconds = unique(12345);
    let sleep = format!("sleep {seconds}");
    let daemon = "exit 0 if fork; use POSIX; POSIX::setsid(); exit 0 if fork; $SIG{TERM} = 'IGNORE'; close STDOUT; close STDERR;";
    for line in [
        format!(
            "for i in $(seq 100); do setsid -f env -i sh -c 'trap \"\" TERM; {sleep}; :' >/dev/null 2>&1; done"
        ),
        format!("(setsid sh -c '{sleep} >/dev/null 2>&1 &' &)"),
        format!(
            "perl -e \"{}\" {seconds}",
            daemon.replace('$', "\\$") + " sleep \\$ARGV[0]"
        ),
        format!(
            "perl -e 'setpgrp(0, 0); exit 0 if fork; close STDOUT; close STDERR; sleep $ARGV[0]' {seconds}"
        ),
        format!("{sleep} &"),
        format!("setsid {sleep} &"),
    ] {
        for confinement in [Confinement::Required, Confinement::Off] {
            let sandbox = Sandbox {
                confinement,
                ..Sandbox::default()
            };
            let result = run(&sandbox, &workspace, json!(format!("{line}\necho started"))).await;
            assert_eq!(said(&result), "started\n", "{line}");
            ended(&seconds).await;
        }
    }
}

#[tokio::test]
async fn an_endless_command_is_ended_at_the_timeout() {
    let workspace = TempDir::new().unwrap();
    let seconds = unique(76543);
    for line in [
        // With a limited depth, so that the machine stays usable: 511 processes.
        format!(
            "breed() {{ [ $1 -eq 0 ] || {{ breed $(($1 - 1)) & breed $(($1 - 1)) & }}; trap '' TERM; setsid sleep {seconds}; }}; breed 8"
        ),
        format!("yes {seconds}"),
    ] {
        let parameters = json!({"command": line, "timeout_seconds": 2});
        let result = execute_command(&Sandbox::default())
            .call(context(workspace.path()), parameters)
            .await;
        let ToolOutcome::Failure { code, .. } = &result.outcome else {
            panic!("{result:?}")
        };
        assert_eq!(code, "timed_out", "{line}");
        assert!(said(&result).len() < 600_000, "{line}");
        ended(&seconds).await;
    }
}

/// Simulates a system without Landlock, by blocking the system calls that create a domain.
#[test]
fn without_landlock_nothing_runs_unless_the_user_allowed_it() {
    let workspace = TempDir::new().unwrap();
    let missing = [(libc::SYS_landlock_create_ruleset, Vec::new())]
        .into_iter()
        .collect();
    let action = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(missing, SeccompAction::Allow, action, architecture).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    let call = move || {
        seccompiler::apply_filter(&filter).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let unconfined = Sandbox {
            confinement: Confinement::Off,
            ..Sandbox::default()
        };
        assert!(Sandbox::check().is_err());
        let refused = runtime.block_on(run(&Sandbox::default(), &workspace, json!("touch made")));
        assert!(!workspace.path().join("made").exists());
        let ran = runtime.block_on(run(&unconfined, &workspace, json!("touch made")));
        assert!(workspace.path().join("made").exists());
        (refused, ran)
    };
    let (refused, ran) = std::thread::spawn(call).join().unwrap();
    let ToolOutcome::Failure { code, error, .. } = refused.outcome else {
        panic!("{refused:?}")
    };
    assert_eq!(code, "no_sandbox");
    assert!(
        error.starts_with("this system cannot confine commands, so nothing was run: "),
        "{error}"
    );
    assert!(error.contains("commands = \"unconfined\""), "{error}");
    assert!(ran.succeeded());
    assert_eq!(ran.metadata["confined"], false);
}

#[tokio::test]
async fn limits_apply_to_all_processes_of_a_command() {
    let workspace = TempDir::new().unwrap();
    let sandbox = Sandbox {
        max_memory: Some(1 << 30),
        max_file: Some(1 << 20),
        max_processes: Some(5000),
        ..Sandbox::default()
    };
    let line = "ulimit -c; ulimit -d; ulimit -f; ulimit -u; head -c 2000000 /dev/zero > big; \
                echo $?; ulimit -d unlimited || echo kept";
    let said = said(&run(&sandbox, &workspace, json!(["bash", "-c", line])).await);
    let said: Vec<_> = said.lines().take(6).collect();
    // The limit of the test's own process may be lower already, and cannot be raised.
    let ours = getrlimit(Resource::Nproc).maximum;
    let processes = ours.map_or(5000, |ours| ours.min(5000)).to_string();
    assert_eq!(said, ["0", "1048576", "1024", &processes, "153", "kept"]);
    assert_eq!(fs::metadata(workspace.path().join("big")).unwrap().len(), 1 << 20);
    let line = "bytearray(3 << 30)";
    assert_eq!(python(&sandbox, &workspace, line).await, "MemoryError");
}

#[tokio::test]
async fn toolchains_work_offline() {
    for program in ["cargo", "python3", "node", "git"] {
        let ran = std::process::Command::new(program).arg("--version").output();
        assert!(ran.is_ok(), "this test needs `{program}`: {ran:?}");
    }
    let workspace = TempDir::new().unwrap();
    let tools = [
        ("cargo --version", "cargo 1."),
        ("python3 -c 'print(6 * 7)'", "42"),
        ("node -e 'console.log(6 * 7)'", "42"),
        (
            "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; git init -q . && git status --short --branch",
            "## ",
        ),
        (
            "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; \
             git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git log --format=%s",
            "first",
        ),
        (
            "mkdir -p crate/src && printf '[package]\\nname = \"tiny\"\\nedition = \"2024\"\\n' > crate/Cargo.toml && \
             echo 'pub fn one() -> u8 { 1 } #[test] fn is_one() { assert_eq!(one(), 1) }' > crate/src/lib.rs && \
             cd crate && CARGO_TARGET_DIR=target cargo test --offline --quiet 2>&1 | grep 'test result'",
            "test result: ok. 1 passed",
        ),
    ];
    for (line, expected) in tools {
        let result = run(&Sandbox::default(), &workspace, json!(line)).await;
        assert!(
            result.succeeded() && said(&result).starts_with(expected) || said(&result).contains(expected),
            "{line}: {result:?}"
        );
    }
}

#[tokio::test]
async fn unconfined_commands_have_the_users_access_and_are_still_ended() {
    let workspace = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    let sandbox = Sandbox {
        confinement: Confinement::Off,
        ..Sandbox::default()
    };
    let seconds = unique(1_234_567);
    let line = format!(
        "echo ok > {}/made && setsid -f sleep {seconds} >/dev/null 2>&1",
        outside.path().display()
    );
    let result = run(&sandbox, &workspace, json!(line)).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(result.metadata["confined"], false);
    assert!(outside.path().join("made").exists());
    ended(&seconds).await;
}

#[tokio::test]
async fn a_gigabyte_of_output_is_read_and_discarded() {
    let workspace = TempDir::new().unwrap();
    let result = run(
        &Sandbox::default(),
        &workspace,
        json!("head -c 1000000000 /dev/zero | tr '\\0' x"),
    )
    .await;
    assert!(result.succeeded());
    let said = said(&result);
    assert_eq!(
        said.len(),
        2 * 128 * 1024 + "\n… [999737856 bytes left out] …\n".len()
    );
    assert!(said.contains("x\n… [999737856 bytes left out] …\nx"));
}

#[tokio::test]
async fn root_keeps_only_its_privileges_over_files() {
    let workspace = TempDir::new().unwrap();
    let said = shell(
        &workspace,
        "grep -E '^(CapPrm|CapEff|NoNewPrivs)' /proc/self/status",
    )
    .await;
    let of = |name: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim()
    };
    for name in ["CapPrm:", "CapEff:"] {
        // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, NET_BIND_SERVICE.
        let most = 0b100_0001_1011;
        assert_eq!(u64::from_str_radix(of(name), 16).unwrap() & !most, 0, "{said}");
    }
    assert_eq!(of("NoNewPrivs:"), "1");
}

#[tokio::test]
async fn dirigents_own_threads_stay_unconfined() {
    Sandbox::check().unwrap();
    let workspace = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    assert_eq!(shell(&workspace, "echo ran").await, "ran\n");
    let made = outside.path().join("made");
    // On existing threads of the pool, and on new ones.
    for _ in 0..20 {
        let made = made.clone();
        tokio::task::spawn_blocking(move || fs::write(made, "").unwrap())
            .await
            .unwrap();
        let _ = UdpSocket::bind("127.0.0.1:0").unwrap();
    }
}

#[tokio::test]
async fn a_temporary_folder_of_any_depth_is_removed() {
    let workspace = TempDir::new().unwrap();
    let line = "import os\nprint(os.environ['TMPDIR'])\nos.chdir(os.environ['TMPDIR'])\n\
                for i in range(3000):\n os.mkdir('d'); os.chdir('d')\n open('f', 'w').close()";
    let folder = said(&run(&Sandbox::default(), &workspace, json!(["python3", "-c", line])).await);
    let folder = Path::new(folder.trim());
    assert!(folder.is_absolute() && !folder.exists(), "{folder:?}");
}
