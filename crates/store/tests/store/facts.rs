//! The facts of the memory (INTENT-1).

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, NewFact, StoredFact, VisibleFacts};
use rusqlite::Connection;

use crate::fixture::fixture;

fn add(journal: &Journal, workspace: Option<&str>, text: &str) -> Option<u64> {
    let fact = NewFact {
        workspace: workspace.map(str::to_owned),
        text: text.to_owned(),
        same: text.to_lowercase(),
        at: Timestamp(1_000),
    };
    journal.add_fact(fact).unwrap()
}

fn texts(facts: Vec<StoredFact>) -> Vec<String> {
    facts.into_iter().map(|fact| fact.text).collect()
}

fn found(journal: &Journal, words: &[&str]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    texts(journal.search_facts(&VisibleFacts::All, &words, 10).unwrap())
}

#[test]
fn intent_1_a_fact_is_kept_found_and_deleted() {
    let fixture = fixture();
    let journal = &fixture.journal;

    let id = add(journal, None, "My birthday is 5 May").unwrap();
    let fact = journal.fact(id).unwrap().unwrap();

    assert_eq!(
        (fact.text.as_str(), fact.workspace),
        ("My birthday is 5 May", None)
    );
    assert_eq!(found(journal, &["birthdays"]), ["My birthday is 5 May"]);
    assert!(journal.delete_fact(id).unwrap());
    assert!(!journal.delete_fact(id).unwrap());
    assert_eq!(journal.fact(id).unwrap(), None);
    assert!(found(journal, &["birthday"]).is_empty());
    assert_ne!(add(journal, None, "another"), Some(id));
    assert!(journal.check().unwrap().problems.is_empty());
}

#[test]
fn intent_1_chinese_words_of_any_length_are_found() {
    let fixture = fixture();
    let journal = &fixture.journal;
    add(journal, None, "我的生日是五月五日");
    add(journal, None, "我喜欢喝茶");
    add(journal, None, "部署窗口是周五 deploy 之后");
    add(journal, None, "茶馆在日本");

    let cases: [(&str, &[&str]); 8] = [
        ("生日", &["我的生日是五月五日"]),
        ("茶", &["茶馆在日本", "我喜欢喝茶"]),
        ("喝茶", &["我喜欢喝茶"]),
        ("五月五日", &["我的生日是五月五日"]),
        ("日生", &[]),
        ("deploy", &["部署窗口是周五 deploy 之后"]),
        ("周五deploy", &["部署窗口是周五 deploy 之后"]),
        ("咖啡", &[]),
    ];
    for (word, expected) in cases {
        let mut found = found(journal, &[word]);
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{word}");
    }
}

#[test]
fn intent_1_facts_with_more_of_the_words_come_first() {
    let fixture = fixture();
    let journal = &fixture.journal;
    add(journal, None, "the staging server is called blue");
    add(journal, None, "the café is closed on Mondays");
    add(journal, None, "the server room is cold");

    assert_eq!(
        found(journal, &["staging", "server"]),
        ["the staging server is called blue", "the server room is cold"]
    );
    assert_eq!(found(journal, &["cafe"]), ["the café is closed on Mondays"]);
    for no_words in [
        &[][..],
        &[""],
        &["\" OR \""],
        &["*"],
        &["NEAR("],
        &["words:"],
        &["-"],
    ] {
        assert!(found(journal, no_words).is_empty(), "{no_words:?}");
    }
}

#[test]
fn intent_1_a_workspace_sees_its_facts_and_those_of_the_user() {
    let fixture = fixture();
    let journal = &fixture.journal;
    add(journal, None, "I like tea");
    add(journal, Some("/a"), "tests need tea");
    add(journal, Some("/b"), "builds need tea");

    let seen = |visible: VisibleFacts| {
        let listed = texts(journal.facts(&visible, 10).unwrap());
        let mut found = texts(journal.search_facts(&visible, &["tea".to_owned()], 10).unwrap());
        found.sort();
        let mut sorted = listed.clone();
        sorted.sort();
        assert_eq!(found, sorted);
        listed
    };

    assert_eq!(seen(VisibleFacts::User), ["I like tea"]);
    assert_eq!(
        seen(VisibleFacts::Workspace("/a".to_owned())),
        ["tests need tea", "I like tea"]
    );
    assert_eq!(
        seen(VisibleFacts::All),
        ["builds need tea", "tests need tea", "I like tea"]
    );
}

#[test]
fn intent_1_the_same_fact_is_kept_once() {
    let fixture = fixture();
    let journal = &fixture.journal;
    let id = add(journal, None, "I like tea");

    assert_eq!(add(journal, None, "I LIKE tea"), None);
    assert_eq!(add(journal, Some("/a"), "I like tea"), None);
    assert_eq!(
        journal
            .same_fact(Some("/a"), "i like tea")
            .unwrap()
            .map(|fact| fact.id),
        id
    );
    assert!(add(journal, Some("/a"), "we like tabs").is_some());
    assert!(add(journal, Some("/b"), "we like tabs").is_some());
    assert!(add(journal, None, "we like tabs").is_some());
}

#[test]
fn intent_1_backups_have_the_facts_and_checks_find_a_damaged_index() {
    let fixture = fixture();
    add(&fixture.journal, None, "I like tea");
    let copy = fixture.path.with_file_name("copy.db");
    fixture.journal.backup(&copy).unwrap();

    let journal = Journal::open(&copy).unwrap();
    assert_eq!(found(&journal, &["tea"]), ["I like tea"]);
    assert!(journal.check().unwrap().problems.is_empty());

    Connection::open(&copy)
        .unwrap()
        .execute("DELETE FROM fact_words WHERE rowid = 1", [])
        .unwrap();
    let problems: Vec<String> = journal
        .check()
        .unwrap()
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        ["the memory's word index differs from the facts in 1 places"]
    );
}
