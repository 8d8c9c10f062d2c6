//! Runs whose agents make files by commands, each of which a person must approve: for [`Served`](crate::served::Served).

use dirigent_model_server::{Gate, Request, Script, Turn};

use crate::scripted::delegate;
use crate::served::{achieved, command, is_lead, is_reflector, mentions, plan};

/// Settings: every command must be approved.
pub const ASK: &str = "[approvals]\nask = [\"execute_command\"]\n";

/// What pursues the goal.
pub const RUN: [&str; 4] = ["run", "Make the files", "--workspace", "work"];

/// An agent that makes a file by a command, and says so.
pub fn touches(request: &Request, file: &str) -> Turn {
    match request.turn {
        1 => command(&["touch", file]),
        _ => Turn::text(format!("{file} is done.")),
    }
}

/// One agent, which makes `first.txt`.
pub fn one_agent() -> Script {
    Script::from_fn(|request| one_agents_turn(request, |turn| turn))
}

/// The same, which says nothing before the gate is open.
pub fn one_agent_behind(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| one_agents_turn(request, |turn| turn.wait_before_headers(&gate)))
}

fn one_agents_turn(request: &Request, held: impl FnOnce(Turn) -> Turn) -> Turn {
    match () {
        () if is_lead(request) => plan("Make it.", [delegate("one", "implement", "Make the first.")]),
        () if is_reflector(request) => achieved(request, "The judgement is in."),
        () => held(touches(request, "first.txt")),
    }
}

/// Two agents in parallel, for `first.txt` and `second.txt`, of whom the second begins only when the gate is open.
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
        () if is_reflector(request) => achieved(request, "The judgement is in."),
        () if mentions(request, "Make the first.") => touches(request, "first.txt"),
        () => touches(request, "second.txt").wait_before_headers(&gate),
    })
}
