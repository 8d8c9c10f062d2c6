//! A conversation with the offline model, step by step.

use std::sync::Arc;

use dirigent_core::message::{FinishReason, Message, ModelReply};
use dirigent_core::tool::ModelToolResult;
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_offline::OfflineModel;
use futures::FutureExt;
use serde_json::{Value, json};

/// A conversation in progress.
pub struct Dialogue {
    messages: Vec<Message>,
}

impl Dialogue {
    /// Starts a lead that may list, read, search and preview.
    pub fn lead(request: &str) -> Self {
        Dialogue::new(
            "You plan the work.",
            &["file_operations", "rename_symbol", "search", "submit_plan"],
            request,
        )
    }

    /// Starts a reflector.
    pub fn reflector(request: &str) -> Self {
        Dialogue::new(
            "You judge whether a goal is reached.",
            &["read_output", "submit_reflection"],
            request,
        )
    }

    /// Starts a sub-agent.
    pub fn sub_agent(task: &str) -> Self {
        let request = format!("<TASK>\n{task}\n</TASK>\n");
        Dialogue::new(
            "You explore.",
            &["file_operations", "rename_symbol", "search"],
            &request,
        )
    }

    /// Starts an agent with these tools.
    pub fn new(role: &str, tools: &[&str], request: &str) -> Self {
        let tools: String = tools
            .iter()
            .map(|tool| format!("## {tool}\nWhat it does.\n\n"))
            .collect();
        let system = format!(
            "{role}\n\n# Tools\n\nYou have these tools and no others.\n\n{tools}# How to call a tool\n"
        );
        let user = Message::User {
            content: request.to_owned(),
        };
        Dialogue {
            messages: vec![Message::System { content: system }, user],
        }
    }

    /// Returns the model's next reply.
    pub fn reply(&self) -> ModelReply {
        reply(&self.messages)
    }

    /// Expects this call as the next reply, and sends the result.
    #[track_caller]
    pub fn sees(&mut self, tool: &str, parameters: Value, result: Value) -> &mut Self {
        let reply = self.reply();
        assert_eq!(
            serde_json::from_str::<Value>(&reply.content).ok(),
            Some(json!({"tool": tool, "parameters": parameters, "terminate": false}))
        );
        self.messages.push(Message::Assistant {
            content: reply.content,
            calls: Vec::new(),
        });
        self.messages.push(Message::Tool {
            call_id: "1".to_owned(),
            name: tool.to_owned(),
            content: text(result),
        });
        self
    }

    /// Takes the next reply, and sends this message of the run.
    pub fn gets_message(&mut self, text: &str) -> &mut Self {
        let reply = self.reply();
        self.messages.push(Message::Assistant {
            content: reply.content,
            calls: Vec::new(),
        });
        self.messages.push(Message::User {
            content: text.to_owned(),
        });
        self
    }

    /// Expects a terminating call as the next reply, and returns its parameters.
    #[track_caller]
    pub fn submits(&self, tool: &str) -> Value {
        let reply = self.reply();
        assert_eq!(reply.finish, FinishReason::Stop);
        assert_eq!(reply.calls, vec![]);
        let call: Value = serde_json::from_str(&reply.content).expect("a call as JSON");
        assert_eq!(
            (&call["tool"], &call["terminate"]),
            (&json!(tool), &json!(true)),
            "{call}"
        );
        call["parameters"].clone()
    }

    /// Returns the plan that the next reply submits.
    #[track_caller]
    pub fn plan(&self) -> Value {
        let plan = self.submits("submit_plan");
        serde_json::from_value::<dirigent_core::plan::Plan>(plan.clone()).expect("a plan");
        plan
    }

    /// Returns the verdict and the summary of the reflection that the next reply submits.
    #[track_caller]
    pub fn judgement(&self) -> (String, String) {
        let reflection = self.reflection();
        let text = |field: &str| reflection[field].as_str().expect("text").to_owned();
        (text("verdict"), text("summary"))
    }

    /// Returns the reflection that the next reply submits.
    #[track_caller]
    pub fn reflection(&self) -> Value {
        let reflection = self.submits("submit_reflection");
        dirigent_core::reflection::Reflection::from_parameters(&reflection).expect("a reflection");
        reflection
    }
}

