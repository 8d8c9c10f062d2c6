//! HOST-3, PAOR-8, PAOR-9 and APPROVE: the command in a real terminal, with a person who reads and types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_tests::cli::Place;
use dirigent_tests::pty::{CTRL_D, Terminal};

/// A project in which the new name of [`CLASH`] is in use.
fn clash() -> Place {
    let place = Place::new();
    place.write(
        "price.js",
        "export function parsePrice(text) { return Number(text); }\n",
    );
    place.write("notes.txt", "parsePrice reads prices.\n");
    place.write("read.js", "export function readPrice(file) { return file; }\n");
    place
}

const CLASH: [&str; 4] = [
    "run",
    "rename the function parsePrice to readPrice",
    "--workspace",
    "work",
];

/// With `getPrice` as the answer the run reaches its goal.
#[track_caller]
fn is_renamed(place: &Place) {
    assert!(place.read("price.js").contains("function getPrice("));
}

#[test]
fn paor_9_a_person_is_asked_at_the_terminal_and_an_empty_line_is_no_answer() {
    let place = clash();
    let terminal = Terminal::start(place.command(CLASH));
    terminal.wait_for_prompt("your answer: ");
    terminal.enters("");
    terminal.types("getP");
    terminal.wait_for_prompt("your answer: getP");
    terminal.enters("rice");
    let contents = terminal.end_with(0);
    assert!(contents.contains("answer: getPrice"), "{contents}");
    is_renamed(&place);
}

#[test]
fn paor_9_the_end_of_the_input_leaves_the_question_for_resume() {
    let place = clash();
    let terminal = Terminal::start(place.command(CLASH));
    terminal.wait_for_prompt("your answer: ");
    terminal.types(CTRL_D);
    let contents = terminal.end_with(4);
    assert!(contents.contains("Waiting for you after 1 round"), "{contents}");
    let _ = place
        .dirigent(["resume", "last", "--answer", "getPrice"])
        .with_code(0);
    is_renamed(&place);
}
