//! Settings that limit what tools can access: `[sandbox]`, `[connections.NAME]` and `[http]`; that a later file can narrow what an earlier
//! one allows, and that no password is ever shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dirigent::config::{Config, ConfigError, Sources};
use dirigent::{Confinement, Database, Dirigent, HttpRules, Sandbox};
use dirigent_core::tool::Access;
use dirigent_tests::cli::{Place, ended};
use serde_json::Value;
use tempfile::TempDir;

const CANARY: &str = "canary-0123456789";

/// The configuration from the user's own file and, if given, from an additional file.
fn load(own: &str, named: Option<&str>, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("dirigent.toml"), own).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut sources = Sources::none().folder(folder.path()).variables(variables);
    if let Some(named) = named {
        let path = folder.path().join("named.toml");
        std::fs::write(&path, named).unwrap();
        sources = sources.file(path);
    }
    Config::load(&sources)
}

fn config(own: &str) -> Config {
    load(own, None, &[]).unwrap()
}

/// The error, without the path of the file's folder.
fn wrong(own: &str) -> String {
    let error = load(own, None, &[]).expect_err(own).to_string();
    let (before, after) = error.split_once("dirigent.toml").unwrap();
    assert!(Path::new(before).is_absolute(), "{error}");
    format!("dirigent.toml{after}\n")
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(Into::into).collect()
}

#[test]
fn commands_are_confined_without_network_by_default() {
    let settings = config("").tool_settings().unwrap();
    assert_eq!(settings.sandbox, Sandbox::default());
    assert_eq!(settings.http, HttpRules::default());
    assert!(settings.connections.is_empty());
}

#[test]
fn the_settings_of_tools_are_parsed() {
    let config = config(
        r#"
[sandbox]
commands = "unconfined"
network = true
read = ["~/.m2", "/opt/sdk"]
write = ["~/.cache/go-build"]
environment = ["DATABASE_URL", "http_proxy"]
max_memory = "8 GiB"
max_file = "512MiB"
max_processes = 4096

[connections.local]
database = "sqlite"
path = "data/app.db"
access = "read-write"
max_rows = 20
timeout = "2m"

[connections.app]
database = "postgres"
url = "postgres://app:secret@db.internal/app"

[http]
allow = ["localhost:8080", "10.0.0.5", "[::1]:9", "wiki.internal"]
timeout = "5s"
max_bytes = "64 KiB"
"#,
    );
    let settings = config.tool_settings().unwrap();
    assert_eq!(
        settings.sandbox,
        Sandbox {
            confinement: Confinement::Off,
            network: true,
            read: paths(&["~/.m2", "/opt/sdk"]),
            write: paths(&["~/.cache/go-build"]),
            environment: vec!["DATABASE_URL".to_owned(), "http_proxy".to_owned()],
            max_memory: Some(8 << 30),
            max_file: Some(512 << 20),
            max_processes: Some(4096),
        }
    );
    assert_eq!(
        settings.http,
        HttpRules {
            allow: ["localhost:8080", "10.0.0.5", "[::1]:9", "wiki.internal"]
                .map(str::to_owned)
                .into(),
            timeout: Duration::from_secs(5),
            max_bytes: 64 * 1024,
        }
    );
    let local = &settings.connections["local"];
    assert!(matches!(&local.database, Database::Sqlite { path } if path == Path::new("data/app.db")));
    assert_eq!(
        (local.access, local.max_rows, local.timeout),
        (Access::ReadWrite, 20, Duration::from_secs(120))
    );
    let app = &settings.connections["app"];
    assert!(matches!(app.database, Database::Postgres { .. }));
    assert_eq!(
        (app.access, app.max_rows, app.timeout),
        (Access::ReadOnly, 200, Duration::from_secs(30))
    );
}

#[test]
fn a_later_file_can_narrow_what_an_earlier_one_allows() {
    let own = r#"
[sandbox]
commands = "unconfined"
network = true
read = ["~/.m2", "/opt/sdk"]
write = ["~/.cache"]
[http]
allow = ["localhost"]
"#;
    let named = r#"
[sandbox]
commands = "confined"
network = false
read = ["/opt/sdk"]
write = []
[http]
allow = []
"#;
    let settings = load(own, Some(named), &[]).unwrap().tool_settings().unwrap();
    let sandbox = Sandbox {
        read: paths(&["/opt/sdk"]),
        ..Sandbox::default()
    };
    assert_eq!(settings.sandbox, sandbox);
    assert_eq!(settings.http, HttpRules::default());
}

#[test]
fn a_later_file_with_another_database_replaces_the_whole_connection() {
    let own = "[connections.app]\ndatabase = \"postgres\"\nurl = \"postgres://a@b/c\"\naccess = \"read-write\"\nmax_rows = 5\n";
    let app = |named: &str| {
        let config = load(own, Some(named), &[("APP", "mysql://d@e/f")]).unwrap();
        config.tool_settings().unwrap().connections["app"].clone()
    };
    let other = app("[connections.app]\ndatabase = \"mysql\"\nurl_env = \"APP\"\n");
    assert!(matches!(other.database, Database::Mysql { .. }));
    assert_eq!((other.access, other.max_rows), (Access::ReadOnly, 200));
    let narrowed = app("[connections.app]\naccess = \"read-only\"\n");
    assert!(matches!(narrowed.database, Database::Postgres { .. }));
    assert_eq!((narrowed.access, narrowed.max_rows), (Access::ReadOnly, 5));
}

