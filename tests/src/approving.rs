//! Runs for [`Served`](crate::served::Served) whose agents create files with commands, each of which needs approval.

use dirigent_model_server::{Gate, Request, Script, Turn};

use crate::scripted::delegate;
use crate::served::{achieved, command, is_lead, is_reflector, mentions, plan};

/// Settings: every command must be approved.
pub const ASK: &str = "[approvals]\nask = [\"execute_command\"]\n";

/// The arguments that start the run.
pub const RUN: [&str; 4] = ["run", "Make the files", "--workspace", "work"];

/// The turns of an agent that creates a file with a command and then reports it.
pub fn touches(request: &Request, file: &str) -> Turn {
    match request.turn {
        1 => command(&["touch", file]),
        _ => Turn::text(format!("{file} is done.")),
    }
}

/// A script with one agent, which creates `first.txt`.
pub fn one_agent() -> Script {
    Script::from_fn(|request| one_agents_turn(request, |turn| turn))
}

/// Like [`one_agent`], but the agent's model replies only once the gate is open.
pub fn one_agent_behind(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| one_agents_turn(request, |turn| turn.wait_before_headers(&gate)))
}

fn one_agents_turn(request: &Request, held: impl FnOnce(Turn) -> Turn) -> Turn {
    match () {
        () if is_lead(request) => plan("Make it.", [delegate("one", "implement", "Make the first.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        // Guidance starts another iteration, whose agent receives the guidance and finds the file.
        () if mentions(request, "<GUIDANCE>") => Turn::text("It is there."),
        () => held(touches(request, "first.txt")),
    }
}

/// A script with two parallel agents, for `first.txt` and `second.txt`. The second one starts once the gate is open.
pub fn two_agents(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| match () {
        () if is_lead(request) => plan(
            "Make two files.",
            [
                delegate("one", "implement", "Make the first."),
                delegate("two", "implement", "Make the second."),
            ],
        ),
        () if is_reflector(request) => achieved("The judgement is in."),
        () if mentions(request, "Make the first.") => touches(request, "first.txt"),
        () => touches(request, "second.txt").wait_before_headers(&gate),
    })
}
