//! A sub-agent: executes a task of the offline planner's with the tools it has, and says what it found.
//!
//! Its answer names only what a result showed. A task that it does not understand it does not try.

use super::conversation::{Call, Conversation};
use super::goal::is_identifier;
use super::location::{SourceLocation, enumerated, listing, pluralize};
use super::prompt_sections::Sections;
use super::scope::Scope;
use super::sub_agent_task::SubAgentTask;
use super::text::{replace_outside, unique_block};
use super::tools::{self, MatchedLine, Pattern, RenameOutput, SearchOutput, file_text, read_output};

/// How a verification begins that holds.
pub(crate) const CONFIRMED: &str = "Confirmed: ";
/// How one begins that doesn't.
pub(crate) const NOT_CONFIRMED: &str = "Not confirmed: ";

/// What a replacement covers.
pub(crate) const MATCHED_ANYWHERE: &str =
    "The text is matched anywhere, also within words; ignored and binary files are left out.";

/// The sub-agent's answer, or the call that it needs first.
pub(crate) fn next(conversation: &Conversation<'_>) -> Result<String, Call> {
    let Some(task) = Sections(conversation.request).text("TASK") else {
        return Ok(super::introduction());
    };
    match SubAgentTask::parse(task) {
        Some(SubAgentTask::FindUsages { symbol, scope }) => find_usages(conversation, &symbol, &scope),
        Some(SubAgentTask::VerifyRenamed { from, to, scope }) => {
            verify_renamed(conversation, &from, &to, &scope)
        }
        Some(SubAgentTask::ReplaceText { old, new, files }) => replace_text(conversation, &old, &new, &files),
        Some(SubAgentTask::VerifyReplaced { old, new, scope }) => {
            verify_replaced(conversation, &old, &new, &scope)
        }
        None => Ok(format!(
            "{NOT_CONFIRMED}this task is beyond the offline model, and nothing was done. {}",
            super::capabilities()
        )),
    }
}

/// Usages by the language's syntax, and every other line with the word.
struct SymbolSearch {
    usages: RenameOutput,
    mentions: Vec<MatchedLine>,
    more_mentions: bool,
}

fn search_symbol(
    conversation: &Conversation<'_>,
    symbol: &str,
    scope: &Scope,
) -> Result<Result<SymbolSearch, String>, Call> {
    let usages = conversation.result_of(tools::preview(symbol, None, scope))?;
    if !usages.success {
        return Ok(Err(usages.error.unwrap_or_default()));
    }
    let usages = read_output::<RenameOutput>(&usages.output).within(scope);
    let lines = conversation.result_of(tools::search(Pattern::Word(symbol), scope))?;
    if !lines.success {
        return Ok(Err(lines.error.unwrap_or_default()));
    }
    let mut lines = read_output::<SearchOutput>(&lines.output).within(scope);
    let locations: Vec<SourceLocation> = usages
        .usages()
        .into_iter()
        .map(|(location, _)| location)
        .collect();
    // A file whose usages are not all listed may hold one in any of its lines.
    let is_whole = |path: &str| {
        usages
            .files
            .iter()
            .all(|file| file.path != path || file.total <= file.occurrences.len() as u64)
    };
    lines
        .matches
        .retain(|line| is_whole(&line.path) && !locations.contains(&line.location()));
    Ok(Ok(SymbolSearch {
        usages,
        mentions: lines.matches,
        more_mentions: lines.truncated,
    }))
}

fn find_usages(conversation: &Conversation<'_>, symbol: &str, scope: &Scope) -> Result<String, Call> {
    if !is_identifier(symbol) || !conversation.offers("rename_symbol") {
        return find_text(conversation, symbol, scope);
    }
    let found = match search_symbol(conversation, symbol, scope)? {
        Ok(found) => found,
        Err(error) => return Ok(format!("`{symbol}` could not be looked for{scope}: {error}")),
    };
    let mut text = if found.usages.occurrences == 0 {
        let similar: Vec<String> = found
            .usages
            .similar
            .iter()
            .take(3)
            .map(|name| format!("`{name}`"))
            .collect();
        let hint = if similar.is_empty() {
            String::new()
        } else {
            format!(" Names like it: {}.", enumerated(&similar, 3))
        };
        format!("No usage of `{symbol}` was found{scope}.{hint}")
    } else {
        let usages = found.usages.usages();
        format!(
            "`{symbol}` occurs {} in {}{scope}{}:\n{}",
            pluralize(found.usages.occurrences, "time", "times"),
            pluralize(found.usages.file_count(), "file", "files"),
            definitions(&found.usages),
            listing(usages.into_iter()),
        )
    };
    if !found.mentions.is_empty() {
        text.push_str(&format!(
            "\n\nThe name stands in strings, comments or text too: {}.\n{}",
            mentions_counted(&found),
            listing(
                found
                    .mentions
                    .iter()
                    .map(|line| (line.location(), line.text.as_str()))
            ),
        ));
    }
    Ok(text + &syntax_error_note(&found.usages))
}

