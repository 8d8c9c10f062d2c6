//! How messages are classified (INTENT-1, MCP-3): a table in `messages.txt`, and properties of every message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;

use dirigent_core::intent::{
    Classification, HitlIntent, Intent, IntentContext, IntentRule, KnownService, McpTarget, MemoryIntent,
    PendingKind, PendingRequest, ServiceState, classify, is_about_user,
};
use proptest::prelude::*;
use serde_json::json;

const MESSAGES: &str = include_str!("messages.txt");

fn services() -> Vec<KnownService> {
    let service = |name: &str, tools: &[&str], keywords: &[&str], state| KnownService {
        name: name.to_owned(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        trigger_keywords: keywords.iter().map(|keyword| (*keyword).to_owned()).collect(),
        state,
    };
    vec![
        service(
            "web",
            &["fetch", "web_search"],
            &["webpage", "网页", ""],
            ServiceState::Running,
        ),
        service("weather", &["forecast"], &["weather", "天气"], ServiceState::Idle),
        service(
            "github",
            &["create_issue", "list_issues"],
            &["pull request"],
            ServiceState::Stopped,
        ),
        service("git", &["git_log", "git_status"], &[], ServiceState::Running),
        service("notes", &[], &[], ServiceState::Failed),
    ]
}

fn own_tools() -> Vec<String> {
    ["execute_command", "search", "file_operations"]
        .map(str::to_owned)
        .to_vec()
}

/// Reads `call a3.1, question a4.1 = A / B`.
fn pending(text: &str) -> Vec<PendingRequest> {
    // A choice's text may contain commas, so choices come last.
    let (requests, choices) = text.split_once(" = ").unwrap_or((text, ""));
    let mut pending: Vec<PendingRequest> = requests
        .split(", ")
        .map(|request| {
            let (kind, effect) = request.split_once(' ').unwrap();
            PendingRequest {
                effect: effect.parse().unwrap(),
                kind: match kind {
                    "call" => PendingKind::Approval,
                    "question" => PendingKind::Question { choices: Vec::new() },
                    other => panic!("{other}"),
                },
            }
        })
        .collect();
    if let Some(PendingKind::Question { choices: last }) = pending.last_mut().map(|request| &mut request.kind)
    {
        *last = choices
            .split(" / ")
            .filter(|choice| !choice.is_empty())
            .map(str::to_owned)
            .collect();
    }
    pending
}

fn in_short(classified: &Classification, pending: &[PendingRequest]) -> String {
    let which = |effect: &dyn std::fmt::Display| {
        if pending.len() > 1 {
            format!(" {effect}")
        } else {
            String::new()
        }
    };
    let mut text = match &classified.intent {
        Intent::Mcp(mcp) => {
            let targets: Vec<String> = mcp.targets.iter().map(target).collect();
            format!("mcp {}", targets.join(", "))
        }
        Intent::Memory(MemoryIntent::Remember { fact }) => format!("remember: {fact}"),
        Intent::Memory(MemoryIntent::Recall { query }) => format!("recall: {query}").trim_end().to_owned(),
        Intent::Memory(MemoryIntent::Forget { query }) => format!("forget: {query}"),
        Intent::Memory(MemoryIntent::Undo) => "undo".to_owned(),
        Intent::Hitl(HitlIntent::Approve { effect }) => format!("approve{}", which(effect)),
        Intent::Hitl(HitlIntent::Reject { effect, reason: None }) => format!("reject{}", which(effect)),
        Intent::Hitl(HitlIntent::Reject {
            reason: Some(reason), ..
        }) => format!("reject: {reason}"),
        Intent::Hitl(HitlIntent::Edit { words, .. }) => format!("edit: {words}"),
        Intent::Hitl(HitlIntent::Guide { effect, .. }) => format!("guide{}", which(effect)),
        Intent::Hitl(HitlIntent::Choose { effect, number }) => format!("choose {number}{}", which(effect)),
        Intent::Hitl(HitlIntent::Answer { effect, .. }) => format!("answer{}", which(effect)),
        Intent::Hitl(HitlIntent::Unclear) => "unclear".to_owned(),
        Intent::Normal => "normal".to_owned(),
    };
    if let Some(also) = &classified.also {
        let _ = write!(text, " + {}", in_short(also, pending));
    }
    text
}

fn target(target: &McpTarget) -> String {
    let state = |state: &ServiceState| match state {
        ServiceState::Running => "",
        ServiceState::Idle => " (idle)",
        ServiceState::Stopped => " (stopped)",
        ServiceState::Failed => " (failed)",
    };
    match target {
        McpTarget::Tool {
            name,
            service,
            state: now,
        } => format!("{service}/{name}{}", state(now)),
        McpTarget::Service { name, state: now } => format!("{name}{}", state(now)),
        McpTarget::OwnTool { name } => format!("own:{name}"),
        McpTarget::Unknown { name } => format!("?{name}"),
    }
}

fn classified(message: &str, pending: &[PendingRequest]) -> Classification {
    let (services, own_tools) = (services(), own_tools());
    let context = IntentContext {
        services: &services,
        own_tools: &own_tools,
        pending,
        has_just_remembered: false,
        has_kept_fact: false,
    };
    classify(message, &context)
}

#[test]
fn intent_1_mcp_3_messages_are_classified_as_in_the_table() {
    let (services, own_tools) = (services(), own_tools());
    let mut waiting = Vec::new();
    let (mut has_just_remembered, mut has_kept_fact) = (false, false);
    let mut wrong = String::new();
    let mut count = 0;
    for line in MESSAGES
        .lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
    {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            has_just_remembered = section == "just remembered";
            has_kept_fact = section == "remembered earlier";
            waiting = section.strip_prefix("pending: ").map(pending).unwrap_or_default();
            continue;
        }
        let (message, expected) = line.rsplit_once(" => ").expect(line);
        let context = IntentContext {
            services: &services,
            own_tools: &own_tools,
            pending: &waiting,
            has_just_remembered,
            has_kept_fact,
        };
        let found = classify(&message.replace("\\n", "\n"), &context);
        let shown = in_short(&found, &waiting);
        count += 1;
        if shown != expected {
            let _ = writeln!(
                wrong,
                "{message} => {expected}\n    is {shown} by {:?}",
                found.reason
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 150, "{count} messages");
}

#[test]
fn intent_1_classifications_have_a_json_form_with_the_reason() {
    let call = pending("call a3.1");
    let both = classified("remember that I like rainy weather", &[]);
    let named = classified("please use the fetch tool", &[]);
    let edited = classified("yes, but change it to cargo check", &call);

    let cases = [
        (
            both,
            json!({
                "intent": {"kind": "mcp", "targets": [{"target": "service", "name": "weather", "state": "idle"}]},
                "reason": {"rule": "trigger_keyword", "words": ["weather"]},
                "also": {
                    "intent": {"kind": "memory", "action": "remember", "fact": "I like rainy weather"},
                    "reason": {"rule": "remember", "words": ["remember that"]},
                },
            }),
        ),
        (
            named,
            json!({
                "intent": {"kind": "mcp", "targets": [{"target": "tool", "name": "fetch", "service": "web", "state": "running"}]},
                "reason": {"rule": "named_tool", "words": ["use the fetch tool"]},
            }),
        ),
        (
            edited,
            json!({
                "intent": {"kind": "hitl", "answer": "edit", "effect": "a3.1", "words": "change it to cargo check"},
                "reason": {"rule": "edit", "words": ["change it to"]},
            }),
        ),
        (
            classified("hello", &[]),
            json!({"intent": {"kind": "normal"}, "reason": {"rule": "none"}}),
        ),
    ];
    for (classification, expected) in cases {
        let json = serde_json::to_value(&classification).unwrap();
        assert_eq!(json, expected);
        assert_eq!(
            serde_json::from_value::<Classification>(json).unwrap(),
            classification
        );
    }
}

#[test]
fn mcp_3_a_tool_of_two_services_refers_to_both() {
    let mut services = services();
    services[3].tools.push("fetch".to_owned());
    let context = IntentContext {
        services: &services,
        ..IntentContext::default()
    };

    assert_eq!(
        in_short(&classify("use the fetch tool", &context), &[]),
        "mcp web/fetch, git/fetch"
    );
}

#[test]
fn intent_1_long_messages_are_classified() {
    let call = pending("call a3.1");
    for piece in [
        "use the x tool ",
        "「",
        "` ",
        "'a ",
        "\"",
        "用",
        "不",
        "yes ",
        "and ",
        "> > ",
        "把",
        "call the ",
        "1 and ",
    ] {
        let long = piece.repeat(100_000 / piece.len());
        classified(&long, &call);
    }
}

/// The messages of the table that are about MCP or the memory when no request is pending.
fn triggering() -> Vec<&'static str> {
    let lines = MESSAGES
        .lines()
        .take_while(|line| !line.starts_with("[just remembered]"));
    let cases = lines.filter_map(|line| line.rsplit_once(" => "));
    cases
        .filter(|(_, expected)| *expected != "normal")
        .map(|(message, _)| message)
        .collect()
}

#[test]
fn mcp_3_a_quoted_message_is_normal() {
    let marks = [
        ("\"", "\""),
        ("“", "”"),
        ("「", "」"),
        ("『", "』"),
        ("«", "»"),
        ("`", "`"),
        ("```\n", "\n```"),
        ("> ", ""),
    ];
    let messages = triggering();
    assert!(messages.len() > 80, "{}", messages.len());
    for message in messages {
        for (opening, closing) in marks {
            // A quotation mark in the message would end the quotation.
            if message.contains(opening) || message.contains(closing) && !closing.is_empty() {
                continue;
            }
            let quoted = format!("{opening}{message}{closing}");
            assert_eq!(classified(&quoted, &[]).intent, Intent::Normal, "{quoted}");
        }
    }
}

/// Random messages, composed of typical pieces.
fn message() -> impl Strategy<Value = String> {
    let pieces = triggering();
    let piece = prop_oneof![
        any::<String>(),
        proptest::sample::select(pieces).prop_map(str::to_owned),
        proptest::sample::select(vec![
            "yes",
            "no",
            "2",
            "the second one",
            "don't",
            "不",
            "用",
            "工具",
            "use",
            "the",
            "tool",
            "\"",
            "`",
            "```",
            "「",
            "」",
            "'",
            "\n\n",
            "> ",
            "remember",
            "that",
            "记住",
            "把",
            "改成",
            "。",
            ",",
            "?",
            " and ",
            "what's my",
            "fetch",
            "maybe",
            "-",
            "…",
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "))
}

fn any_pending() -> impl Strategy<Value = Vec<PendingRequest>> {
    let kind = prop_oneof![
        Just(PendingKind::Approval),
        proptest::collection::vec(any::<String>(), 0..3)
            .prop_map(|choices| PendingKind::Question { choices }),
    ];
    proptest::collection::vec(kind, 0..4).prop_map(|kinds| {
        let requests = (1..).zip(kinds);
        let request = |(step, kind): (u32, PendingKind)| PendingRequest {
            effect: format!("a1.{step}").parse().unwrap(),
            kind,
        };
        requests.map(request).collect()
    })
}

fn is_hitl(classification: &Classification) -> bool {
    matches!(classification.intent, Intent::Hitl(_))
}

proptest! {
    #[test]
    fn intent_1_the_classification_of_any_text_can_be_stored_in_the_journal(message in message(), pending in any_pending()) {
        let found = classified(&message, &pending);
        let json = serde_json::to_string(&found).unwrap();
        prop_assert_eq!(serde_json::from_str::<Classification>(&json).unwrap(), found);
    }

    #[test]
    fn intent_1_no_message_is_an_answer_if_nothing_is_pending(message in message()) {
        let found = classified(&message, &[]);
        prop_assert!(!is_hitl(&found), "{:?}", found);
        prop_assert!(!found.also.as_deref().is_some_and(is_hitl), "{:?}", found);
    }

    #[test]
    fn approve_3_a_message_decides_nothing_while_several_calls_wait(message in message()) {
        let found = classified(&message, &pending("call a3.1, call a3.2"));
        let decided = |found: &Classification| is_hitl(found) && found.intent != Intent::Hitl(HitlIntent::Unclear);
        prop_assert!(!decided(&found), "{:?}", found);
        prop_assert!(!found.also.as_deref().is_some_and(decided), "{:?}", found);
    }

    #[test]
    fn approve_3_additional_words_never_turn_a_message_into_an_approval(message in "[a-z]{3,9}( [a-z]{3,9}){0,5}", end in any::<bool>()) {
        let call = pending("call a3.1");
        let found = if end { format!("yes, {message} zzz") } else { format!("zzz {message}, yes") };
        let found = classified(&found, &call);
        prop_assert_ne!(found.reason.rule, IntentRule::Decision);
    }
}

#[test]
fn intent_1_a_fact_is_about_the_user_or_about_the_project() {
    for fact in [
        "my name is Ann",
        "I prefer tabs",
        "Peter is my boss",
        "call me Al",
        "我喜欢喝绿茶",
    ] {
        assert!(is_about_user(fact), "{fact}");
    }
    let of_project = [
        "the staging server is called blue",
        "we deploy on Fridays",
        "I use tabs in this project",
        "the word \"my\" is reserved",
        "我们周五发布",
    ];
    for fact in of_project {
        assert!(!is_about_user(fact), "{fact}");
    }
}
