//! The files of a database: which paths are opened, and what its journals can do to other files.

use dirigent_tools::execute_sql;
use rusqlite::Connection as Sqlite;
use serde_json::json;

use super::{call, connections, failure, with_database};
use crate::folder::{Folder, output};

#[tokio::test]
async fn a_database_with_a_write_ahead_log_can_be_read() {
    let folder = with_database("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    let result = call(&folder, "look", "SELECT a FROM t", json!([])).await;
    assert_eq!(output(result)["rows"], json!([[1]]));
    // Also while another connection writes.
    let other = Sqlite::open(folder.path("app.db")).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)")
        .unwrap();
    let result = call(&folder, "look", "SELECT a FROM t", json!([])).await;
    assert_eq!(output(result)["rows"], json!([[1]]));
}

#[tokio::test]
async fn a_path_out_of_the_workspace_is_not_opened() {
    let outside = Folder::with(&[]);
    Sqlite::open(outside.path("secret.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    let folder = Folder::with(&[("text.txt", b"not a database"), (".git/x.db", b""), ("d/e", b"")]);
    std::os::unix::fs::symlink(outside.path("secret.db"), folder.path("link.db")).unwrap();
    std::os::unix::fs::symlink(outside.path(""), folder.path("folder")).unwrap();
    std::fs::hard_link(outside.path("secret.db"), folder.path("hard.db")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(folder.path("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    let absolute = outside.path("secret.db");
    let cases = [
        ("link.db", "outside_workspace"),
        ("folder/secret.db", "outside_workspace"),
        ("../secret.db", "outside_workspace"),
        (absolute.to_str().unwrap(), "outside_workspace"),
        ("hard.db", "refused"),
        (":memory:", "refused"),
        ("", "refused"),
        ("file:app.db?mode=memory", "refused"),
        (".git/x.db", "protected"),
        (".GIT/new.db", "protected"),
        (".claude/new.db", "protected"),
        ("dirigent.toml/new.db", "protected"),
        ("none/new.db", "not_found"),
        ("d", "not_a_file"),
        ("pipe", "not_a_file"),
        ("text.txt", "database"),
    ];
    for (path, expected) in cases {
        for connection in ["app", "look"] {
            let call = json!({"connection": connection, "sql": "SELECT * FROM t"});
            let (code, error) = failure(folder.call(execute_sql(&connections(path)), call).await);
            assert_eq!(code, expected, "{path}: {error}");
        }
    }
}

#[tokio::test]
async fn links_in_place_of_journal_files_change_nothing_outside_the_workspace() {
    let outside = Folder::with(&[("victim", b"precious")]);
    let folder = with_database("CREATE TABLE t (a)");
    for name in ["app.db-journal", "app.db-wal"] {
        std::os::unix::fs::symlink(outside.path("victim"), folder.path(name)).unwrap();
        // Whether or not the database opens, the link's target stays unchanged.
        let _ = call(&folder, "app", "INSERT INTO t VALUES (1)", json!([])).await;
        assert_eq!(
            std::fs::read(outside.path("victim")).unwrap(),
            b"precious",
            "{name}"
        );
        std::fs::remove_file(folder.path(name)).unwrap();
    }
}

/// A journal that SQLite would roll back, with the path of a file that SQLite would then delete.
fn hot_journal(names: &std::path::Path) -> Vec<u8> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let number = |number: u32| number.to_be_bytes();
    let name = names.as_os_str().as_encoded_bytes();
    let mut journal = MAGIC.to_vec();
    // The number of pages (none), a nonce, the pages of the database, the size of a sector and of a page.
    for field in [0, 7, 2, 512, 4096] {
        journal.extend(number(field));
    }
    journal.resize(512, 0);
    journal.extend(number(0x4000_0000 / 4096 + 1));
    journal.extend(name);
    journal.extend(number(u32::try_from(name.len()).unwrap()));
    journal.extend(number(name.iter().map(|byte| u32::from(*byte)).sum()));
    journal.extend(MAGIC);
    journal
}

#[tokio::test]
async fn a_rollback_journal_that_names_another_file_deletes_nothing() {
    let folder = with_database("CREATE TABLE t (a)");
    std::fs::create_dir(folder.path(".git")).unwrap();
    let victim = folder.path(".git/config");
    std::fs::write(&victim, "[core]\n").unwrap();
    let journal = hot_journal(&std::fs::canonicalize(&victim).unwrap());
    for connection in ["look", "app"] {
        std::fs::write(folder.path("app.db-journal"), &journal).unwrap();
        let (code, error) = failure(call(&folder, connection, "SELECT * FROM t", json!([])).await);
        assert_eq!(code, "refused", "{error}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "[core]\n");
    }
    // The journal is valid: SQLite itself deletes the file.
    Sqlite::open(folder.path("app.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM t", [], |_| Ok(()))
        .unwrap();
    assert!(!victim.exists());
}

#[tokio::test]
async fn a_rollback_journal_that_names_no_other_file_is_rolled_back() {
    let folder = with_database("CREATE TABLE t (a)");
    let mut journal = hot_journal("".as_ref());
    journal.truncate(512);
    std::fs::write(folder.path("app.db-journal"), journal).unwrap();
    output(call(&folder, "look", "SELECT * FROM t", json!([])).await);
    assert!(!folder.path("app.db-journal").exists());
}