/// Where it is defined, as far as the usages show it.
fn definitions(usages: &RenameOutput) -> String {
    let location = |path: &String, line| {
        SourceLocation {
            path: path.clone(),
            line,
        }
        .to_string()
    };
    let defined: Vec<String> = usages
        .files
        .iter()
        .flat_map(|file| {
            file.occurrences
                .iter()
                .filter(|usage| usage.definition)
                .map(|usage| location(&file.path, usage.line))
        })
        .collect();
    if defined.is_empty() {
        String::new()
    } else {
        format!(" (defined at {})", enumerated(&defined, 3))
    }
}

fn mentions_counted(found: &SymbolSearch) -> String {
    let more = if found.more_mentions { "at least " } else { "" };
    format!(
        "{more}{}",
        pluralize(found.mentions.len() as u64, "line", "lines")
    )
}

fn syntax_error_note(usages: &RenameOutput) -> String {
    match usages.syntax_errors.as_slice() {
        [] => String::new(),
        files => format!(
            "\n\nNot valid as programs, so that usages in them may be missed: {}.",
            enumerated(files, 5)
        ),
    }
}

fn find_text(conversation: &Conversation<'_>, text: &str, scope: &Scope) -> Result<String, Call> {
    let pattern = if is_identifier(text) {
        Pattern::Word(text)
    } else {
        Pattern::Text(text)
    };
    let answer = conversation.result_of(tools::search(pattern, scope))?;
    if !answer.success {
        return Ok(format!(
            "`{text}` could not be looked for{scope}: {}",
            answer.error.unwrap_or_default()
        ));
    }
    let found = read_output::<SearchOutput>(&answer.output).within(scope);
    if found.matches.is_empty() {
        return Ok(format!("`{text}` was not found{scope}."));
    }
    Ok(format!(
        "`{text}` stands in {} of {}{scope}, strings and comments included:\n{}",
        pluralize(found.total, "line", "lines"),
        pluralize(found.files, "file", "files"),
        listing(
            found
                .matches
                .iter()
                .map(|line| (line.location(), line.text.as_str()))
        ),
    ))
}

fn verify_renamed(
    conversation: &Conversation<'_>,
    from: &str,
    to: &str,
    scope: &Scope,
) -> Result<String, Call> {
    let found = match search_symbol(conversation, from, scope)? {
        Ok(found) => found,
        Err(error) => {
            return Ok(format!(
                "{NOT_CONFIRMED}`{from}` could not be looked for{scope}: {error}"
            ));
        }
    };
    let answer = conversation.result_of(tools::preview(to, None, scope))?;
    let renamed = read_output::<RenameOutput>(&answer.output).within(scope);
    if found.usages.occurrences > 0 {
        let usages = found.usages.usages();
        return Ok(format!(
            "{NOT_CONFIRMED}`{from}` is still used {}{scope}:\n{}",
            pluralize(found.usages.occurrences, "time", "times"),
            listing(usages.into_iter())
        ));
    }
    if renamed.occurrences == 0 {
        return Ok(format!(
            "{NOT_CONFIRMED}neither `{from}` nor `{to}` is used{scope}."
        ));
    }
    let mut text = format!(
        "{CONFIRMED}no usage of `{from}` is left{scope}, and `{to}` now occurs {} in {}.",
        pluralize(renamed.occurrences, "time", "times"),
        pluralize(renamed.file_count(), "file", "files"),
    );
    if !found.mentions.is_empty() {
        text.push_str(&format!(
            "\n\nLeft alone: {} with `{from}` in a string, a comment or text.\n{}",
            mentions_counted(&found),
            listing(
                found
                    .mentions
                    .iter()
                    .map(|line| (line.location(), line.text.as_str()))
            ),
        ));
    }
    Ok(text + &syntax_error_note(&found.usages))
}

