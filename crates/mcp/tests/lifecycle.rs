//! States, starts and ends of services (MCP-1, MCP-6).

use std::path::Path;
use std::time::{Duration, Instant};

use dirigent_mcp::{Endpoint, ServiceConfig, ServiceEvent, ServiceState, WhyStopped};
use dirigent_tools::ToolSource as _;
use futures::future::join_all;
use serde_json::json;

use crate::support::{
    call, call_in, call_json, context, is_alive, pids, quick, running, service, services, shown, until,
    until_state, until_waiting,
};

#[tokio::test]
async fn mcp_6_a_service_starts_when_it_is_needed_and_stays_stopped_when_it_was_stopped() {
    let services = services(vec![service("test", &[])]).await;
    let mut events = services.watch();
    let state = || services.service("test").unwrap().state;
    assert_eq!(state(), ServiceState::Stopped(WhyStopped::NotNeeded));
    assert_eq!(services.specs(), []);

    // Its tools are not known yet, so it may have this one.
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "first"})).await),
        "first"
    );
    assert_eq!(state(), ServiceState::Running);
    assert!(services.specs().iter().any(|spec| spec.name == "mcp__test__echo"));

    services.stop("test").await.unwrap();
    assert_eq!(state(), ServiceState::Stopped(WhyStopped::ByUser));
    assert_eq!(services.specs(), []);
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "hi"})).await),
        "service_unavailable: the service test is stopped: start it, then try again"
    );
    services.start("test").await.unwrap();
    assert_eq!(shown(&call(&services, "echo", json!({"text": "hi"})).await), "hi");

    let mut states = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let ServiceEvent::State { state, .. } = event {
            states.push(state);
        }
    }
    let by_user = ServiceState::Stopped(WhyStopped::ByUser);
    assert_eq!(
        states,
        [
            ServiceState::Starting,
            ServiceState::Running,
            by_user,
            ServiceState::Starting,
            ServiceState::Running
        ]
    );
}

#[tokio::test]
async fn mcp_1_unknown_and_disabled_services_are_named() {
    let disabled = ServiceConfig {
        enabled: false,
        ..service("off", &[])
    };
    let services = services(vec![disabled]).await;
    let error = |result: Result<_, dirigent_mcp::McpError>| result.unwrap_err().to_string();
    assert_eq!(
        error(services.start("of").await),
        "there is no service of: the configured services are off"
    );
    assert_eq!(
        error(services.start("off").await),
        "the service off is disabled: enable it in its configuration"
    );
}

#[tokio::test]
async fn mcp_6_a_start_that_fails_says_why() {
    let mut missing = service("missing", &[]);
    if let Endpoint::Command(command) = &mut missing.endpoint {
        command.command = "no-such-program-17".to_owned();
    }
    let mut unset = service("unset", &[]);
    if let Endpoint::Command(command) = &mut unset.endpoint {
        command
            .env
            .insert("TOKEN".to_owned(), "${NO_SUCH_VARIABLE_17}".into());
    }
    let silent = ServiceConfig {
        start_timeout: Duration::from_millis(300),
        ..service("silent", &["silent"])
    };
    let services = services(vec![missing, unset, silent, service("fails", &["fails"])]).await;
    let errors = join_all(["missing", "unset", "silent", "fails"].map(|name| services.start(name))).await;
    let errors: Vec<String> = errors
        .into_iter()
        .map(|result| result.unwrap_err().to_string())
        .collect();
    assert_eq!(
        errors,
        [
            "the service missing has failed: there is no program `no-such-program-17`: install it, or give its full path",
            "the service unset has failed: `env`: the variable NO_SUCH_VARIABLE_17 is not set: set it before Dirigent starts, or write a \
             default as ${NO_SUCH_VARIABLE_17:-…}",
            "the service silent has failed: it did not answer as an MCP server within 0.3 s: check its command or URL, or raise `start_timeout` if it \
             needs longer",
            "the service fails has failed: it ended with exit status: 3 before it was ready: check that its command starts an MCP \
             server. Its last messages: cannot find the token",
        ]
    );
}

