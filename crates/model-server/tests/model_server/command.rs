//! The command, from a script file to an answer.

use std::io::Write as _;
use std::process::Stdio;

use dirigent_model_server::Script;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::socket::asking;

fn script(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[tokio::test]
async fn it_serves_a_script_and_tells_what_was_asked() {
    let file = script(r#"{ "rules": [{ "turns": [{ "reply": { "text": "Hi from a file" } }] }] }"#);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dirigent-model-server"))
        .arg("--script")
        .arg(file.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(command.stdout.take().unwrap()).lines();
    let line = said.next_line().await.unwrap().unwrap();
    let address = line
        .strip_prefix("listening on http://")
        .unwrap()
        .strip_suffix("/v1")
        .unwrap();

    let body = asking("Hi").to_string();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("Hi from a file"));

    let mut told = BufReader::new(command.stderr.take().unwrap()).lines();
    let line = told.next_line().await.unwrap().unwrap();
    assert_eq!(
        line,
        "request 1: conversation 1, turn 1, attempt 1, model m, 1 messages"
    );
    command.kill().await.unwrap();
}

#[tokio::test]
async fn a_bad_script_ends_it_with_the_place_and_code_2() {
    let file = script(r#"{ "rules": [{ "turns": [{ "fault": "no_such_fault" }] }] }"#);
    let output = Command::new(env!("CARGO_BIN_EXE_dirigent-model-server"))
        .arg("--script")
        .arg(file.path())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("the script is not valid at rules[0].turns[0].fault: unknown variant `no_such_fault`"),
        "{told}"
    );
}

#[tokio::test]
async fn its_help_shows_a_script_and_names_every_fault_and_flaw() {
    let output = Command::new(env!("CARGO_BIN_EXE_dirigent-model-server"))
        .arg("--help")
        .output()
        .await
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (from, to) = (
        help.find("  {\"rules\"").unwrap(),
        help.find("\n\nwhen:").unwrap(),
    );
    Script::from_json(&help[from..to]).expect("the example is a script");
    for kind in [r#"{"fault": "x"}"#, r#"{"reply": {"flaws": ["x"]}}"#] {
        // What a script can say is in the complaint about what it can't.
        let error = Script::from_json(&format!(r#"{{"rules": [{{"turns": [{kind}]}}]}}"#)).unwrap_err();
        let (_, names) = error.problem.split_once("expected one of ").unwrap();
        let names: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(help.contains(name), "{name}");
        }
    }
}
