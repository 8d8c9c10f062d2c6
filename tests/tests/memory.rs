//! INTENT-1: facts that the user asked Dirigent to remember, through the library and on the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::memory::{Added, Fact, FactId, FactScope, Memory, MemoryError, Secret, Visible};
use dirigent::{Dirigent, DirigentError};
use dirigent_tests::cli::Place;
use dirigent_tests::stage::block_on;
use serde_json::{Value, json};

/// The memory of a place's journal.
async fn memory(place: &Place) -> Memory {
    let dirigent = Dirigent::builder().journal(place.db()).build().await.unwrap();
    dirigent.memory()
}

async fn add(memory: &Memory, text: &str) -> Fact {
    memory.add(FactScope::User, text).await.unwrap().fact().clone()
}

async fn refused(memory: &Memory, text: &str) -> MemoryError {
    match memory.add(FactScope::User, text).await.unwrap_err() {
        DirigentError::Memory(error) => error,
        other => panic!("{other}"),
    }
}

fn texts(facts: Vec<Fact>) -> Vec<String> {
    facts.into_iter().map(|fact| fact.text).collect()
}

#[test]
fn intent_1_facts_are_kept_once_and_cleaned() {
    let place = Place::new();
    block_on(async {
        let memory = memory(&place).await;

        let kept = memory
            .add(FactScope::User, "  I like\n\ttea\u{202e}\u{7}.  ")
            .await
            .unwrap();
        let again = memory.add(FactScope::User, "i LIKE tea").await.unwrap();
        let in_folder = memory
            .add(FactScope::Workspace(place.work()), "I like tea!")
            .await
            .unwrap();

        let fact = kept.fact().clone();
        assert_eq!(fact.text, "I like tea.");
        assert_eq!(kept, Added::Kept(fact.clone()));
        assert_eq!(
            [again, in_folder],
            [Added::Known(fact.clone()), Added::Known(fact.clone())]
        );
        assert_eq!(memory.show(fact.id).await.unwrap(), fact);
        assert_eq!(memory.delete(fact.id).await.unwrap(), fact);
        let gone = memory.delete(fact.id).await.unwrap_err();
        assert!(
            matches!(gone, DirigentError::Memory(MemoryError::NoSuchFact { id }) if id == fact.id),
            "{gone}"
        );
    });
}

#[test]
fn intent_1_secrets_long_and_empty_facts_are_refused() {
    let place = Place::new();
    block_on(async {
        let memory = memory(&place).await;

        assert_eq!(refused(&memory, " \n\u{200b}").await, MemoryError::Empty);
        assert_eq!(
            refused(&memory, &"é".repeat(1_001)).await,
            MemoryError::TooLong { bytes: 2_002 }
        );
        for (text, secret) in [
            ("my password is hunter2", Secret::Password),
            ("我的密码是 hunter2", Secret::Password),
            ("my pass\u{200b}word is hunter2", Secret::Password),
            ("the key is sk-proj-abcdefghijklmnop1234", Secret::Token),
            ("my card is 4111 1111 1111 1111", Secret::CardNumber),
        ] {
            assert_eq!(
                refused(&memory, text).await,
                MemoryError::Secret { secret },
                "{text}"
            );
        }
        assert!(memory.list(Visible::All).await.unwrap().is_empty());
        add(&memory, &"é".repeat(1_000)).await;
    });
}

