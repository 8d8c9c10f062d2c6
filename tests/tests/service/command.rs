//! HOST-2, HOST-3, HOST-8: `dirigent serve`, the real command.

use std::process::{Command, Stdio};

use dirigent_model_server::{Gate, Script, Turn};
use dirigent_tests::cli::{Place, Watched};
use dirigent_tests::http_client::{Client, ServerEvent};
use dirigent_tests::served::Served;
use serde_json::{Value, json};

/// The running command.
struct Serving {
    watched: Watched,
    client: Client,
    announced: Value,
}

impl Serving {
    fn start(command: &mut Command) -> Serving {
        let mut watched = Watched::start(command);
        let announced = watched.wait_for(|line| line["event"] == "listening");
        let token = std::fs::read_to_string(announced["token_file"].as_str().unwrap()).unwrap();
        let url = announced["url"].as_str().unwrap();
        let client = Client {
            address: url.strip_prefix("http://").unwrap().parse().unwrap(),
            token: Some(token.trim().to_owned()),
        };
        Serving {
            watched,
            client,
            announced,
        }
    }

    /// Sends SIGTERM, and waits for the end.
    fn terminate(self) -> dirigent_tests::cli::Ended {
        let pid = rustix::process::Pid::from_raw(self.watched.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.watched.end()
    }
}

fn serve(place: &Place) -> Command {
    place.command([
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--workspace",
        "work",
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_serve_makes_a_token_once_and_ends_in_order() {
    let place = Place::new();
    place.write("notes.txt", "one\ntwo\n");
    let serving = Serving::start(&mut serve(&place));
    // The token is never written to a pipe.
    let token = serving.client.token.clone().unwrap();
    assert!(
        !serving.announced.to_string().contains(&token),
        "{}",
        serving.announced
    );
    let started = serving
        .client
        .post("/v1/runs", &json!({"goal": "Count the lines in notes.txt"}))
        .await;
    started.with_status(201);
    let events = format!("{}/events", started.header("location"));
    let mut stream = serving.client.stream("GET", &events, &[], None).await;
    stream.wait_for_run_event("run_finished").await;
    // The process marks the run as ended just after its last event.
    while serving.client.get("/v1/runs?state=goal_achieved").await.json()["total"] == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(serving.terminate().with_code(0).stderr, "");
    // The command line sees the same run.
    let listed = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(listed[0]["state"], "goal_achieved");

    let again = Serving::start(&mut serve(&place));
    again.client.get("/v1/runs").await.with_status(200);
    let _ = again.terminate().with_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_the_limits_come_from_the_command_line_or_the_configuration() {
    let place = Place::new();
    let folder = place.folder().join("home/.config/dirigent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("dirigent.toml"), "[serve]\nmax_body = \"1 KiB\"\n").unwrap();
    let long = json!({"goal": "x".repeat(2_000)});
    let serving = Serving::start(&mut serve(&place));
    let refused = serving.client.post("/v1/runs", &long).await;
    assert_eq!(refused.problem(), (413, "body_too_large".to_owned()));
    let _ = serving.terminate().with_code(0);
    let serving = Serving::start(serve(&place).args(["--max-body", "1500"]));
    let refused = serving.client.post("/v1/runs", &long).await;
    assert!(refused.body.contains("1500 bytes"), "{refused:?}");
    let _ = serving.terminate().with_code(0);
    let refused = place.dirigent(["serve", "--max-runs", "0"]).with_code(2);
    assert!(refused.stderr.contains("--max-runs"), "{refused}");
}

#[test]
fn host_3_an_address_that_others_reach_needs_a_token_file() {
    let place = Place::new();
    let refused = place.dirigent(["serve", "--listen", "0.0.0.0:0"]).with_code(2);
    assert!(refused.stderr.contains("--token-file"), "{refused}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = place
        .dirigent(["serve", "--listen", &address, "--workspace", "work"])
        .with_code(2);
    assert!(
        refused.stderr.contains(&format!("cannot listen on {address}")),
        "{refused}"
    );
}

#[test]
fn host_5_a_token_file_that_agents_could_read_is_refused() {
    let place = Place::new();
    let refused = place
        .dirigent(["serve", "--token-file", "work/token", "--workspace", "work"])
        .with_code(2);
    assert!(refused.stderr.contains("lies in the workspace"), "{refused}");
    assert!(!place.work().join("token").exists());
    // The journal's folder contains both.
    let refused = place.dirigent(["serve", "--workspace", "/"]).with_code(2);
    assert!(refused.stderr.contains("lies in the workspace"), "{refused}");
    let refused = place
        .dirigent(["serve", "--listen", "127.0.0.1:0", "--workspace", "missing"])
        .with_code(2);
    assert!(
        refused.stderr.contains("the workspace missing cannot be used"),
        "{refused}"
    );
}

#[test]
fn host_2_a_killed_server_resumes_its_runs_when_it_starts_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |_| Turn::text("Done.").wait_before_headers(&held));
    let served = Served::new("", script);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let serving = Serving::start(&mut serve(&served.place));
    let client = serving.client.clone();
    let mut runs = Vec::new();
    for number in 0..3 {
        let started =
            runtime.block_on(client.post("/v1/runs", &json!({"goal": format!("Say done {number}")})));
        started.with_status(201);
        runs.push(started.header("location").to_owned());
    }
    served.wait_for_requests(3);
    serving.watched.kill();

    let left = Serving::start(serve(&served.place).arg("--no-resume").stderr(Stdio::null()));
    let listed = runtime
        .block_on(left.client.get("/v1/runs?state=interrupted"))
        .json();
    assert_eq!(listed["total"], 3);
    let _ = left.terminate().with_code(0);

    let mut again = Serving::start(&mut serve(&served.place));
    for _ in &runs {
        again.watched.wait_for(|line| line["event"] == "resumed");
    }
    gate.open();
    for run in &runs {
        runtime.block_on(async {
            let mut events = again
                .client
                .stream("GET", &format!("{run}/events"), &[], None)
                .await;
            let finished = events.wait_for_run_event("run_finished").await;
            assert_eq!(finished.data["summary"], "Done.");
        });
    }
    let _ = again.terminate().with_code(0);
}

#[test]
fn host_2_twenty_conversations_go_on_after_their_server_was_killed_and_clients_miss_nothing() {
    const CONVERSATIONS: usize = 20;
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::from_fn(move |_| Turn::text("Done.").wait_before_headers(&held));
    let served = Served::new(&format!("concurrent = {CONVERSATIONS}\n"), script);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let serving = Serving::start(&mut serve(&served.place));
    let client = serving.client.clone();
    let mut watched = Vec::new();
    for number in 0..CONVERSATIONS {
        watched.push(runtime.block_on(async {
            let created = client.post("/context", &json!({})).await;
            created.with_status(201);
            let context = created.header("location").to_owned();
            let message = json!({"message": format!("Say done {number}")});
            let path = format!("{context}/messages");
            let mut stream = client.stream("POST", &path, &[], Some(&message)).await;
            let mut events = Vec::new();
            while !events
                .last()
                .is_some_and(|event: &ServerEvent| event.data["event"] == "agent_started")
            {
                events.push(stream.next().await.unwrap());
            }
            (context, stream, events)
        }));
    }
    served.wait_for_requests(CONVERSATIONS);
    serving.watched.kill();
    // What each client has got until its connection broke.
    let watched: Vec<_> = watched
        .into_iter()
        .map(|(context, mut stream, mut events)| {
            events.extend(runtime.block_on(stream.rest()));
            (context, events)
        })
        .collect();

    let mut again = Serving::start(&mut serve(&served.place));
    for _ in &watched {
        again.watched.wait_for(|line| line["event"] == "resumed");
    }
    gate.open();
    for (context, mut events) in watched {
        let path = format!("{context}/events");
        let last = events.last().unwrap().id.clone();
        let all = runtime.block_on(async {
            let resumed = [("last-event-id", last.as_str())];
            let mut stream = again.client.stream("GET", &path, &resumed, None).await;
            events.extend(stream.rest().await);
            let mut stream = again.client.stream("GET", &path, &[], None).await;
            stream.rest().await
        });
        let end = events.pop().unwrap();
        assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("ended")));
        assert_eq!(events, all[..all.len() - 1], "{context}");
        let finished = events.last().unwrap();
        assert_eq!(finished.data["summary"], "Done.");
    }
    let _ = again.terminate().with_code(0);
}
