//! Files: no path leads out of the workspace, nothing hangs, nothing floods, and what is git's or Dirigent's stays as it is.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dirigent::core::tool::StateChange;
use dirigent_tests::attack::{Attack, Call, Observation, Scene, Told, check, nothing_more};
use serde_json::{Value, json};

const LEADS_OUT: Told = Told::Refused("outside_workspace", &["leads out of the workspace"]);
const PROTECTED: Told = Told::Refused("protected", &["read-only to tools"]);

fn file(parameters: Value) -> Call {
    ("file_operations", parameters)
}

fn read(path: &str) -> Call {
    file(json!({"operation": "read", "path": path}))
}

fn write(path: &str) -> Call {
    file(json!({"operation": "write", "path": path, "content": "mine"}))
}

fn moved(from: &str, to: &str) -> Call {
    file(json!({"operation": "move", "from": from, "to": to}))
}

fn list(path: &str) -> Call {
    file(json!({"operation": "list", "path": path}))
}

fn delete(path: &str) -> Call {
    file(json!({"operation": "delete", "path": path}))
}

fn search(pattern: &str) -> Call {
    ("search", json!({"pattern": pattern}))
}

#[test]
fn no_path_that_is_read_leads_out_of_the_workspace() {
    check([
        Attack {
            name: "a_link_to_etc_passwd_is_not_read",
            made: |scene| {
                scene.link("/etc/passwd", "notes.txt");
                read("notes.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_to_the_environment_of_dirigent_is_not_read",
            made: |scene| {
                scene.link("/proc/self/environ", "notes.txt");
                read("notes.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_to_a_device_is_not_read",
            made: |scene| {
                scene.link("/dev/zero", "notes.txt");
                read("notes.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_file_below_a_link_to_a_folder_outside_is_not_read",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                read("docs/secret.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_file_below_a_relative_link_in_a_folder_is_not_read",
            made: |scene| {
                scene.link("../..", "src/up");
                read("src/up/outside/secret.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_to_a_link_outside_is_not_read",
            made: |scene| {
                scene.link(scene.outside("secret.txt"), "b");
                scene.link("b", "a");
                read("a")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "dot_dot_is_not_read",
            made: |_| read("../outside/secret.txt"),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "dot_dot_after_a_folder_is_not_read",
            made: |scene| {
                scene.file("src/lib.rs", "");
                read("src/../../outside/secret.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "an_absolute_path_is_not_read",
            made: |scene| read(&scene.outside_text("secret.txt")),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "an_absolute_path_that_begins_as_the_workspace_does_is_not_read",
            made: |scene| read(&format!("{}/../outside/secret.txt", scene.work("").display())),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_name_with_nul_is_not_read",
            made: |scene| {
                scene.file("notes.txt", "notes");
                read("notes.txt\0.md")
            },
            told: Told::Refused("bad_parameters", &["NUL"]),
            then: nothing_more,
        },
        Attack {
            name: "a_folder_outside_is_not_listed",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                list("docs")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "links_out_are_not_searched",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                scene.link(scene.outside("secret.txt"), "notes.txt");
                search("[c]anary")
            },
            told: Told::Bounded(&["\"matches\":[]"]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn no_path_that_is_changed_leads_out_of_the_workspace() {
    check([
        Attack {
            name: "a_file_below_a_link_out_is_not_made",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                write("docs/new.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_out_is_not_written_through",
            made: |scene| {
                scene.link(scene.outside("secret.txt"), "notes.txt");
                write("notes.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_out_that_leads_nowhere_yet_is_not_written_through",
            made: |scene| {
                scene.link(scene.outside("new.txt"), "notes.txt");
                write("notes.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_link_out_is_not_edited_through",
            made: |scene| {
                scene.link(scene.outside("secret.txt"), "notes.txt");
                file(json!({"operation": "edit", "path": "notes.txt", "old": "canary", "new": "bird"}))
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "dot_dot_is_not_written",
            made: |_| write("../outside/new.txt"),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "an_absolute_path_is_not_written",
            made: |scene| write(&scene.outside_text("new.txt")),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_file_is_not_moved_out",
            made: |scene| {
                scene.file("notes.txt", "notes");
                scene.link(scene.outside(""), "docs");
                moved("notes.txt", "docs/notes.txt")
            },
            told: LEADS_OUT,
            then: |scene, _| assert!(scene.is_there("notes.txt")),
        },
        Attack {
            name: "a_file_outside_is_not_moved_in",
            made: |_| moved("../outside/secret.txt", "notes.txt"),
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_file_outside_is_not_deleted",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                delete("docs/secret.txt")
            },
            told: LEADS_OUT,
            then: nothing_more,
        },
        Attack {
            name: "a_name_with_nul_is_not_written",
            made: |_| write("notes.txt\0.md"),
            told: Told::Refused("bad_parameters", &["NUL"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_outside_that_has_a_second_name_here_is_not_changed",
            made: |scene| {
                fs::write(scene.outside("shared.txt"), "theirs").unwrap();
                fs::hard_link(scene.outside("shared.txt"), scene.work("notes.txt")).unwrap();
                scene.before([read("notes.txt")]);
                write("notes.txt")
            },
            told: Told::Bounded(&[]),
            then: |scene, _| {
                assert_eq!(fs::read(scene.work("notes.txt")).unwrap(), b"mine");
                assert_eq!(fs::read(scene.outside("shared.txt")).unwrap(), b"theirs");
            },
        },
        Attack {
            name: "a_folder_that_becomes_a_link_out_while_it_is_written_leads_nowhere",
            made: |scene| {
                scene.file("docs/notes.txt", "notes");
                swap(scene);
                scene.before((0..40).map(|number| {
                    file(json!({"operation": "write", "path": format!("docs/{number}.txt"), "content": "mine"}))
                }));
                write("docs/last.txt")
            },
            told: Told::Either,
            then: nothing_more,
        },
        Attack {
            name: "an_agent_that_may_only_look_writes_nothing",
            made: |scene| {
                scene.access("read-only");
                write("notes.txt")
            },
            told: Told::Refused("access_denied", &["may not change files"]),
            then: |scene, _| assert!(!scene.is_there("notes.txt")),
        },
    ]);
}

#[test]
fn what_is_no_plain_file_or_too_much_is_refused_or_bounded() {
    check([
        Attack {
            name: "a_pipe_is_not_waited_for",
            made: |scene| {
                pipe(scene, "notes.txt");
                read("notes.txt")
            },
            told: Told::Refused("not_a_file", &["pipe"]),
            then: nothing_more,
        },
        Attack {
            name: "a_pipe_is_not_written",
            made: |scene| {
                pipe(scene, "notes.txt");
                write("notes.txt")
            },
            told: Told::Refused("not_a_file", &["pipe"]),
            then: nothing_more,
        },
        Attack {
            name: "a_pipe_is_not_searched",
            made: |scene| {
                pipe(scene, "notes.txt");
                scene.file("other.txt", "a needle");
                search("needle")
            },
            told: Told::Bounded(&["other.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_socket_is_not_read",
            made: |scene| {
                scene.keep(UnixListener::bind(scene.work("notes.txt")).unwrap());
                read("notes.txt")
            },
            told: Told::Refused("not_a_file", &["socket"]),
            then: nothing_more,
        },
        Attack {
            name: "a_link_to_itself_is_not_followed_for_ever",
            made: |scene| {
                scene.link("notes.txt", "notes.txt");
                read("notes.txt")
            },
            told: Told::Refused("not_a_file", &["notes.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_folder_that_is_in_itself_is_not_listed_for_ever",
            made: |scene| {
                scene.link(".", "src/again");
                file(json!({"operation": "list", "path": ".", "depth": 1000}))
            },
            told: Told::Bounded(&["src/again"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_of_a_terabyte_of_nothing_is_not_read",
            made: |scene| {
                sparse(scene, "notes.txt");
                read("notes.txt")
            },
            told: Told::Refused("too_big", &["notes.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_of_a_terabyte_of_nothing_is_not_searched_through",
            made: |scene| {
                sparse(scene, "notes.txt");
                scene.file("other.txt", "a needle");
                search("needle")
            },
            told: Told::Bounded(&["other.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_file_of_a_terabyte_of_nothing_is_not_kept_for_undo",
            made: |scene| {
                sparse(scene, "notes.txt");
                delete("notes.txt")
            },
            told: Told::Bounded(&["notes.txt"]),
            // It goes, and that it cannot come back is in the journal: no version of it was kept.
            then: |scene, seen| {
                assert!(!scene.is_there("notes.txt"));
                let result = seen.journaled.as_ref().unwrap();
                let gone = StateChange::FileDeleted {
                    path: "notes.txt".to_owned(),
                    diff: None,
                    before: None,
                };
                assert_eq!(result.changes, [gone]);
            },
        },
        Attack {
            name: "a_line_of_a_hundred_megabytes_is_not_read",
            made: |scene| {
                scene.file("notes.txt", "needle ".repeat(100 * 1024 * 1024 / 7));
                read("notes.txt")
            },
            told: Told::Refused("too_big", &["notes.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_line_of_a_hundred_megabytes_is_not_shown_by_a_search",
            made: |scene| {
                scene.file("notes.txt", "needle ".repeat(100 * 1024 * 1024 / 7));
                search("needle")
            },
            told: Told::Bounded(&[]),
            then: |_, seen| assert!(seen.told.to_string().len() < 10_000, "{}", seen.told),
        },
        Attack {
            name: "a_line_of_ten_megabytes_is_read_in_parts",
            made: |scene| {
                scene.file("notes.txt", "needle ".repeat(10 * 1024 * 1024 / 7));
                read("notes.txt")
            },
            told: Told::Either,
            then: |_, seen| assert!(seen.told.to_string().len() < 100_000),
        },
        Attack {
            name: "a_name_that_is_not_utf_8_is_listed",
            made: |scene| {
                scene.file("notes.txt", "notes");
                fs::write(
                    scene.work("").join(std::ffi::OsStr::from_bytes(b"n\xff\xfe.txt")),
                    "a needle",
                )
                .unwrap();
                list(".")
            },
            told: Told::Bounded(&["notes.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "a_name_that_is_not_utf_8_is_searched",
            made: |scene| {
                fs::write(
                    scene.work("").join(std::ffi::OsStr::from_bytes(b"n\xff\xfe.txt")),
                    "a needle",
                )
                .unwrap();
                scene.file("other.txt", "a needle");
                search("needle")
            },
            told: Told::Bounded(&["other.txt"]),
            then: nothing_more,
        },
        Attack {
            name: "content_that_is_no_text_is_not_read",
            made: |scene| {
                scene.file("notes.txt", [0xff, 0x00, 0xfe, 0x01]);
                read("notes.txt")
            },
            told: Told::Refused("binary", &["binary"]),
            then: nothing_more,
        },
        Attack {
            name: "content_that_is_not_utf_8_comes_back_byte_for_byte",
            made: |scene| {
                scene.file("notes.txt", b"caf\xe9 and \xff\n");
                scene.before([read("notes.txt")]);
                file(json!({"operation": "edit", "path": "notes.txt", "old": "and", "new": "or"}))
            },
            told: Told::Bounded(&[]),
            then: |scene, _| assert_eq!(fs::read(scene.work("notes.txt")).unwrap(), b"caf\xe9 or \xff\n"),
        },
        Attack {
            name: "a_name_of_ten_thousand_letters_is_refused",
            made: |_| write(&"a".repeat(10_000)),
            told: Told::Either,
            then: |_, seen| assert_eq!(seen.told["success"], false),
        },
        Attack {
            name: "a_name_of_ten_thousand_folders_is_refused",
            made: |_| write(&"a/".repeat(10_000)),
            told: Told::Either,
            then: |_, seen| assert_eq!(seen.told["success"], false),
        },
    ]);
}

#[test]
fn what_is_gits_or_dirigents_is_read_only_to_tools() {
    check([
        Attack {
            name: "a_hook_is_not_made",
            made: |scene| {
                repository(scene);
                write(".git/hooks/pre-commit")
            },
            told: PROTECTED,
            then: unchanged,
        },
        Attack {
            name: "gits_configuration_is_not_written",
            made: |scene| {
                repository(scene);
                scene.before([read(".git/config")]);
                write(".git/config")
            },
            told: PROTECTED,
            then: unchanged,
        },
        Attack {
            name: "gits_configuration_is_not_deleted",
            made: |scene| {
                repository(scene);
                delete(".git/config")
            },
            told: PROTECTED,
            then: unchanged,
        },
        Attack {
            name: "gits_folder_is_not_moved_away",
            made: |scene| {
                repository(scene);
                moved(".git", "old")
            },
            told: PROTECTED,
            then: unchanged,
        },
        Attack {
            name: "gits_configuration_is_not_written_by_another_name",
            made: |scene| {
                repository(scene);
                scene.link(".git", "docs");
                scene.before([read("docs/config")]);
                write("docs/config")
            },
            told: PROTECTED,
            then: unchanged,
        },
        Attack {
            name: "a_link_to_a_hook_is_not_written_through",
            made: |scene| {
                repository(scene);
                scene.link(".git/hooks/pre-commit", "notes.txt");
                write("notes.txt")
            },
            told: Told::Refused("not_a_file", &["link to nothing"]),
            then: unchanged,
        },
        Attack {
            name: "a_repository_in_a_folder_is_not_written",
            made: |scene| {
                scene.file("lib/.git/config", "theirs");
                scene.before([read("lib/.git/config")]);
                write("lib/.git/config")
            },
            told: PROTECTED,
            then: |scene, _| assert_eq!(fs::read(scene.work("lib/.git/config")).unwrap(), b"theirs"),
        },
        Attack {
            name: "gits_folder_is_not_made_where_there_is_none",
            made: |_| write(".git/config"),
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".git")),
        },
        Attack {
            name: "no_folder_becomes_gits_by_a_new_name",
            made: |scene| {
                scene.file("docs/config", "[core]\nfsmonitor = touch pwned\n");
                moved("docs", ".git")
            },
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".git")),
        },
        Attack {
            name: "no_file_becomes_gits_by_a_new_name",
            made: |scene| {
                scene.file("notes.txt", "gitdir: docs");
                moved("notes.txt", ".git")
            },
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".git")),
        },
        Attack {
            name: "an_agent_of_the_project_is_not_made",
            made: |_| write(".dirigent/agents/helper.md"),
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".dirigent")),
        },
        Attack {
            name: "an_agent_of_the_project_is_not_written",
            made: |scene| {
                scene.file(".dirigent/agents/helper.md", "theirs");
                scene.before([read(".dirigent/agents/helper.md")]);
                write(".dirigent/agents/helper.md")
            },
            told: PROTECTED,
            then: |scene, _| {
                assert_eq!(
                    fs::read(scene.work(".dirigent/agents/helper.md")).unwrap(),
                    b"theirs"
                )
            },
        },
        Attack {
            name: "no_folder_becomes_dirigents_by_a_new_name",
            made: |scene| {
                scene.file("docs/agents/helper.md", "mine");
                moved("docs", ".dirigent")
            },
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".dirigent")),
        },
        Attack {
            name: "an_agent_in_the_other_form_is_not_made",
            made: |_| write(".claude/agents/helper.md"),
            told: PROTECTED,
            then: |scene, _| assert!(!scene.is_there(".claude")),
        },
        Attack {
            name: "dirigents_folder_is_not_deleted",
            made: |scene| {
                fs::create_dir(scene.work(".dirigent")).unwrap();
                delete(".dirigent")
            },
            told: PROTECTED,
            then: |scene, _| assert!(scene.is_there(".dirigent")),
        },
    ]);
}

fn pipe(scene: &Scene, path: &str) {
    let made = std::process::Command::new("mkfifo")
        .arg(scene.work(path))
        .status();
    assert!(made.unwrap().success());
}

/// A file of a terabyte that has no block on the disk.
fn sparse(scene: &Scene, path: &str) {
    fs::File::create(scene.work(path))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
}

const GIT_CONFIG: &str = "[core]\nrepositoryformatversion = 0\n";

fn repository(scene: &Scene) {
    scene.file(".git/config", GIT_CONFIG);
    scene.file(".git/HEAD", "ref: refs/heads/main\n");
    fs::create_dir(scene.work(".git/hooks")).unwrap();
}

fn unchanged(scene: &Scene, _: &Observation) {
    assert_eq!(fs::read_to_string(scene.work(".git/config")).unwrap(), GIT_CONFIG);
    assert!(!scene.is_there(".git/hooks/pre-commit"));
}

/// Puts a link to the folder outside in the place of `docs` and takes it away again, over and over.
struct Swapper {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A link of another name takes the place of the folder, and the folder that of the link, over and over.
fn swap(scene: &Scene) {
    let [docs, link]: [PathBuf; 2] = ["docs", "link"].map(|name| scene.work(name));
    symlink(scene.outside(""), &link).unwrap();
    scene.meanwhile(move || Swapper::start(docs, link));
}

impl Swapper {
    fn start(docs: PathBuf, link: PathBuf) -> Swapper {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = over.clone();
            move || {
                let exchange = |from: &PathBuf, to: &PathBuf| {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
                };
                while !over.load(Ordering::Relaxed) {
                    exchange(&docs, &link).unwrap();
                    exchange(&link, &docs).unwrap();
                }
            }
        });
        Swapper {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
