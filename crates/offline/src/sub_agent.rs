//! The sub-agent: executes a task that the offline lead wrote, and reports only what tool results show.

use dirigent_core::tags;

use super::capabilities::{capabilities, introduction};
use super::conversation::{Call, Conversation};
use super::goal::is_identifier;
use super::location::SourceLocation;
use super::outputs::{MatchedLine, ReadOutput, RenameOutput, SearchOutput, places};
use super::role_texts::{CONFIRMED, MATCHED_ANYWHERE, NOT_CONFIRMED};
use super::scope::Scope;
use super::sub_agent_task::SubAgentTask;
use super::text::{counted, enumerated, listing, replace_outside, unique_block};
use super::tools::{self, Pattern};

/// The result of a step. `Err` is a call to make first.
type Step<T> = Result<T, Call>;

/// Returns the sub-agent's answer. `Err` is a call to make first.
pub(crate) fn next(conversation: &Conversation<'_>) -> Step<String> {
    let Some(task) = conversation.sections.text(tags::TASK) else {
        return Ok(introduction());
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
            capabilities()
        )),
    }
}

/// Occurrences of a symbol: usages according to the language's syntax, and all other lines with the word.
struct SymbolSearch {
    usages: RenameOutput,
    mentions: Vec<MatchedLine>,
    /// Whether the list of mentions is truncated.
    more_mentions: bool,
}

fn search_symbol(
    conversation: &Conversation<'_>,
    symbol: &str,
    scope: &Scope,
) -> Step<Result<SymbolSearch, String>> {
    let usages = conversation.result_of(tools::preview(symbol, None, scope))?;
    if !usages.success {
        return Ok(Err(usages.error.unwrap_or_default()));
    }
    let usages = RenameOutput::from(&usages).within(scope);
    let lines = conversation.result_of(tools::search(Pattern::Word(symbol), scope))?;
    if !lines.success {
        return Ok(Err(lines.error.unwrap_or_default()));
    }
    let mut lines = SearchOutput::from(&lines).within(scope);
    let locations: Vec<SourceLocation> = usages.usages().map(|(location, _)| location).collect();
    // In a file with a truncated list of usages, any line may be a usage.
    let is_complete = |path: &str| {
        usages
            .files
            .iter()
            .all(|file| file.path != path || file.is_complete())
    };
    lines
        .matches
        .retain(|line| is_complete(&line.path) && !locations.contains(&line.location()));
    Ok(Ok(SymbolSearch {
        usages,
        mentions: lines.matches,
        more_mentions: lines.truncated,
    }))
}

impl SymbolSearch {
    fn listed_usages(&self) -> String {
        let total = self.usages.usages().count();
        let usages = self.usages.usages();
        listing(
            usages.map(|(location, usage)| (location, usage.text.as_str())),
            total,
        )
    }

    /// Returns notes on the mentions and on files with syntax errors; empty if there are none. The note on mentions
    /// is `{beginning}: 3 lines{end}.` and a list of their locations.
    fn notes(&self, beginning: &str, end: &str) -> String {
        let mut notes = String::new();
        if !self.mentions.is_empty() {
            let more = if self.more_mentions { "at least " } else { "" };
            notes.push_str(&format!(
                "\n\n{beginning}: {more}{}{end}.\n{}",
                counted(self.mentions.len() as u64, "lines"),
                listing(places(&self.mentions), self.mentions.len())
            ));
        }
        if !self.usages.syntax_errors.is_empty() {
            notes.push_str(&format!(
                "\n\nThese files have syntax errors, so usages in them may be missed: {}.",
                enumerated(&self.usages.syntax_errors, 5)
            ));
        }
        notes
    }
}