fn verify_replaced(
    conversation: &Conversation<'_>,
    old: &str,
    new: &str,
    scope: &Scope,
) -> Result<String, Call> {
    let answer = conversation.result_of(tools::search(Pattern::Text(old), scope))?;
    if !answer.success {
        return Ok(format!(
            "{NOT_CONFIRMED}the files could not be searched: {}",
            answer.error.unwrap_or_default()
        ));
    }
    let mut remaining = read_output::<SearchOutput>(&answer.output).within(scope);
    remaining
        .matches
        .retain(|line| replace_outside(&line.text, old, new) != line.text);
    if remaining.matches.is_empty() {
        let gone = if remaining.truncated {
            format!(
                "the first lines of a search have \"{old}\" only as part of \"{new}\"{scope}, and the others were not looked at"
            )
        } else if new.contains(old) {
            format!("a search finds \"{old}\" only as part of \"{new}\"{scope}")
        } else {
            format!("a search finds \"{old}\" nowhere any more{scope}")
        };
        return Ok(format!("{CONFIRMED}{gone}. {MATCHED_ANYWHERE}"));
    }
    let at_least = if remaining.truncated { "at least " } else { "" };
    Ok(format!(
        "{NOT_CONFIRMED}\"{old}\" is left in {at_least}{}{scope}:\n{}",
        pluralize(remaining.matches.len() as u64, "line", "lines"),
        listing(
            remaining
                .matches
                .iter()
                .map(|line| (line.location(), line.text.as_str()))
        )
    ))
}

fn replace_text(
    conversation: &Conversation<'_>,
    old: &str,
    new: &str,
    files: &[String],
) -> Result<String, Call> {
    let mut done = Vec::new();
    let mut not_replaced = Vec::new();
    for path in files {
        match replace_in(conversation, path, old, new)? {
            Ok(0) => not_replaced.push(format!("{path} (\"{old}\" is not in it)")),
            Ok(lines) => done.push(format!("{path} ({})", pluralize(lines, "line", "lines"))),
            Err(why) => not_replaced.push(format!("{path} ({why})")),
        }
    }
    let mut text = match done.as_slice() {
        [] => "No file was changed.".to_owned(),
        done => format!(
            "Replaced \"{old}\" with \"{new}\" in {}.",
            enumerated(done, done.len())
        ),
    };
    if !not_replaced.is_empty() {
        text.push_str(&format!(
            " Left as they are: {}.",
            enumerated(&not_replaced, not_replaced.len())
        ));
    }
    Ok(text)
}

/// Replaces the text in a file by one edit, from the first line with it to the last; says in how many lines it was.
fn replace_in(
    conversation: &Conversation<'_>,
    path: &str,
    old: &str,
    new: &str,
) -> Result<Result<u64, String>, Call> {
    let (text, offset) = match text_with(conversation, path, old)? {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    let has_old = |line: &&str| replace_outside(line, old, new) != **line;
    let lines: Vec<u64> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| has_old(line))
        .map(|(number, _)| number)
        .collect();
    let (Some(&first), Some(&last)) = (lines.first(), lines.last()) else {
        return Ok(Ok(0));
    };
    let Some(block) = unique_block(&text, first, last) else {
        return Ok(Err(format!(
            "lines {} to {} can't be told apart from others",
            first + offset,
            last + offset
        )));
    };
    let edited = conversation.result_of(tools::edit(path, &block, &replace_outside(&block, old, new)))?;
    Ok(if edited.success {
        Ok(lines.len() as u64)
    } else {
        Err(edited.error.unwrap_or_default())
    })
}

/// The file's text, or of a long file the part with the text looked for, and the lines before it.
fn text_with(
    conversation: &Conversation<'_>,
    path: &str,
    old: &str,
) -> Result<Result<(String, u64), String>, Call> {
    let whole = conversation.result_of(tools::read(path, None))?;
    let number = |key: &str| {
        whole
            .output
            .get(key)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_default()
    };
    match file_text(&whole.output).filter(|_| whole.success) {
        None => return Ok(Err(whole.error.unwrap_or_default())),
        Some(text) if number("end_line") >= number("total_lines") => return Ok(Ok((text.to_owned(), 0))),
        Some(_) => {}
    }
    let file = Scope {
        only: vec![path.to_owned()],
        ..Scope::default()
    };
    let found = read_output::<SearchOutput>(
        &conversation
            .result_of(tools::search(Pattern::Text(old), &file))?
            .output,
    );
    let (Some(first), Some(last)) = (found.matches.first(), found.matches.last()) else {
        return Ok(Ok((String::new(), 0)));
    };
    let part = conversation.result_of(tools::read(path, Some((first.line, last.line))))?;
    let is_cut = part.output.get("note").is_some() || found.truncated;
    Ok(match file_text(&part.output) {
        Some(text) if part.success && !is_cut => Ok((text.to_owned(), first.line - 1)),
        Some(_) | None => Err("it is too long to be edited".to_owned()),
    })
}