/// Returns the text of a result's message.
fn text(result: Value) -> String {
    let result: ModelToolResult = serde_json::from_value(result).expect("a result");
    result.to_string()
}

/// Returns the model's reply to these messages.
pub fn reply(messages: &[Message]) -> ModelReply {
    let request = ChatRequest::new(Arc::new(messages.to_vec()));
    OfflineModel
        .chat(request)
        .now_or_never()
        .expect("an answer at once")
        .expect("an answer")
}

/// Returns a line for each sub-task: `id <- [dependencies]: agent or calls`.
pub fn graph(plan: &Value) -> Vec<String> {
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one.as_str().expect("text").to_owned())
            .collect()
    };
    let work = |subtask: &Value| match subtask["agent"].as_str() {
        Some(agent) => agent.to_owned(),
        None => {
            let calls = subtask["calls"].as_array().expect("calls").iter();
            let call = |call: &Value| match call["tool"].as_str() {
                Some("execute_command") => strings(&call["parameters"]["command"]).join(" "),
                Some(tool) => format!("{tool} {}", call["parameters"]),
                None => panic!("a call without a tool"),
            };
            calls.map(call).collect::<Vec<_>>().join("; ")
        }
    };
    let subtasks = plan["subtasks"].as_array().expect("sub-tasks").iter();
    subtasks
        .map(|subtask| {
            let depends_on = strings(&subtask["depends_on"]).join(", ");
            format!(
                "{} <- [{depends_on}]: {}",
                subtask["id"].as_str().expect("an id"),
                work(subtask)
            )
        })
        .collect()
}

/// Returns a lead's request with its goal and `more` sections.
pub fn plan_request(goal: &str, more: &str) -> String {
    format!(
        "<GOAL>\n{goal}\n</GOAL>\n<ITERATION>1 of 15</ITERATION>\n<AGENTS>\n- explore: Explores.\n- implement: Changes.\n- verify: Verifies.\n\
         </AGENTS>\n<TOOLS_FOR_CALLS>\n- execute_command: Runs. Parameters: {{}}\n</TOOLS_FOR_CALLS>\n{more}Plan the next steps towards the goal.\n"
    )
}

/// Returns a reflector's request.
pub fn reflect_request(
    goal: &str,
    more: &str,
    plan: &Value,
    observations: &[Value],
    changed: &[&str],
) -> String {
    let observations: String = observations.iter().map(|one| format!("{one}\n")).collect();
    let changed: String = changed.iter().map(|path| format!("- {path}\n")).collect();
    format!(
        "<GOAL>\n{goal}\n</GOAL>\n<ITERATION>1 of 15</ITERATION>\n{more}<PLAN>\n{plan}\n</PLAN>\n<OBSERVATIONS>\n{observations}</OBSERVATIONS>\n\
         <CHANGED_FILES>\n{changed}</CHANGED_FILES>\nJudge whether the goal is reached.\n"
    )
}

/// Returns a successful result.
pub fn success(output: impl Into<Value>) -> Value {
    json!({"success": true, "output": output.into()})
}

/// Returns the listing of a workspace with these files.
pub fn listing(entries: &[&str]) -> Value {
    success(json!(format!(
        "{} entries\n{}",
        entries.len(),
        entries.join("\n")
    )))
}

/// Returns the result of reading the file with this text.
pub fn file(text: &str) -> Value {
    lines(1, text.lines().count(), text)
}

/// Returns the result of reading these lines, which begin at `first`, of a file with `total` lines.
pub fn lines(first: usize, total: usize, text: &str) -> Value {
    let last = first + text.lines().count() - 1;
    let numbered: String = (first..)
        .zip(text.split_inclusive('\n'))
        .map(|(number, line)| format!("{number}\t{line}"))
        .collect();
    let cut = if first == 1 && last < total {
        format!("; cut after 64 KiB, continue with start_line {}", last + 1)
    } else {
        String::new()
    };
    success(json!(format!("Lines {first}-{last} of {total}{cut}\n{numbered}")))
}