#[tokio::test]
async fn mcp_6_a_crash_under_a_call_is_reported_and_the_service_restarted() {
    let services = running(&[]).await;
    let result = call(&services, "die", json!({})).await;
    assert_eq!(
        shown(&result),
        "interrupted: service test ended during the call (it ended with exit status: 7), which may or may not have taken effect. It is \
         being restarted: check what was done before you call it again"
    );
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "back"})).await),
        "back"
    );
}

#[tokio::test]
async fn mcp_6_a_service_that_was_killed_under_a_call_is_restarted() {
    let services = running(&[]).await;
    let pid = shown(&call(&services, "pid", json!({})).await);
    let (result, _) = tokio::join!(call(&services, "wait", json!({"seconds": 1000})), async {
        until_waiting(&services).await;
        let killed = std::process::Command::new("kill").args(["-9", &pid]).status();
        assert!(killed.unwrap().success());
    });
    assert!(
        shown(&result).starts_with("interrupted: service test ended during the call"),
        "{}",
        shown(&result)
    );
    assert_ne!(shown(&call(&services, "pid", json!({})).await), pid);
}

#[tokio::test]
async fn mcp_6_a_service_that_keeps_crashing_is_given_up_until_the_user_starts_it() {
    let services = services(vec![service("test", &["dies-at-once"])]).await;
    let mut events = services.watch();
    // It crashes before or after it has listed its tools.
    let _ = services.start("test").await;
    let state = until_state(&services, "test", |state| {
        matches!(state, ServiceState::Error { .. })
    })
    .await;
    let ServiceState::Error { reason, .. } = state else {
        panic!()
    };
    assert!(reason.starts_with("it ended with exit status: 9"), "{reason}");
    let mut starts = 0;
    while let Ok(event) = events.try_recv() {
        starts += usize::from(matches!(
            event,
            ServiceEvent::State {
                state: ServiceState::Starting,
                ..
            }
        ));
    }
    assert!(starts <= quick().max_restarts + 1, "{starts}");
}

#[tokio::test]
async fn mcp_6_a_service_that_hangs_is_found_and_restarted() {
    let rules = dirigent_mcp::Supervision {
        ping_interval: Duration::from_millis(50),
        ping_timeout: Duration::from_millis(500),
        ..quick()
    };
    let config = ServiceConfig {
        call_timeout: Duration::from_millis(500),
        ..service("test", &[])
    };
    let services = dirigent_mcp::McpServices::start_up(vec![config], rules)
        .await
        .unwrap();
    services.start("test").await.unwrap();
    let mut events = services.watch();
    let result = shown(&call(&services, "hang", json!({})).await);
    assert!(
        result.starts_with("timed_out: the call was ended because it took more than 0.5 s"),
        "{result}"
    );
    loop {
        if let ServiceEvent::State { state, .. } = events.recv().await.unwrap() {
            assert_eq!(state, ServiceState::Starting);
            break;
        }
    }
    until_state(&services, "test", |state| *state == ServiceState::Running).await;
    assert_eq!(
        shown(&call(&services, "echo", json!({"text": "back"})).await),
        "back"
    );
}

#[tokio::test]
async fn mcp_6_stopping_ends_the_whole_process_tree() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let services = running(&["stubborn", &format!("pids={}", file.display())]).await;
    let started = pids(&file);
    assert_eq!(started.len(), 3);
    assert!(started.iter().all(|pid| is_alive(*pid)));
    services.stop("test").await.unwrap();
    assert!(!started.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn mcp_6_dropping_the_services_ends_their_processes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let services = running(&["stubborn", &format!("pids={}", file.display())]).await;
    let started = pids(&file);
    drop(services);
    until("all processes end", async || {
        !started.iter().any(|pid| is_alive(*pid))
    })
    .await;
}