#[test]
fn a_later_file_with_another_address_source_replaces_the_earlier_one() {
    let own = "[connections.app]\ndatabase = \"postgres\"\nurl = \"postgres://a@b/c\"\n";
    let named = "[connections.app]\nurl_env = \"APP\"\n";
    let config = load(own, Some(named), &[("APP", "postgres://d@e/f")]).unwrap();
    assert_eq!(config.connections().unwrap()[0].address, "set, from APP");
}

#[test]
fn errors_have_their_place_and_say_what_to_do() {
    let told = [
        "[sandbox]\ncommands = \"free\"\n",
        "[sandbox]\nnetwork = \"no\"\n",
        "[sandbox]\nread = [\"target\"]\n",
        "[sandbox]\nwrite = \"~/.cache\"\n",
        "[sandbox]\nenvironment = [\"HOME\", \"PASSWORD=x\"]\n",
        "[sandbox]\nmax_memory = 8\n",
        "[sandbox]\nmax_memory = \"8 GB\"\n",
        "[sandbox]\nmax_memory = \"0 GiB\"\n",
        "[sandbox]\nmax_procesess = 8\n",
        "[http]\nallow = [\"http://localhost\"]\n",
        "[http]\nallow = [\"localhost:99999\"]\n",
        "[connections]\napp = \"postgres://a@b/c\"\n",
        "[connections.app]\nurl_env = \"APP\"\n",
        "[connections.\"my app\"]\ndatabase = \"sqlite\"\npath = \"a.db\"\n",
        "[connections.app]\ndatabase = \"oracle\"\n",
        "[connections.app]\ndatabase = \"sqlite\"\n",
        "[connections.app]\ndatabase = \"sqlite\"\npath = \"../a.db\"\n",
        "[connections.app]\ndatabase = \"sqlite\"\npath = \"/a.db\"\n",
        "[connections.app]\ndatabase = \"sqlite\"\npath = \"a.db\"\nurl_env = \"APP\"\n",
        "[connections.app]\ndatabase = \"postgres\"\n",
        "[connections.app]\ndatabase = \"postgres\"\npath = \"a.db\"\n",
        "[connections.app]\ndatabase = \"postgres\"\nurl = \"postgres://a@b/c\"\nurl_env = \"APP\"\n",
        "[connections.app]\ndatabase = \"postgres\"\nurl = \"mysql://a@b/c\"\n",
        "[connections.app]\ndatabase = \"mysql\"\nurl = \"localhost\"\n",
        "[connections.app]\ndatabase = \"mysql\"\nurl = \"mysql:///c\"\n",
        "[connections.app]\ndatabase = \"mysql\"\npassword = \"x\"\n",
    ]
    .map(wrong);
    insta::assert_snapshot!(told.concat());
}

#[tokio::test]
async fn building_fails_if_a_variable_is_not_set() {
    let config = config("[connections.app]\ndatabase = \"postgres\"\nurl_env = \"APP_URL\"\n");
    Dirigent::builder().config(&config).check().await.unwrap();
    let folder = TempDir::new().unwrap();
    let built = Dirigent::builder()
        .config(&config)
        .journal(folder.path().join("journal.db"))
        .build()
        .await;
    let error = built.err().unwrap().to_string();
    assert!(
        error.ends_with("dirigent.toml:3: `connections.app.url_env` names APP_URL, which is not set: set it"),
        "{error}"
    );
}