#[test]
fn intent_1_a_folder_sees_its_own_facts_and_the_users() {
    let place = Place::new();
    block_on(async {
        let memory = memory(&place).await;
        let (work, home) = (place.work(), place.folder().join("home"));
        add(&memory, "I like tea").await;
        memory
            .add(FactScope::Workspace(work.clone()), "tests need tea")
            .await
            .unwrap();
        memory
            .add(FactScope::Workspace(home.clone()), "builds need tea")
            .await
            .unwrap();

        let seen = [
            Visible::User,
            Visible::Workspace(work.join("../work")),
            Visible::Workspace(home),
            Visible::All,
        ];
        let expected: [&[&str]; 4] = [
            &["I like tea"],
            &["tests need tea", "I like tea"],
            &["builds need tea", "I like tea"],
            &["builds need tea", "tests need tea", "I like tea"],
        ];
        for (visible, expected) in seen.into_iter().zip(expected) {
            assert_eq!(
                texts(memory.list(visible.clone()).await.unwrap()),
                expected,
                "{visible:?}"
            );
            let mut relevant = texts(memory.relevant(visible.clone(), "a cup of tea").await.unwrap());
            let mut expected = expected.to_vec();
            relevant.sort();
            expected.sort_unstable();
            assert_eq!(relevant, expected, "{visible:?}");
        }
        let missing = memory
            .add(FactScope::Workspace(place.folder().join("nowhere")), "a fact")
            .await;
        assert!(
            matches!(missing, Err(DirigentError::Workspace { .. })),
            "{missing:?}"
        );
    });
}

