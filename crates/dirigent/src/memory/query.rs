//! Extracts the search words for facts from a text.

/// Maximum number of words of a search.
const MAX_WORDS: usize = 64;

/// English words that occur in nearly every text.
const COMMON: &str = " a about after again all also am an and any are as at be because been before but by can could did do does doing don't \
    for from get go had has have he her here him his how i i'm if in into is it it's its just let like make may me more most my need no not \
    now of on once only or other our out over please same see she should so some such than that the their them then there these they this \
    those to too up us use used uses using very want was we were what when where which while who why will with would yes you your ";

/// Chinese characters that occur in nearly every text. A word of one or two characters that contains one of them is not significant.
const COMMON_HAN: &str =
    "的了是我你他她它们这那在有和与或也都就不没很吗呢吧啊呀把被给对请要会能可以个么什怎哪谁着过到从为让";

/// Returns the words to search for: all words and, for Chinese, each run of characters and each pair within it. Common words are omitted
/// unless the text has no others.
pub(super) fn searched_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in runs(text) {
        match run {
            Run::Word(word) => push(&mut words, word),
            Run::Han(han) => {
                push(&mut words, han.iter().collect());
                if han.len() > 2 {
                    pairs(&han).for_each(|pair| push(&mut words, pair.iter().collect()));
                }
            }
        }
    }
    // Common words match nearly every fact, so they are searched for only if there are no others.
    let telling: Vec<String> = words.iter().filter(|word| !is_common(word)).cloned().collect();
    if telling.is_empty() { words } else { telling }
}

/// Returns the significant words of a text.
pub(super) fn telling_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in runs(text) {
        match run {
            Run::Word(word) if word.chars().count() > 1 => push(&mut words, word),
            Run::Word(_) => {}
            Run::Han(han) => pairs(&han).for_each(|pair| push(&mut words, pair.iter().collect())),
        }
    }
    words.retain(|word| !is_common(word));
    words
}

fn push(words: &mut Vec<String>, word: String) {
    if words.len() < MAX_WORDS && !words.contains(&word) {
        words.push(word);
    }
}

fn is_common(word: &str) -> bool {
    COMMON.contains(&format!(" {word} "))
        || word.chars().count() <= 2 && word.chars().any(|c| COMMON_HAN.contains(c))
}

fn pairs(han: &[char]) -> impl Iterator<Item = &[char]> {
    han.windows(2)
}

/// A part of a text: a word, or a run of characters without spaces.
enum Run {
    /// A word in lower case.
    Word(String),
    /// A run of characters in a script without spaces.
    Han(Vec<char>),
}

fn runs(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for c in text.chars() {
        match runs.last_mut() {
            Some(Run::Han(han)) if is_unspaced(c) => han.push(c),
            _ if is_unspaced(c) => runs.push(Run::Han(vec![c])),
            Some(Run::Word(word)) if is_in_word(c) && !word.is_empty() => word.extend(c.to_lowercase()),
            _ if is_in_word(c) => runs.push(Run::Word(c.to_lowercase().collect())),
            // An empty word marks the end of the previous one.
            Some(_) | None => runs.push(Run::Word(String::new())),
        }
    }
    let is_empty = |run: &Run| matches!(run, Run::Word(word) if !word.contains(char::is_alphanumeric));
    runs.retain(|run| !is_empty(run));
    for run in &mut runs {
        if let Run::Word(word) = run {
            *word = word.trim_matches('\'').to_owned();
        }
    }
    runs
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '\'' || c == '_'
}

/// Returns true for characters of scripts without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}