fn place(own: &str) -> Place {
    let place = Place::new();
    let file = place.folder().join("home/.config/dirigent/dirigent.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, own).unwrap();
    place
}

#[test]
fn no_password_of_a_database_is_ever_printed() {
    let app = "[connections.app]\ndatabase = \"postgres\"\n";
    let address = format!("postgres://app:{CANARY}@127.0.0.1:9/app");
    let places = [
        format!("{app}url = \"{address}\"\n"),
        format!("{app}url_env = \"APP_URL\"\n"),
        format!("{app}url_env = \"BAD_URL\"\n"),
        format!("{app}url = \"mysql{address}\"\n"),
        format!("{app}url = \"{address}\n"),
        format!("{app}url = [\"{address}\"]\n"),
        format!("{app}url_env = \"{address}\"\n"),
        format!("{app}path = \"{address}\"\n"),
        format!("[connections.app]\ndatabase = \"sqlite\"\npath = \"{address}\"\n"),
        format!("[connections.app]\ndatabase = \"{address}\"\n"),
        format!("[connections]\napp = \"{address}\"\n"),
        format!("[http]\nallow = [\"{address}\"]\n"),
        format!("[sandbox]\nenvironment = [\"DATABASE_URL={address}\"]\n"),
    ];
    let mut shown = 0;
    for own in &places {
        let place = place(own);
        for arguments in [
            &["config", "check"][..],
            &["config", "check", "--json"],
            &["run", "count the lines in a.txt", "--workspace", "work"],
            &["show", "last", "--verbose"],
        ] {
            let mut command: Command = place.command(arguments);
            let variables = [
                ("APP_URL", address.as_str()),
                ("BAD_URL", &address[1..]),
                ("RUST_LOG", "trace"),
                ("DIRIGENT_LOG", "trace"),
            ];
            let told = ended(command.envs(variables)).to_string();
            assert!(!told.contains("canary"), "{own}{arguments:?}: {told}");
            shown += usize::from(told.contains("app: postgres, read-only"));
        }
    }
    assert_eq!(shown, 2);
    let config = load(&places[0], None, &[]).unwrap();
    let all = format!(
        "{config:?} {:?} {:?}",
        config.connections(),
        config.tool_settings()
    );
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn config_check_shows_what_tools_may_access_and_the_sources_of_the_settings() {
    let place = place(
        "[sandbox]\nnetwork = true\nmax_memory = \"2048 MiB\"\n\n[connections.app]\ndatabase = \"postgres\"\nurl_env = \"APP_URL\"\n\n\
         [connections.local]\ndatabase = \"sqlite\"\npath = \"data/app.db\"\naccess = \"read-write\"\n\n[http]\nallow = [\"localhost:8080\"]\n",
    );
    let checked = place.dirigent(["config", "check"]).with_code(7);
    let folder = place.folder().canonicalize().unwrap();
    let text = checked.stdout.replace(folder.to_str().unwrap(), "PLACE");
    insta::assert_snapshot!(text);
    let mut command: Command = place.command(["config", "check", "--json", "--offline"]);
    let checked = ended(command.env("APP_URL", "postgres://app@127.0.0.1/app")).with_code(0);
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        json["commands"],
        serde_json::json!({"confined": true, "network": true})
    );
    assert_eq!(json["connections"][0]["address"], "set, from APP_URL");
    assert_eq!(json["connections"][0]["connection"], "not tested");
    assert_eq!(json["connections"][0]["problem"], Value::Null);
}

#[test]
fn config_check_warns_about_settings_that_protect_little_or_break_most_commands() {
    let place = place("[sandbox]\nwrite = [\"/\", \"~/\", \"~/cache\"]\nmax_memory = \"1 KiB\"\n");
    let checked = place.dirigent(["config", "check", "--json"]).with_code(0);
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    let wide = |path| {
        format!(
            "commands can change everything that you can change in {path}: list only the folders that commands need in `write` of [sandbox]"
        )
    };
    let little = "with 1 KiB of memory (`max_memory` of [sandbox]) many commands fail immediately: interpreters alone need about 8 MiB";
    assert_eq!(json["notes"], serde_json::json!([wide("/"), wide("~/"), little]));
}

#[test]
fn config_check_tries_each_database() {
    // A port that is bound but not listening, so no other process can listen on it.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!(
        "postgres://app:{CANARY}@{}/app?pasword={CANARY}",
        taken.local_addr().unwrap()
    );
    let place = place(
        "[connections.far]\ndatabase = \"postgres\"\nurl_env = \"FAR_URL\"\n\n\
         [connections.made]\ndatabase = \"sqlite\"\npath = \"made.db\"\n\n\
         [connections.missing]\ndatabase = \"sqlite\"\npath = \"missing.db\"\n\n\
         [connections.new]\ndatabase = \"sqlite\"\npath = \"new.db\"\naccess = \"read-write\"\n",
    );
    let made = rusqlite::Connection::open(place.work().join("made.db")).unwrap();
    made.execute_batch("CREATE TABLE notes (text)").unwrap();
    let mut command = place.command(["config", "check", "--json"]);
    command.current_dir(place.work()).env("FAR_URL", url);

    let checked = ended(&mut command).with_code(7);

    assert!(
        !checked.stdout.contains(CANARY) && !checked.stderr.contains(CANARY),
        "{checked}"
    );
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    let connections = json["connections"].as_array().unwrap().iter();
    let told: Vec<_> = connections
        .map(|tried| (&tried["connection"], &tried["problem"]))
        .collect();
    let refused = "the server of this connection cannot be reached (connection refused)";
    let later = "its file does not exist yet; the first write creates it";
    assert_eq!(
        told,
        [
            (&Value::Null, &Value::from(refused)),
            (&Value::from("it responds"), &Value::Null),
            (
                &Value::Null,
                &Value::from("its file does not exist in this folder")
            ),
            (&Value::from(later), &Value::Null),
        ]
    );
    assert!(!place.work().join("new.db").exists());
}

#[test]
fn a_run_with_unconfined_commands_causes_one_warning() {
    let told = "commands are not confined: they can do whatever you can";
    let goal = ["run", "count the lines in a.txt", "--workspace", "work"];
    for (own, times) in [("[sandbox]\ncommands = \"unconfined\"\n", 1), ("", 0)] {
        let place = place(own);
        place.write("a.txt", "one\ntwo\n");
        let ended = place.dirigent(goal).with_code(0);
        assert_eq!(ended.stderr.matches(told).count(), times, "{ended}");
    }
}