#[tokio::test]
async fn mcp_6_a_start_that_is_stopped_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let services = services(vec![service(
        "test",
        &["silent", &format!("pids={}", file.display())],
    )])
    .await;
    let (result, ()) = tokio::join!(services.start("test"), async {
        until("it has started", async || pids(&file).len() == 3).await;
        services.stop("test").await.unwrap();
    });
    assert_eq!(
        result.unwrap_err().to_string(),
        "the service test is stopped: start it, then try again"
    );
    assert!(!pids(&file).iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn mcp_6_a_stop_cancels_a_start_that_waits_for_an_earlier_stop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let services = running(&["stubborn", &format!("pids={}", file.display())]).await;
    let stopped = ServiceState::Stopped(WhyStopped::ByUser);
    let state = || services.service("test").unwrap().state;
    let (first, (start, second)) = tokio::join!(services.stop("test"), async {
        // The processes take their time.
        until("it is being stopped", async || state() == stopped).await;
        tokio::join!(services.start("test"), services.stop("test"))
    });
    first.unwrap();
    second.unwrap();
    assert_eq!(
        start.unwrap_err().to_string(),
        "the service test is stopped: start it, then try again"
    );
    assert_eq!(state(), stopped);
    assert!(!pids(&file).iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn mcp_6_a_service_inherits_only_a_few_environment_variables() {
    let mut config = service("test", &[]);
    if let Endpoint::Command(command) = &mut config.endpoint {
        command.env.insert("OWN".to_owned(), "for ${HOME:-nobody}".into());
    }
    let services = services(vec![config]).await;
    services.start("test").await.unwrap();
    let environment = call_json(&services, "env", json!({})).await;
    let home = std::env::var("HOME").unwrap_or_else(|_| "nobody".to_owned());
    assert_eq!(environment["OWN"], format!("for {home}"));
    assert_eq!(environment["PATH"], std::env::var("PATH").unwrap());
    // Set for every test by cargo.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert_eq!(environment["CARGO_MANIFEST_DIR"], json!(null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_6_fifty_services_start_and_stop_at_once() {
    let configs = (0..50)
        .map(|number| service(&format!("s{number}"), &[]))
        .collect();
    let services = services(configs).await;
    let start = Instant::now();
    let names: Vec<_> = services.list().into_iter().map(|info| info.name).collect();
    let started = join_all(names.iter().map(|name| services.start(name.as_str()))).await;
    assert!(started.iter().all(Result::is_ok));
    assert_eq!(services.specs().len(), 50 * 10);
    services.shutdown().await;
    // Far longer than it takes, even on a busy machine.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    let states = services.list().into_iter().map(|info| info.state);
    assert!(
        states
            .into_iter()
            .all(|state| state == ServiceState::Stopped(WhyStopped::ByUser))
    );
}

#[tokio::test]
async fn mcp_5_a_call_of_a_service_that_is_removed_says_so_and_does_not_promise_a_restart() {
    let services = running(&[]).await;
    let entry = services.get("mcp__test__wait").unwrap();
    let call = |seconds: u32| {
        let parameters = json!({"seconds": seconds});
        entry.tool.call(context(Path::new("/tmp")), parameters)
    };
    let mut active = call(600);
    // The call is under way once the service has counted it.
    loop {
        tokio::select! {
            biased;
            result = &mut active => panic!("{result:?}"),
            received = call_in(&services, context(Path::new("/tmp")), "received", json!({})) => {
                if shown(&received).contains("\"wait\"") {
                    break;
                }
            }
        }
    }
    let end = services.begin_remove("test").unwrap();
    assert!(services.is_empty(), "it is forgotten at once");
    let error = shown(&active.await);
    assert!(
        error.contains("was removed or got other settings during the call") && !error.contains("restarted"),
        "{error}"
    );
    end.await;
    let later = shown(&call(0).await);
    assert!(later.contains("its settings have changed"), "{later}");
}