fn find_usages(conversation: &Conversation<'_>, symbol: &str, scope: &Scope) -> Step<String> {
    if !is_identifier(symbol) || !conversation.offers("rename_symbol") {
        return find_text(conversation, symbol, scope);
    }
    let found = match search_symbol(conversation, symbol, scope)? {
        Ok(found) => found,
        Err(error) => return Ok(not_searched(symbol, scope, &error)),
    };
    let text = if found.usages.occurrences == 0 {
        let similar = found.usages.similar.iter().take(3);
        let similar: Vec<String> = similar.map(|name| format!("`{name}`")).collect();
        let hint = if similar.is_empty() {
            String::new()
        } else {
            format!(" Similar names: {}.", enumerated(&similar, 3))
        };
        format!("No usage of `{symbol}` was found{scope}.{hint}")
    } else {
        format!(
            "`{symbol}` occurs {} in {}{scope}{}:\n{}",
            counted(found.usages.occurrences, "times"),
            counted(found.usages.file_count, "files"),
            definitions(&found.usages),
            found.listed_usages(),
        )
    };
    Ok(text + &found.notes("The name is also in strings, comments or text", ""))
}

/// The findings of a search that failed, for example because a path does not exist.
fn not_searched(text: &str, scope: &Scope, error: &str) -> String {
    format!("{NOT_CONFIRMED}`{text}` could not be searched for{scope}: {error}")
}

/// Names the locations of a symbol's definitions, if they are among the listed usages.
fn definitions(usages: &RenameOutput) -> String {
    let defined: Vec<String> = usages
        .usages()
        .filter(|(_, usage)| usage.definition)
        .map(|(location, _)| location.to_string())
        .collect();
    if defined.is_empty() {
        String::new()
    } else {
        format!(" (defined at {})", enumerated(&defined, 3))
    }
}

fn find_text(conversation: &Conversation<'_>, text: &str, scope: &Scope) -> Step<String> {
    let pattern = if is_identifier(text) {
        Pattern::Word(text)
    } else {
        Pattern::Text(text)
    };
    let result = conversation.result_of(tools::search(pattern, scope))?;
    if !result.success {
        return Ok(not_searched(text, scope, &result.error.unwrap_or_default()));
    }
    let found = SearchOutput::from(&result).within(scope);
    if found.matches.is_empty() {
        return Ok(format!("`{text}` was not found{scope}."));
    }
    Ok(format!(
        "`{text}` is in {} of {}{scope}, strings and comments included:\n{}",
        counted(found.total, "lines"),
        counted(found.files, "files"),
        listing(places(&found.matches), found.matches.len()),
    ))
}

fn verify_renamed(conversation: &Conversation<'_>, from: &str, to: &str, scope: &Scope) -> Step<String> {
    let found = match search_symbol(conversation, from, scope)? {
        Ok(found) => found,
        Err(error) => {
            return Ok(not_searched(from, scope, &error));
        }
    };
    let renamed = conversation.result_of(tools::preview(to, None, scope))?;
    let renamed = RenameOutput::from(&renamed).within(scope);
    if found.usages.occurrences > 0 {
        return Ok(format!(
            "{NOT_CONFIRMED}`{from}` is still used {}{scope}:\n{}",
            counted(found.usages.occurrences, "times"),
            found.listed_usages()
        ));
    }
    if renamed.occurrences == 0 {
        return Ok(format!(
            "{NOT_CONFIRMED}neither `{from}` nor `{to}` is used{scope}."
        ));
    }
    let text = format!(
        "{CONFIRMED}no usage of `{from}` is left{scope}, and `{to}` now occurs {} in {}.",
        counted(renamed.occurrences, "times"),
        counted(renamed.file_count, "files"),
    );
    let end = format!(" with `{from}` in a string, a comment or text");
    Ok(text + &found.notes("Left alone", &end))
}