#[test]
fn intent_1_facts_are_found_in_english_and_chinese() {
    let place = Place::new();
    block_on(async {
        let memory = memory(&place).await;
        for text in [
            "My birthday is 5 May",
            "My dog is called Rex",
            "我的生日是五月五日",
            "我喜欢喝茶",
            "狗叫旺财",
        ] {
            add(&memory, text).await;
        }
        let cases: [(&str, &[&str]); 9] = [
            ("birthdays", &["My birthday is 5 May"]),
            ("the dog", &["My dog is called Rex"]),
            ("生日", &["我的生日是五月五日"]),
            ("茶", &["我喜欢喝茶"]),
            ("我的生日是哪天", &["我的生日是五月五日"]),
            ("狗", &["狗叫旺财"]),
            ("cat", &[]),
            ("猫", &[]),
            ("?!", &[]),
        ];
        for (text, expected) in cases {
            let found = texts(memory.search(Visible::User, text).await.unwrap());
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(memory.search(Visible::User, " ").await.unwrap().len(), 5);
    });
}

#[test]
fn intent_1_relevant_facts_are_few_and_share_significant_words() {
    let place = Place::new();
    block_on(async {
        let memory = memory(&place).await;
        add(&memory, "I like the sea and you").await;
        add(&memory, "我喜欢喝茶").await;
        add(&memory, "the staging server is blue").await;

        let relevant = async |text: &str| texts(memory.relevant(Visible::User, text).await.unwrap());
        assert!(relevant("what is the time, and do you like it?").await.is_empty());
        assert!(relevant("我的问题是什么").await.is_empty());
        assert!(relevant("").await.is_empty());
        assert_eq!(
            relevant("Deploy to the staging servers, please.").await,
            ["the staging server is blue"]
        );
        assert_eq!(relevant("你喝茶吗").await, ["我喜欢喝茶"]);

        for number in 0..20 {
            add(&memory, &format!("printer number {number} is slow")).await;
        }
        assert_eq!(relevant("which printer?").await.len(), 8);
        for number in 0..4 {
            add(&memory, &format!("scanner {number} {}", "x".repeat(900))).await;
        }
        let found = relevant("scanner").await;
        assert_eq!(found.len(), 2, "{found:?}");
    });
}

#[test]
fn host_3_the_command_line_keeps_lists_finds_and_deletes_facts() {
    let place = Place::new();

    let kept = place
        .dirigent(["memory", "add", "My dog is called Rex"])
        .with_code(0);
    assert_eq!(kept.stdout, "1  My dog is called Rex\n");
    assert_eq!(kept.stderr, "saved; to undo: `dirigent memory delete 1`\n");
    let again = place
        .dirigent(["memory", "add", "my dog is called rex."])
        .with_code(0);
    assert_eq!(again.stdout, "1  My dog is called Rex\n");
    assert_eq!(
        again.stderr,
        "this fact is already saved, so nothing was changed\n"
    );

    let folder = place.work().canonicalize().unwrap().display().to_string();
    let kept = place
        .dirigent(["memory", "add", "--workspace=work", "测试服务器叫 blue", "--json"])
        .with_code(0);
    let [kept] = &kept.json_lines()[..] else {
        panic!("{kept}")
    };
    let mut expected = json!({"id": 2, "scope": "workspace", "workspace": folder, "text": "测试服务器叫 blue", "added": true});
    expected["at"] = kept["at"].clone();
    assert_eq!(*kept, expected);

    let ids = |arguments: &[&str]| {
        let listed = place
            .dirigent(["memory"].iter().chain(arguments).chain(&["--json"]))
            .with_code(0);
        let ids = listed
            .json_lines()
            .iter()
            .map(|fact| fact["id"].clone())
            .collect::<Vec<Value>>();
        json!(ids)
    };
    assert_eq!(ids(&["list"]), json!([1]));
    assert_eq!(ids(&["list", "--all"]), json!([2, 1]));
    assert_eq!(ids(&["list", "-w", "work"]), json!([2, 1]));
    assert_eq!(ids(&["search", "服务器", "-w", "work"]), json!([2]));
    assert_eq!(ids(&["search", "dogs"]), json!([1]));
    let text = place.dirigent(["memory", "list", "--all"]).with_code(0).stdout;
    assert_eq!(
        text,
        format!("2  测试服务器叫 blue  (about {folder})\n1  My dog is called Rex\n")
    );
    let shown = place.dirigent(["memory", "show", "1"]).with_code(0).stdout;
    assert!(
        shown.starts_with("My dog is called Rex\nabout you, added 20"),
        "{shown}"
    );

    let deleted = place.dirigent(["memory", "delete", "1"]).with_code(0);
    assert_eq!(deleted.stdout, "Deleted 1  My dog is called Rex\n");
    assert_eq!(ids(&["list", "--all"]), json!([2]));
}

#[test]
fn host_3_memory_errors_say_what_to_do() {
    let place = Place::new();
    let _ = place.dirigent(["memory", "add", "I like tea"]).with_code(0);

    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["add", "my password is hunter2"],
            2,
            "error: the fact was not saved: it seems to contain a password, and facts are sent to models. Keep secrets in a password \
             manager, and save only where to find them\n",
        ),
        (
            &["add", " "],
            2,
            "error: the fact is empty: say what to remember, such as \"the staging server is called blue\"\n",
        ),
        (
            &["delete", "7"],
            2,
            "error: there is no fact 7: it was deleted or never existed; list the facts to see their numbers\nnext: dirigent memory list --all\n",
        ),
        (
            &["add", "--workspace=nowhere", "a fact"],
            2,
            "error: the workspace nowhere cannot be used: ",
        ),
        (
            &["list", "-w", "nowhere"],
            2,
            "error: the workspace nowhere cannot be used: there is no such folder\n",
        ),
        (
            &["search", "coffee"],
            0,
            "no fact contains any of these words; `dirigent memory list --all` lists all facts\n",
        ),
    ];
    for (arguments, code, expected) in cases {
        let ended = place.dirigent(["memory"].iter().chain(arguments)).with_code(code);
        assert!(ended.stderr.starts_with(expected), "{arguments:?}: {ended}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    let not_a_number = place.dirigent(["memory", "show", "one"]).with_code(2);
    assert!(
        not_a_number.stderr.contains("invalid value 'one' for '<ID>'"),
        "{not_a_number}"
    );
}

#[test]
fn host_2_facts_survive_the_process_and_are_in_backups() {
    let place = Place::new();
    let _ = place.dirigent(["memory", "add", "I like tea"]).with_code(0);
    let _ = place.dirigent(["journal", "backup", "copy.db"]).with_code(0);
    let _ = place.dirigent(["memory", "delete", "1"]).with_code(0);

    let copy = place.folder().join("copy.db");
    block_on(async {
        let dirigent = Dirigent::builder().journal(&copy).build().await.unwrap();
        assert_eq!(
            dirigent.memory().show(FactId(1)).await.unwrap().text,
            "I like tea"
        );
        assert!(dirigent.check_journal().await.unwrap().problems.is_empty());
    });
    let _ = place.dirigent(["journal", "check"]).with_code(0);
}