/// The first lines of the lists in an output of `rename_symbol`.
pub mod list {
    pub const CLASHES: &str = "`read` is in use already";
    pub const LIBRARY: &str = "Uses that seem to belong to a library, which a rename would break";
    pub const MEMBERS: &str =
        "Uses whose object or type the syntax does not show, so some may be other symbols";
    pub const MENTIONS: &str = "In comments and strings, which a rename leaves as they are";
    pub const MODULES: &str = "Imports of a module with this name, whose file keeps its name";
}

/// Returns the output of `rename_symbol` for usages of `parse`, given as path, line and text.
pub fn usages(usages: &[(&str, u64, &str)]) -> String {
    let mut paths: Vec<&str> = usages.iter().map(|(path, ..)| *path).collect();
    paths.dedup();
    if paths.is_empty() {
        return "No uses of `parse`\n".to_owned();
    }
    let mut text = format!("{} uses of `parse` in {} files\n", usages.len(), paths.len());
    for path in paths {
        let lines: Vec<String> = usages
            .iter()
            .filter(|(of, ..)| *of == path)
            .map(|(_, line, text)| format!("{line}: {text}\n"))
            .collect();
        text.push_str(&format!("\n{path} ({})\n{}", lines.len(), lines.concat()));
    }
    text
}

/// Returns the output of `rename_symbol` with a further list.
pub fn with_list(output: &str, list: &str, rows: &[&str]) -> String {
    format!("{output}\n{list}:\n{}\n", rows.join("\n"))
}

/// Returns the output of `rename_symbol` with names similar to `parse`.
pub fn with_similar(output: &str, names: &[&str]) -> String {
    format!("{output}\nNames similar to `parse`: `{}`\n", names.join("`, `"))
}

/// Returns the result of `search` for matches, given as path, line and text.
pub fn matches(matches: &[(&str, u64, &str)]) -> Value {
    let mut paths: Vec<&str> = matches.iter().map(|(path, ..)| *path).collect();
    paths.dedup();
    let mut text = format!("{} matches in {} files", matches.len(), paths.len());
    for path in paths {
        text.push_str(&format!("\n\n{path}"));
        for (_, line, found) in matches.iter().filter(|(of, ..)| *of == path) {
            text.push_str(&format!("\n{line}:{found}"));
        }
    }
    success(json!(text))
}

/// Returns the observation of a sequence of calls with their results.
pub fn ran(subtask: &str, calls: &[(&str, Value, Value)]) -> Value {
    let succeeded = calls.iter().all(|(_, _, result)| result["success"] == true);
    let calls: Vec<Value> = calls
        .iter()
        .map(|(tool, parameters, result)| {
            json!({"tool": tool, "parameters": parameters, "result": result, "duration_ms": 5, "handle": "run.7"})
        })
        .collect();
    let status = if succeeded { "succeeded" } else { "failed" };
    json!({"subtask": subtask, "title": "t", "status": status, "duration_ms": 812, "calls": calls})
}

/// Returns the observation of a sub-agent with its findings.
pub fn found(subtask: &str, agent: &str, findings: &str) -> Value {
    json!({
        "subtask": subtask, "title": "t", "status": "succeeded", "duration_ms": 812, "agent": agent,
        "findings": findings, "calls": [], "changes": []
    })
}

/// Returns the observation of a sub-task that never started.
pub fn skipped(subtask: &str, because: &str) -> Value {
    json!({"subtask": subtask, "title": "t", "status": "skipped", "because": because})
}

/// Returns the result of a command.
pub fn exited(code: i64, stdout: &str, stderr: &str) -> Value {
    let output = match (stdout, stderr) {
        ("", "") => json!("(no output)"),
        (stdout, "") => json!(stdout),
        ("", stderr) => json!(format!("stderr:\n{stderr}")),
        (stdout, stderr) => json!(format!("stdout:\n{stdout}\nstderr:\n{stderr}")),
    };
    match code {
        0 => success(output),
        code => {
            json!({"success": false, "code": "exited", "error": format!("`it` exited with {code}"), "output": output})
        }
    }
}