fn verify_replaced(conversation: &Conversation<'_>, old: &str, new: &str, scope: &Scope) -> Step<String> {
    let result = conversation.result_of(tools::search(Pattern::Text(old), scope))?;
    if !result.success {
        let error = result.error.unwrap_or_default();
        return Ok(format!("{NOT_CONFIRMED}the files could not be searched: {error}"));
    }
    let mut remaining = SearchOutput::from(&result).within(scope);
    remaining
        .matches
        .retain(|line| replace_outside(&line.text, old, new) != line.text);
    if remaining.matches.is_empty() {
        let confirmed = if remaining.truncated {
            format!(
                "the first results of a search have \"{old}\" only as part of \"{new}\"{scope}; further results were not checked"
            )
        } else if new.contains(old) {
            format!("a search finds \"{old}\" only as part of \"{new}\"{scope}")
        } else {
            format!("a search no longer finds \"{old}\"{scope}")
        };
        return Ok(format!("{CONFIRMED}{confirmed}. {MATCHED_ANYWHERE}"));
    }
    let at_least = if remaining.truncated { "at least " } else { "" };
    Ok(format!(
        "{NOT_CONFIRMED}\"{old}\" is left in {at_least}{}{scope}:\n{}",
        counted(remaining.matches.len() as u64, "lines"),
        listing(places(&remaining.matches), remaining.matches.len())
    ))
}

fn replace_text(conversation: &Conversation<'_>, old: &str, new: &str, files: &[String]) -> Step<String> {
    let mut replaced = Vec::new();
    let mut unchanged = Vec::new();
    for path in files {
        match replace_in(conversation, path, old, new)? {
            Ok(0) => unchanged.push(format!("{path} (\"{old}\" is not in it)")),
            Ok(lines) => replaced.push(format!("{path} ({})", counted(lines, "lines"))),
            Err(why) => unchanged.push(format!("{path} ({why})")),
        }
    }
    let mut text = match replaced.as_slice() {
        [] => "No file was changed.".to_owned(),
        files => format!(
            "Replaced \"{old}\" with \"{new}\" in {}.",
            enumerated(files, files.len())
        ),
    };
    if !unchanged.is_empty() {
        text.push_str(&format!(
            " Left as they are: {}.",
            enumerated(&unchanged, unchanged.len())
        ));
    }
    Ok(text)
}

/// Replaces a string in a file with a single edit, which covers the first to the last line with the string. Returns the number of lines
/// with the string.
fn replace_in(
    conversation: &Conversation<'_>,
    path: &str,
    old: &str,
    new: &str,
) -> Step<Result<u64, String>> {
    let (text, offset) = match text_with(conversation, path, old)? {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    let lines: Vec<u64> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| replace_outside(line, old, new) != **line)
        .map(|(number, _)| number)
        .collect();
    let (Some(&first), Some(&last)) = (lines.first(), lines.last()) else {
        return Ok(Ok(0));
    };
    let Some(block) = unique_block(&text, first, last) else {
        return Ok(Err(format!(
            "lines {} to {} occur more than once",
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

/// Reads the part of a file that contains `old`. Returns the text and the number of lines before it: the whole text and 0, or for a long
/// file the lines from the first match to the last.
fn text_with(conversation: &Conversation<'_>, path: &str, old: &str) -> Step<Result<(String, u64), String>> {
    let result = conversation.result_of(tools::read(path, None))?;
    if !result.success {
        return Ok(Err(result.error.unwrap_or_default()));
    }
    let whole = ReadOutput::from(&result);
    if whole.end_line >= whole.total_lines {
        return Ok(Ok((whole.content, 0)));
    }
    let file = Scope {
        only: vec![path.to_owned()],
        ..Scope::default()
    };
    let found = conversation.result_of(tools::search(Pattern::Text(old), &file))?;
    let found = SearchOutput::from(&found);
    let (Some(first), Some(last)) = (found.matches.first(), found.matches.last()) else {
        return Ok(Ok((String::new(), 0)));
    };
    let result = conversation.result_of(tools::read(path, Some((first.line, last.line))))?;
    let part = ReadOutput::from(&result);
    Ok(if result.success && !part.truncated && !found.truncated {
        Ok((part.content, first.line.saturating_sub(1)))
    } else {
        Err("the file is too long to edit".to_owned())
    })
}
