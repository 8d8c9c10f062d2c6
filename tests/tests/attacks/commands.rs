//! Commands: they reach what the sandbox lets them, their output is bounded, and no process outlives its call.

use dirigent_tests::attack::{
    Attack, Call, Observation, Scene, Told, check, left_out, nothing_more, signals_stay_inside,
};
use serde_json::json;

use crate::listeners::{service, tcp, udp};

/// The command failed by itself, as it was refused something.
const FAILED: Told = Told::Refused("exited", &[]);

/// A shell line.
fn shell(line: impl Into<String>) -> Call {
    ("execute_command", json!({"command": line.into()}))
}

/// A shell line that is ended after a second.
fn shell_for_a_second(line: &str) -> Call {
    ("execute_command", json!({"command": line, "timeout_seconds": 1}))
}

/// A program and its arguments.
fn program<const N: usize>(words: [&str; N]) -> Call {
    ("execute_command", json!({"command": words.to_vec()}))
}

/// The number of the system call; who runs this elsewhere looks it up first.
#[cfg(target_arch = "x86_64")]
const PTRACE: u32 = 101;
#[cfg(target_arch = "aarch64")]
const PTRACE: u32 = 117;

/// A Perl program: it can call the system directly, and is there wherever git is.
fn perl(script: &str) -> Call {
    program(["perl", "-e", script])
}

