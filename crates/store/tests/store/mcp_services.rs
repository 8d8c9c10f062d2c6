//! The user's MCP services (MCP-1).

use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, StopMark, StoredService, StoredServiceStart};

use crate::fixture::fixture;

fn service(name: &str, config: &str, version: u32, at: u64) -> StoredService {
    StoredService {
        name: name.to_owned(),
        config: config.to_owned(),
        version,
        at: Timestamp(at),
    }
}

fn start(name: &str, digest: &str, at: u64) -> StoredServiceStart {
    StoredServiceStart {
        name: name.to_owned(),
        digest: digest.to_owned(),
        result: format!("{{\"at\": {at}}}"),
        at: Timestamp(at),
    }
}

fn digests(journal: &Journal, name: &str) -> Vec<String> {
    let starts = journal.mcp_starts().unwrap();
    starts
        .into_iter()
        .filter(|start| start.name == name)
        .map(|start| start.digest)
        .collect()
}

#[test]
fn mcp_1_a_service_is_added_once_updated_and_deleted() {
    let fixture = fixture();
    let journal = &fixture.journal;

    assert!(journal.add_mcp_service("web", "{}", Timestamp(1)).unwrap());
    assert!(journal.add_mcp_service("db", "{}", Timestamp(2)).unwrap());
    assert!(
        !journal
            .add_mcp_service("web", "{\"a\": 1}", Timestamp(3))
            .unwrap()
    );
    let updated = journal.update_mcp_service("web", "{\"b\": 1}", Timestamp(4));
    assert_eq!(updated.unwrap(), Some(2));
    let unknown = journal.update_mcp_service("mail", "{}", Timestamp(5));
    assert_eq!(unknown.unwrap(), None);
    assert_eq!(
        journal.mcp_services().unwrap(),
        [service("db", "{}", 1, 2), service("web", "{\"b\": 1}", 2, 4)]
    );

    journal
        .set_mcp_service_stopped("web", Some(Timestamp(6)))
        .unwrap();
    journal.record_mcp_start(start("web", "d", 7)).unwrap();
    assert!(journal.delete_mcp_service("web", StopMark::Delete).unwrap());
    assert!(!journal.delete_mcp_service("web", StopMark::Delete).unwrap());
    assert_eq!(journal.mcp_services().unwrap(), [service("db", "{}", 1, 2)]);
    assert!(journal.stopped_mcp_services().unwrap().is_empty());
    assert!(journal.mcp_starts().unwrap().is_empty());
}

#[test]
fn mcp_1_services_stay_stopped_until_the_mark_is_deleted() {
    let fixture = fixture();
    let journal = &fixture.journal;

    for _ in 0..2 {
        journal
            .set_mcp_service_stopped("web", Some(Timestamp(1)))
            .unwrap();
    }
    assert_eq!(journal.stopped_mcp_services().unwrap(), ["web"]);
    for _ in 0..2 {
        journal.set_mcp_service_stopped("web", None).unwrap();
    }
    assert!(journal.stopped_mcp_services().unwrap().is_empty());
}

#[test]
fn mcp_3_the_latest_results_of_starts_are_kept_for_each_configuration() {
    let fixture = fixture();
    let journal = &fixture.journal;

    for at in 1..=20 {
        journal
            .record_mcp_start(start("web", &format!("{at:02}"), at))
            .unwrap();
    }
    journal.record_mcp_start(start("db", "01", 1)).unwrap();
    journal.record_mcp_start(start("web", "20", 30)).unwrap();
    assert_eq!(
        digests(journal, "web"),
        ["13", "14", "15", "16", "17", "18", "19", "20"]
    );
    assert_eq!(digests(journal, "db"), ["01"]);
    let latest = journal.mcp_starts().unwrap().pop().unwrap();
    assert_eq!(latest, start("web", "20", 30));
}
