//! `dirigent diff` and `dirigent undo`: what they print, and that they refuse what is not the run's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use dirigent_tests::cli::{Ended, Place};
use dirigent_tests::pty::Terminal;
use serde_json::json;

use super::check;

/// Content and permissions of every file.
fn tree(place: &Place) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mode = |path: &str| {
        let metadata = fs::metadata(place.work().join(path)).unwrap();
        metadata.permissions().mode()
    };
    let files = place.files().into_iter();
    files
        .map(|(path, content)| (path.clone(), (content, mode(&path))))
        .collect()
}

fn shop() -> Place {
    let place = Place::new();
    place.write(
        "price.js",
        "export function parsePrice(text) { return Number(text); }\r\n",
    );
    place.write(
        "cart.js",
        "import { parsePrice } from './price.js';\nexport const sum = parsePrice('1');",
    );
    place.write("notes.txt", "parsePrice reads prices.\n");
    let script = place.work().join("price.js");
    fs::set_permissions(script, fs::Permissions::from_mode(0o750)).unwrap();
    place
}

fn rename(place: &Place) -> Ended {
    place
        .run("rename the function parsePrice to readPrice")
        .with_code(0)
}

#[test]
fn a_rename_is_undone_byte_for_byte() {
    let place = shop();
    let before = tree(&place);
    let ended = rename(&place);
    let hint = ended.stdout.lines().last().unwrap();
    assert!(hint.starts_with("See the changes with `dirigent diff "), "{hint}");
    assert!(hint.contains("undo them with `dirigent undo "), "{hint}");
    assert_ne!(tree(&place), before);

    let shown = place.dirigent(["undo", "last", "--dry-run"]).with_code(0);
    check(
        &place,
        &shown.stdout,
        "To undo the changes of run RUN in PLACE/work:\n  restore   cart.js\n  restore   price.js\n",
    );
    assert_ne!(tree(&place), before);
    let unasked = place.dirigent(["undo", "last"]).with_code(2);
    assert_eq!(unasked.stderr, "nothing was undone: confirm with --yes\n");
    assert_ne!(tree(&place), before);

    let undone = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert!(
        undone.stdout.ends_with("Undid the changes to 2 files.\n"),
        "{undone}"
    );
    assert_eq!(tree(&place), before);
    let again = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    check(
        &place,
        &again.stdout,
        "Nothing to undo: run RUN left no files changed.\n",
    );
}

#[test]
fn with_json_an_undo_asks_nothing_and_points_to_yes() {
    let place = shop();
    let _ = rename(&place);
    let left = tree(&place);

    let shown = Terminal::start(place.command(["undo", "last", "--json"])).end_with(2);

    assert!(shown.contains("confirm with --yes"), "{shown}");
    assert_eq!(tree(&place), left);
}

#[test]
fn a_file_that_has_changed_since_the_run_is_never_overwritten() {
    let place = shop();
    let before = tree(&place);
    let _ = rename(&place);
    let mine = format!("{}// mine\n", place.read("price.js"));
    place.write("price.js", &mine);
    let left = tree(&place);

    let refused = place.dirigent(["undo", "last", "--yes"]).with_code(2);
    check(
        &place,
        &refused.stdout,
        "To undo the changes of run RUN in PLACE/work:\n  restore   cart.js\n  restore   price.js\n\
         Cannot be undone:\n  price.js has changed since the run\n\
         So nothing is undone. See the changes of the run with `dirigent diff RUN`; undo the other files with `dirigent undo RUN --skip-changed`.\n",
    );
    assert_eq!(tree(&place), left);

    let rest = place
        .dirigent(["undo", "last", "--skip-changed", "--yes", "--json"])
        .with_code(0);
    let told = &rest.json_lines()[0];
    assert_eq!(
        told["steps"],
        json!([{"action": "restore", "path": "cart.js", "changed_by_others": false}])
    );
    assert_eq!(
        told["refused"],
        json!([{"path": "price.js", "reason": "changed"}])
    );
    assert_eq!(told["undone"]["done"], told["steps"]);
    assert_eq!(tree(&place)["cart.js"], before["cart.js"]);
    assert_eq!(place.read("price.js"), mine);
}

#[test]
fn git_can_revert_the_diff_of_a_run() {
    let place = shop();
    let before = place.files();
    let _ = rename(&place);
    let shown = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let patch = place.folder().join("run.patch");
    fs::write(&patch, &shown).unwrap();

    let mut git = Command::new("git");
    place.settle(&mut git);
    let applied = git
        .args(["apply", "-R"])
        .arg(&patch)
        .current_dir(place.work())
        .output()
        .unwrap();

    assert!(applied.status.success(), "{applied:?}\n{shown}");
    // Git records no permissions except the executable bit.
    assert_eq!(place.files(), before);
    // The workspace no longer has the run's content, so the diff is made from what the tools reported.
    let told = place.dirigent(["diff", "last"]).with_code(0).stdout;
    assert!(
        told.starts_with("# cart.js: its content before or after these changes is unknown"),
        "{told}"
    );
    assert!(told.contains("\n+export const sum = readPrice('1');"), "{told}");
}

#[test]
fn a_diff_is_the_same_before_and_after_the_undo() {
    let place = shop();
    let _ = rename(&place);
    let shown = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let _ = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert_eq!(place.dirigent(["diff", "last"]).with_code(0).stdout, shown);
    assert_eq!(
        place
            .dirigent(["diff", "last", "--json"])
            .with_code(0)
            .json_lines()[0]["diff"],
        shown
    );
}

#[test]
fn diff_and_undo_refuse_to_begin_after_an_unknown_entry() {
    let place = shop();
    let _ = rename(&place);
    let changed = place.files();
    for command in ["diff", "undo"] {
        let refused = place.dirigent([command, "last", "--after", "9999"]).with_code(2);
        assert!(refused.stderr.contains("has no entry 9999"), "{refused}");
    }
    assert_eq!(place.files(), changed);
}

#[test]
fn an_undo_does_not_follow_links_out_of_the_workspace() {
    let place = shop();
    let before = place.read("price.js");
    let _ = rename(&place);
    // A folder of the workspace was replaced by a link that leads out of it.
    let outside = place.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    let work = place.work();
    fs::rename(work.join("price.js"), outside.join("price.js")).unwrap();
    std::os::unix::fs::symlink(outside.join("price.js"), work.join("price.js")).unwrap();
    let renamed = fs::read_to_string(outside.join("price.js")).unwrap();

    let refused = place.dirigent(["undo", "last", "--yes"]).with_code(2);

    assert!(
        refused.stdout.contains("price.js has changed since the run"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(outside.join("price.js")).unwrap(), renamed);
    assert_ne!(renamed, before);
}