#[test]
fn a_command_reads_and_writes_the_workspace_and_no_file_of_the_users_beside_it() {
    check([
        Attack {
            name: "a_command_works_in_the_workspace",
            made: |_| shell("mkdir made && echo it works > made/note && cat made/note"),
            told: Told::Bounded(&["it works"]),
            then: nothing_more,
        },
        Attack {
            name: "a_command_has_a_folder_for_temporary_files",
            made: |_| shell("file=$(mktemp) && echo it works > \"$file\" && cat \"$file\""),
            told: Told::Bounded(&["it works"]),
            then: nothing_more,
        },
        Attack {
            name: "a_key_in_the_home_is_not_read",
            made: |_| shell("cat ~/.ssh/id_ed25519"),
            told: Told::Refused("exited", &["ermission denied"]),
            then: nothing_more,
        },
        Attack {
            name: "the_home_is_not_listed",
            made: |_| shell("ls ~/.ssh"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "a_file_beside_the_workspace_is_not_read",
            made: |_| program(["cat", "../outside/secret.txt"]),
            told: Told::Refused("exited", &["ermission denied"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_beside_the_workspace_is_not_read_through_a_link",
            made: |scene| {
                scene.link(scene.outside("secret.txt"), "notes.txt");
                program(["cat", "notes.txt"])
            },
            told: Told::Refused("exited", &["ermission denied"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_beside_the_workspace_gets_no_second_name_in_it",
            made: |_| shell("ln ../outside/secret.txt notes.txt && cat notes.txt"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "no_file_is_made_beside_the_workspace",
            made: |_| shell("echo mine > ../outside/new.txt"),
            told: Told::Refused("exited", &["ermission denied"]),
            then: nothing_more,
        },
        Attack {
            name: "no_file_beside_the_workspace_is_written",
            made: |_| shell("echo mine >> ../outside/secret.txt"),
            told: Told::Refused("exited", &["ermission denied"]),
            then: nothing_more,
        },
        Attack {
            name: "no_file_beside_the_workspace_is_cut_off",
            made: |_| perl("truncate('../outside/secret.txt', 0) or die $!"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "no_file_beside_the_workspace_is_deleted",
            made: |_| program(["rm", "-f", "../outside/secret.txt"]),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "no_file_is_moved_out",
            made: |scene| {
                scene.file("notes.txt", "notes");
                program(["mv", "notes.txt", "../outside/notes.txt"])
            },
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "the_journal_is_not_read",
            made: |_| program(["cat", "../journal.db"]),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "dirigents_configuration_is_not_read",
            made: |_| shell("cat ~/.config/dirigent/dirigent.toml"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "dirigents_configuration_is_not_written",
            made: |_| shell("echo '[sandbox]' >> ~/.config/dirigent/dirigent.toml"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "a_file_that_is_bound_into_the_workspace_is_not_read",
            made: |scene| {
                scene.file("notes.txt", "");
                program([
                    "unshare",
                    "--user",
                    "--map-root-user",
                    "--mount",
                    "sh",
                    "-c",
                    "mount --bind ../outside/secret.txt notes.txt && cat notes.txt",
                ])
            },
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "no_command_runs_in_another_folder",
            made: |_| {
                (
                    "execute_command",
                    json!({"command": ["pwd"], "working_directory": "../outside"}),
                )
            },
            told: Told::Refused("outside_workspace", &["working_directory"]),
            then: nothing_more,
        },
        Attack {
            name: "an_agent_that_may_only_look_runs_nothing",
            made: |scene| {
                scene.access("read-only");
                scene.tools(["search"]);
                shell("touch made")
            },
            told: Told::NotRun("access_denied", &["execute_command"]),
            then: |scene, _| assert!(!scene.is_there("made")),
        },
    ]);
}

/// A line that makes a hook, and does more to it.
fn hook(more: &str) -> Call {
    shell(format!(
        "mkdir -p .git/hooks && cd .git/hooks && printf '#!/bin/sh\\ntouch pwned\\nexit\\n' > pre-commit && chmod +x pre-commit {more}"
    ))
}

fn no_hook(scene: &Scene, seen: &Observation) {
    assert!(!scene.is_there(".git/hooks/pre-commit"), "{}", seen.told);
}

#[test]
fn a_command_leaves_git_and_dirigent_as_they_were() {
    check([
        Attack {
            name: "a_hook_does_not_stay",
            made: |scene| {
                scene.file(".git/HEAD", "ref: refs/heads/main\n");
                hook("")
            },
            told: Told::Bounded(&[".git/hooks"]),
            then: no_hook,
        },
        Attack {
            name: "a_hook_that_is_too_large_to_be_looked_at_does_not_stay",
            made: |scene| {
                scene.file(".git/HEAD", "ref: refs/heads/main\n");
                hook("&& truncate -s 100M pre-commit")
            },
            told: Told::Bounded(&[]),
            then: no_hook,
        },
        Attack {
            name: "a_hook_among_thousands_does_not_stay",
            made: |scene| {
                scene.file(".git/HEAD", "ref: refs/heads/main\n");
                hook("&& seq 6000 | xargs touch")
            },
            told: Told::Bounded(&[]),
            then: no_hook,
        },
        Attack {
            name: "a_hook_in_place_of_anothers_does_not_stay",
            made: |scene| {
                scene.file(".git/hooks/pre-commit", "theirs");
                hook("")
            },
            told: Told::Bounded(&[".git/hooks/pre-commit"]),
            then: |scene, _| assert_eq!(scene.place.read(".git/hooks/pre-commit"), "theirs"),
        },
        Attack {
            name: "gits_settings_are_put_back",
            made: |scene| {
                scene.file(".git/config", "[core]\n");
                shell("echo 'fsmonitor = touch pwned' >> .git/config")
            },
            told: Told::Bounded(&[".git/config"]),
            then: |scene, _| assert_eq!(scene.place.read(".git/config"), "[core]\n"),
        },
        Attack {
            name: "gits_folder_does_not_lead_elsewhere",
            made: |scene| {
                scene.file(".git/config", "[core]\n");
                shell(
                    "mv .git old && mkdir new && echo 'fsmonitor = touch pwned' > new/config && ln -s new .git",
                )
            },
            told: Told::Bounded(&[".git"]),
            then: |scene, _| assert!(!scene.work(".git").is_symlink()),
        },
        Attack {
            name: "an_agent_of_the_project_does_not_stay",
            made: |_| {
                shell(
                    "mkdir -p .dirigent/agents .claude/agents && echo mine > .dirigent/agents/helper.md && echo mine > .claude/agents/helper.md",
                )
            },
            told: Told::Bounded(&[".dirigent"]),
            then: |scene, _| {
                assert!(!scene.is_there(".dirigent/agents/helper.md"));
                assert!(!scene.is_there(".claude/agents/helper.md"));
            },
        },
        Attack {
            name: "what_is_put_back_is_not_put_elsewhere",
            made: |scene| {
                scene.file(".git/config", "[core]\n");
                scene.file(".git/hooks/pre-commit", "theirs");
                shell("rm -r .git && ln -s ../outside .git; rm -rf .dirigent; ln -s ../outside .dirigent")
            },
            told: Told::Bounded(&[]),
            then: |scene, _| assert_eq!(scene.place.read(".git/config"), "[core]\n"),
        },
    ]);
}

#[test]
fn a_command_learns_nothing_of_dirigent_and_does_not_trace_it() {
    check([
        Attack {
            name: "a_variable_with_a_secret_is_not_passed_on",
            made: |_| program(["env"]),
            told: Told::Bounded(&["PATH="]),
            then: |_, seen| assert!(!seen.told.to_string().contains("DEPLOY_TOKEN"), "{}", seen.told),
        },
        Attack {
            name: "the_environment_of_dirigent_is_not_read",
            made: |_| shell("cat /proc/$PPID/environ"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "the_environment_of_no_other_process_is_read",
            made: |_| shell("cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^DEPLOY_"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "what_dirigent_has_in_memory_is_not_read",
            made: |_| perl("open(my $memory, '<', '/proc/' . getppid() . '/mem') or die $!"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "what_dirigent_has_open_is_not_reached",
            made: |_| shell("ls -l /proc/$PPID/fd && cat /proc/$PPID/fd/*"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "dirigent_leaves_nothing_open_for_its_commands",
            made: |scene| {
                // What was open before Dirigent began is not its matter.
                let closed = "import os, sys; os.closerange(3, 4096); os.execvp(sys.argv[1], sys.argv[1:])";
                scene.through(["python3", "-c", closed].map(str::to_owned));
                shell("ls -l /proc/self/fd | grep -v ' -> /proc/' | grep -c -- '->'")
            },
            told: Told::Bounded(&["\"stdout\":\"3\\n\""]),
            then: nothing_more,
        },
        Attack {
            name: "dirigent_is_not_traced",
            // PTRACE_ATTACH
            made: |_| perl(&format!("syscall({PTRACE}, 16, getppid(), 0, 0) == 0 or die $!")),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "nothing_can_be_read_from_standard_input",
            made: |_| program(["cat"]),
            told: Told::Bounded(&["\"stdout\":\"\""]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn a_command_signals_no_process_of_dirigents() {
    if !signals_stay_inside() {
        left_out("a_command_signals_no_process_of_dirigents: before Linux 6.12 a command can signal others");
        return;
    }
    check([
        Attack {
            name: "dirigent_is_not_killed",
            made: |_| shell("kill -KILL $PPID"),
            told: Told::Refused("exited", &["ermitted"]),
            then: nothing_more,
        },
        Attack {
            name: "dirigent_is_not_stopped",
            made: |_| shell("kill -STOP $PPID"),
            told: FAILED,
            then: nothing_more,
        },
    ]);
}

#[test]
fn a_command_has_no_network() {
    check([
        Attack {
            name: "nothing_is_connected_to_over_tcp",
            made: |scene| {
                let port = tcp(scene);
                program(["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")])
            },
            told: FAILED,
            then: nobody_came,
        },
        Attack {
            name: "nothing_is_sent_over_udp",
            made: |scene| {
                let port = udp(scene);
                program(["bash", "-c", &format!("echo mine > /dev/udp/127.0.0.1/{port}")])
            },
            told: FAILED,
            then: nobody_came,
        },
        Attack {
            name: "nothing_is_connected_to_over_ipv6",
            made: |_| perl("use Socket; socket(my $s, PF_INET6, SOCK_STREAM, 0) or die $!"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "no_local_service_is_reached_by_its_socket",
            made: |scene| {
                let path = service(scene);
                perl(&format!(
                    "use Socket; socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die $!; connect($s, pack_sockaddr_un('{}')) or die $!",
                    path
                ))
            },
            told: FAILED,
            then: nobody_came,
        },
        Attack {
            name: "nothing_is_listened_on",
            made: |_| {
                perl(
                    "use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or die $!; bind($s, sockaddr_in(0, INADDR_LOOPBACK)) or die $!; listen($s, 1) or die $!",
                )
            },
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "nothing_is_sent_past_the_system_calls_that_are_watched",
            // io_uring_setup
            made: |_| perl("my $parameters = \"\\0\" x 120; syscall(425, 1, $parameters) >= 0 or die $!"),
            told: FAILED,
            then: nothing_more,
        },
        Attack {
            name: "two_ends_of_one_program_may_talk",
            made: |_| {
                perl(
                    "use Socket; socketpair(my $a, my $b, PF_UNIX, SOCK_STREAM, 0) or die $!; syswrite($a, \"it works\\n\"); print scalar(<$b>)",
                )
            },
            told: Told::Bounded(&["it works"]),
            then: nothing_more,
        },
        Attack {
            name: "a_command_that_is_allowed_the_network_has_it",
            made: |scene| {
                scene.settings("[sandbox]\nnetwork = true");
                let port = tcp(scene);
                program([
                    "bash",
                    "-c",
                    &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"),
                ])
            },
            told: Told::Bounded(&["connected"]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn a_command_ends_with_all_that_it_started() {
    check([
        Attack {
            name: "a_command_past_its_time_is_ended",
            made: |_| shell_for_a_second("sleep 1000"),
            told: Told::Refused("timed_out", &["1 s"]),
            then: nothing_more,
        },
        Attack {
            name: "a_command_that_ignores_the_request_to_end_is_ended",
            made: |_| shell_for_a_second("trap '' TERM INT HUP; while :; do sleep 1000; done"),
            told: Told::Refused("timed_out", &[]),
            then: nothing_more,
        },
        Attack {
            name: "a_child_in_a_session_of_its_own_is_ended",
            made: |_| shell_for_a_second("setsid sh -c 'setsid sleep 1000 & setsid sleep 1000' & sleep 1000"),
            told: Told::Refused("timed_out", &[]),
            then: nothing_more,
        },
        Attack {
            name: "a_child_whose_parents_have_ended_is_ended",
            made: |_| {
                shell(
                    "(setsid sh -c 'sleep 1000 >/dev/null 2>&1 &' &) ; (setsid sleep 1000 >/dev/null 2>&1 &) ; echo started",
                )
            },
            told: Told::Bounded(&["started"]),
            then: nothing_more,
        },
        Attack {
            name: "a_daemon_that_ignores_the_request_to_end_is_ended",
            made: |_| {
                perl(
                    "$SIG{TERM} = 'IGNORE'; exit 0 if fork; use POSIX; POSIX::setsid(); exit 0 if fork; chdir '/'; close STDOUT; close STDERR; sleep 1000",
                )
            },
            told: Told::Either,
            then: nothing_more,
        },
        Attack {
            name: "a_child_in_a_process_group_of_its_own_is_ended",
            made: |_| {
                shell(
                    "set -m; (sleep 1000 >/dev/null 2>&1 &) ; perl -e 'setpgrp(0, 0); exit 0 if fork; close STDOUT; close STDERR; sleep 1000'; echo started",
                )
            },
            told: Told::Bounded(&["started"]),
            then: nothing_more,
        },
        Attack {
            name: "a_child_that_keeps_the_output_open_is_not_waited_for",
            made: |_| shell("sleep 1000 & echo started"),
            told: Told::Bounded(&["started"]),
            then: nothing_more,
        },
        Attack {
            name: "a_child_in_a_session_of_its_own_that_keeps_the_output_open_is_not_waited_for",
            made: |_| shell("setsid sleep 1000 & echo started"),
            told: Told::Bounded(&["started"]),
            then: nothing_more,
        },
        Attack {
            name: "a_child_of_an_unconfined_command_is_ended_too",
            made: |scene| {
                scene.settings("[sandbox]\ncommands = \"unconfined\"");
                shell("setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' >/dev/null 2>&1 & echo started")
            },
            told: Told::Bounded(&["started"]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn what_a_command_uses_is_bounded() {
    check([
        Attack {
            name: "a_flood_of_output_is_cut",
            made: |_| shell("yes flood | head -c 300000000"),
            told: Told::Bounded(&["flood"]),
            then: short,
        },
        Attack {
            name: "a_flood_of_errors_is_cut",
            made: |_| shell("yes flood | head -c 300000000 >&2"),
            told: Told::Bounded(&["flood"]),
            then: short,
        },
        Attack {
            name: "a_flood_without_an_end_is_ended",
            made: |_| shell_for_a_second("yes flood"),
            told: Told::Refused("timed_out", &["flood"]),
            then: short,
        },
        Attack {
            name: "a_flood_without_a_line_is_cut",
            made: |_| shell("head -c 300000000 /dev/zero"),
            told: Told::Bounded(&[]),
            then: short,
        },
        Attack {
            name: "more_memory_than_is_allowed_is_refused",
            made: |scene| {
                scene.settings("[sandbox]\nmax_memory = \"256 MiB\"");
                perl("my $much = 'x' x (1 << 30); print length $much")
            },
            told: Told::Either,
            then: |_, seen| assert_eq!(seen.told["success"], false, "{}", seen.told),
        },
        Attack {
            name: "a_larger_file_than_is_allowed_is_refused",
            made: |scene| {
                scene.settings("[sandbox]\nmax_file = \"1 MiB\"");
                shell("head -c 10000000 /dev/zero > big")
            },
            told: Told::Either,
            then: |scene, seen| {
                assert_eq!(seen.told["success"], false, "{}", seen.told);
                assert!(scene.work("big").metadata().unwrap().len() <= 1024 * 1024);
            },
        },
    ]);
}

#[test]
fn what_is_denied_stays_denied_however_it_is_written() {
    check([
        Attack {
            name: "a_denied_program_does_not_run",
            made: |scene| {
                deny_rm(scene);
                program(["rm", "keep.txt"])
            },
            told: Told::NotRun("denied_by_rule", &["rm *"]),
            then: kept,
        },
        Attack {
            name: "a_denied_program_does_not_run_by_a_shell_line",
            made: |scene| {
                deny_rm(scene);
                shell("rm keep.txt")
            },
            told: Told::NotRun("denied_by_rule", &["rm *"]),
            then: kept,
        },
        Attack {
            name: "a_denied_program_does_not_run_after_another",
            made: |scene| {
                deny_rm(scene);
                shell("cd . && rm keep.txt")
            },
            told: Told::NotRun("denied_by_rule", &["rm *"]),
            then: kept,
        },
        Attack {
            name: "a_denied_program_does_not_run_in_a_shell_of_its_own",
            made: |scene| {
                deny_rm(scene);
                program(["sh", "-c", "true; rm keep.txt"])
            },
            told: Told::NotRun("denied_by_rule", &["rm *"]),
            then: kept,
        },
        Attack {
            name: "a_denied_program_does_not_run_behind_quotes",
            made: |scene| {
                deny_rm(scene);
                shell("'r'm keep.txt")
            },
            told: Told::NotRun("denied_by_rule", &["rm *"]),
            then: kept,
        },
    ]);
}

#[test]
fn a_system_without_landlock_runs_no_command_unless_the_user_says_so() {
    check([
        Attack {
            name: "without_landlock_nothing_runs",
            made: |scene| {
                without_landlock(scene);
                shell("touch made")
            },
            told: Told::Refused("no_sandbox", &["unconfined"]),
            then: |scene, _| assert!(!scene.is_there("made")),
        },
        Attack {
            name: "without_landlock_an_unconfined_command_runs",
            made: |scene| {
                without_landlock(scene);
                scene.settings("[sandbox]\ncommands = \"unconfined\"");
                shell("touch made")
            },
            told: Told::Bounded(&[]),
            then: |scene, _| assert!(scene.is_there("made")),
        },
    ]);
}

/// Has the command started by a program for which the kernel says that it has no Landlock.
fn without_landlock(scene: &Scene) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks/without_landlock.py");
    scene.through(["python3", script].map(str::to_owned));
}

fn deny_rm(scene: &Scene) {
    scene.settings("[approvals]\ndeny = [\"execute_command(command: rm *)\"]");
    scene.file("keep.txt", "keep");
}

fn kept(scene: &Scene, _: &Observation) {
    assert!(scene.is_there("keep.txt"));
}

/// What the model reads of the output is much shorter than what was written.
fn short(_: &Scene, seen: &Observation) {
    let length = seen.told.to_string().len();
    assert!(length < 200_000, "{length} bytes");
}

fn nobody_came(scene: &Scene, _: &Observation) {
    assert_eq!(scene.noticed(), [] as [&str; 0]);
}
