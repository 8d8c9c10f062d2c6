//! English phrases. "'" also matches the other forms of the apostrophe.

use super::Language;

#[rustfmt::skip] // One phrase per line would hide the lists.
pub(super) const ENGLISH: Language = Language {
    openers: &[
        "please", "pls", "kindly", "hey", "hi", "hello", "dirigent", "ok", "okay", "so", "well", "yes", "yeah", "sure", "now",
        "then", "next", "first", "also", "and", "just", "again", "always", "can you", "could you", "would you", "will you",
        "you can", "you could", "you may", "you should", "you must", "let's", "let us", "i want you to", "i'd like you to",
        "i would like you to", "i need you to", "i want to", "i'd like to", "i would like to", "go ahead and", "try to",
        "by the way", "btw", "for the future", "for later", "from now on", "and then",
    ],
    negations: &[
        "not", "no", "never", "without", "avoid", "stop", "nor", "neither", "cannot", "don't", "dont", "doesn't", "didn't",
        "won't", "wouldn't", "can't", "couldn't", "shouldn't", "mustn't", "needn't", "isn't", "aren't", "rather than",
        "instead of", "except",
    ],
    forget: &["forget", "hesitate"],
    clause_starts: &["but", "then"],
    joints: &["and", "or", "&"],
    not_requests: &[
        "how", "why", "when", "where", "what", "which", "who", "whose", "whether", "if", "unless", "because", "that", "did",
        "does", "was", "were", "is", "are", "has", "have", "had", "be",
    ],
    subjects: &["i", "we", "he", "she", "they", "it", "you", "people", "users", "us", "others"],
    requested: &[
        "can you", "could you", "would you", "will you", "please you", "let us", "should you",
    ],
    question_ends: &[],
    question_words: &[],

    use_verbs: &["use", "call", "invoke"],
    means: &["using", "with", "via", "through"],
    articles: &["the", "your", "my", "our"],
    indefinite: &["a", "an", "any", "some"],
    tool_nouns: &["tool", "tools", "mcp server", "mcp service", "mcp tool", "mcp tools", "mcp"],
    service_nouns: &["service", "server"],
    named: &["named", "called"],
    not_names: &[
        "right", "same", "best", "other", "another", "proper", "appropriate", "correct", "following", "above", "below", "every",
        "each", "available", "new", "existing", "wrong", "only", "first", "second", "third", "last", "default", "provided",
        "given", "command", "line", "command-line", "cli", "different", "good", "better", "simple", "own", "no", "all", "many",
        "few", "more", "necessary", "usual", "suitable", "relevant", "built-in", "third-party",
    ],
    never_in_names: &[
        "to", "for", "of", "in", "on", "with", "as", "is", "are", "it", "this", "that", "these", "those", "what", "which",
        "from", "by", "at", "be", "was", "a", "an", "the", "your", "my", "our", "their", "his", "her", "its", "any", "some",
        "when", "if", "not", "i", "you", "we", "they",
    ],
    code_nouns: &[
        "function", "functions", "method", "methods", "class", "classes", "variable", "variables", "field", "endpoint",
        "parameter", "argument", "module", "crate", "package", "library", "api", "macro", "constant", "helper",
    ],

    remember_that: &[
        "remember that", "remember the fact that", "memorize that", "memorise that", "don't forget that", "do not forget that",
        "dont forget that", "never forget that", "make a note that", "take a note that", "commit to memory that",
        "remember for later that", "remember for the future that", "remember from now on that",
    ],
    remember_colon: &[
        "remember", "remember this", "remember that", "remember the following", "memorize", "memorise", "memorize this",
        "memorise this", "make a note", "take a note", "note for later", "save to memory", "add to memory", "save this to memory",
        "add this to memory", "save to your memory", "add to your memory", "save this to your memory", "add this to your memory",
        "keep in memory", "don't forget", "do not forget", "don't forget this",
    ],
    remember_me: &["remember", "memorize", "memorise", "don't forget", "do not forget"],
    remember_or_task: &[],
    remember_this: &[
        "remember that", "remember this", "remember it", "remember that for me", "remember this for me", "remember",
        "keep that in mind for the future", "don't forget that", "don't forget it", "do not forget that", "make a note of that",
        "make a note of it", "memorize that", "memorise that",
    ],
    object_marks: &[],
    keep_it: &[],
    pronouns: &["that", "this", "it"],
    particles: &[],
    about_user: &["i", "i'm", "i've", "i'd", "i'll", "im", "me", "my", "mine", "myself"],
    about_project: &[
        "we", "we're", "we've", "we'll", "our", "ours", "us", "this project", "this repository", "this repo", "this folder",
        "this directory", "this workspace", "this codebase", "this code base", "the project", "the repository", "the repo",
    ],
    first_person: &["i", "i'm", "i've", "i'd", "i'll", "im", "we", "we're", "we've", "we'll"],
    no_subjects: &[
        "to", "when", "how", "what", "where", "why", "who", "if", "me", "him", "her", "them", "us", "it", "this", "that", "from",
        "only", "for", "about", "and", "or",
    ],
    fact_verbs: &[
        "is", "are", "was", "were", "isn't", "aren't", "has", "have", "had", "equals", "likes", "like", "prefers", "prefer",
        "lives", "live", "works", "work", "uses", "use", "wants", "needs", "hates", "starts", "ends", "runs", "speaks", "moved",
        "named", "stands", "means", "costs",
    ],
    pointed_at: &[
        "time", "night", "day", "film", "movie", "book", "song", "guy", "person", "place", "one", "thing", "bug", "issue", "game",
        "scene", "episode", "story", "idea", "plan", "approach", "part", "file", "for", "about",
    ],
    tasks: &[],

    recall: &[
        "what did i tell you", "what have i told you", "what did i ask you to remember", "what do you remember",
        "what do you still remember", "what have you remembered", "what did you remember", "what do you know about me",
        "what do you know about my", "show me what you remember", "list what you remember", "tell me what you remember",
        "do you remember what i told you", "remember what i told you", "recall what i told you", "remind me what i told you",
        "remind me of what i told you", "tell me what i told you", "do you remember anything about me", "list your memories",
        "show me your memories", "what is in your memory", "what's in your memory",
    ],
    recall_question: &["have i told you", "did i tell you", "did i ever tell you"],
    recall_if_about: &[
        "do you remember", "do you still remember", "do you recall", "can you recall", "you remember", "have you remembered",
        "did you remember",
    ],
    recall_if_marked: &["remember"],
    recall_about: &[
        "me", "my", "our", "i", "where i", "where my", "where we", "when i", "when my", "when we", "who i", "who my", "how i",
        "how old i", "how my", "what i", "what my", "what's my", "what our", "what we", "which", "that i", "that my", "that we",
        "if i", "if my", "whether i", "whether my", "about me", "anything about me", "anything i told you",
    ],
    recall_conversation: &[
        "my last", "my previous", "my first", "my earlier", "my code", "my question", "my message", "what i just", "what we just",
        "what i said", "what i asked", "what my last", "what my previous", "what my first",
    ],
    recall_if_personal: &[
        "what's my", "whats my", "what is my", "what was my", "what are my", "when is my", "when's my", "who is my", "who's my",
        "remind me what my", "remind me of my", "tell me my", "tell me what my", "do you know my", "do you know what my",
        "do you know when my",
    ],
    personal: &[
        "name", "nickname", "birthday", "birthdate", "date of birth", "age", "email", "e-mail", "phone number", "phone", "address",
        "hometown", "timezone", "time zone", "job", "profession", "employer", "company", "favourite", "favorite", "preferred",
        "preference", "preferences", "pronouns", "wife", "wife's", "husband", "husband's", "partner", "partner's", "son", "son's",
        "daughter", "daughter's", "children", "dog", "dog's", "cat", "cat's", "pet", "pet's", "boss", "boss's", "manager",
        "manager's", "allergy", "allergies",
    ],
    recall_whole: &[
        "where do i live", "where do i work", "how old am i", "what do i like", "what do i prefer", "when was i born",
        "where am i from", "what am i allergic to",
    ],
    query_noise: &[
        "what", "what's", "whats", "where", "when", "who", "who's", "which", "how", "is", "are", "was", "were", "am", "do", "did",
        "does", "have", "has", "i", "i'm", "me", "my", "our", "we", "you", "the", "a", "an", "about", "of", "to", "that", "it",
        "this", "if", "whether", "again", "please", "tell", "told", "remember", "remind", "know", "known", "anything", "called",
        "and", "in", "on", "for", "be", "been", "ever", "still",
    ],

    undo: &[
        "undo that memory", "undo the memory", "undo the last memory", "forget what i just told you", "forget what i just said",
        "forget what you just remembered", "forget the last thing i told you", "delete that memory", "remove that memory",
        "delete the last memory", "don't remember that", "do not remember that", "don't remember this", "do not remember this",
        "don't remember it", "unremember that",
    ],
    undo_if_just_kept: &[
        "undo", "undo that", "undo it", "undo this", "never mind", "nevermind",
        "scratch that", "take that back", "i take that back", "delete that", "delete it",
        "remove that", "remove it",
    ],
    undo_if_kept: &["forget that", "forget it", "forget this", "don't keep that", "don't keep it"],
    forget_about: &[
        "forget what i told you about", "forget everything i told you about", "forget everything about", "forget that i",
        "forget that i'm", "forget that my", "forget that we", "forget about my", "forget my", "delete the memory about",
        "delete your memory of", "delete what you know about", "forget what you know about",
    ],

    approve: &[
        "yes", "yep", "yeah", "yup", "y", "sure", "sure thing", "ok", "okay", "k", "fine", "that's fine", "it's fine", "alright",
        "all right", "go ahead", "go for it", "go", "do it", "do that", "do so", "please do", "run it", "run that", "execute it",
        "proceed", "continue", "carry on", "sounds good", "sounds good to me", "looks good", "looks good to me", "looks fine",
        "lgtm", "agreed", "agree", "i agree", "of course", "absolutely", "definitely", "certainly", "no problem", "correct", "right",
        "that's right", "that's ok", "that's okay", "you may", "you can", "yes you may", "yes you can", "be my guest", "👍", "✅",
        "👌",
    ],
    approve_explicitly: &[
        "approve", "approved", "i approve", "approve it", "approve that", "approve this", "approve this one", "approve that one", "approve the call", "accept", "accepted",
        "accept it", "allow", "allowed", "allow it", "permit it", "confirm", "confirmed", "i confirm", "granted",
    ],
    reject: &[
        "no", "nope", "nah", "n", "no way", "no thanks", "no thank you", "don't", "dont", "do not", "please don't", "don't do it",
        "don't do that", "don't do this", "do not do it", "do not do that", "don't run it", "don't run that", "don't run this", "don't proceed", "do not proceed", "don't continue", "do not continue",
        "don't go ahead", "do not go ahead", "i disagree", "disagree", "do not run it",
        "don't execute it", "never", "stop", "stop it", "cancel", "cancel it", "abort", "absolutely not", "certainly not",
        "definitely not", "of course not", "not ok", "not okay", "👎", "❌", "🚫",
    ],
    reject_explicitly: &[
        "reject", "rejected", "i reject", "i don't approve", "i do not approve", "reject it", "reject that", "reject this", "reject the call", "deny", "denied", "deny it",
        "decline", "declined", "refuse", "refused", "i refuse", "disallow", "don't approve", "don't approve it", "do not approve",
        "do not approve it", "don't allow it", "do not allow it", "not approved", "not allowed",
    ],
    hedges: &[
        "maybe", "perhaps", "probably", "possibly", "i guess", "i guess so", "i think so", "i think", "i suppose", "i suppose so",
        "not sure", "i'm not sure", "unsure", "i don't know", "i dont know", "don't know", "idk", "dunno", "depends", "it depends",
        "whatever", "hmm", "hm", "mm", "um", "uh", "wait", "later", "not yet", "not now", "let me think", "let me see", "hold on",
        "one moment", "up to you", "you decide", "either", "both", "any", "whichever", "kind of", "sort of",
    ],
    fillers: &[
        "please", "thanks", "thank you", "then", "it", "that", "this", "now", "just", "so", "with it", "with that", "right away",
        "the call", "this call", "that call", "for me", "well", "oh", "ah", "mate", "dirigent", "and", "i say", "from me", "to that",
        "to me", "with this", "this one", "that one",
    ],
    reasons: &["because", "since", "as", "it's", "that's", "it is", "that is", "too", "this is", "it would", "that would"],
    edits: &[
        "change it to", "change that to", "change this to", "make it", "make that", "edit", "edit it", "edit the parameters",
        "with these parameters", "with the parameters", "replace it with", "replace that with", "change the parameters to",
    ],
    edit_pairs: &[
        ("change the command", &["to"]), ("change the path", &["to"]), ("change the file", &["to"]), ("change the url", &["to"]),
        ("change the query", &["to"]), ("change the timeout", &["to"]), ("change the message", &["to"]), ("change the text", &["to"]),
        ("change the content", &["to"]), ("change the parameter", &["to"]), ("change the argument", &["to"]),
        ("change the value", &["to"]), ("change", &["to"]), ("set the", &["to"]),
    ],
    instead: &["instead", "rather", "use", "try", "do", "run", "first", "but"],
    instead_at_start: &["instead"],
    instead_at_end: &["instead", "first", "rather"],
    choose: &[
        "i choose", "i pick", "i take", "i'd take", "i'll take", "i prefer", "i'd prefer", "i'd pick", "i'd choose", "i'd go with",
        "i'd go for", "i want", "i'd like", "let's go with", "let's use", "let's take", "let's do", "go with", "go for", "choose",
        "pick", "take", "use", "select", "it's", "my choice is", "i'll go with", "the answer is", "answer",
    ],
    number_before: &["the", "option", "choice", "number", "no", "answer", "item"],
    number_after: &["one", "option", "choice", "answer", "item"],
    numbers: &[
        &["first", "1st", "one", "former"], &["second", "2nd", "two"], &["third", "3rd", "three"], &["fourth", "4th", "four"],
        &["fifth", "5th", "five"], &["sixth", "6th", "six"], &["seventh", "7th", "seven"], &["eighth", "8th", "eight"],
        &["ninth", "9th", "nine"], &["tenth", "10th", "ten"],
    ],
    last: &["last", "latter"],
    none_of_them: &["none of them", "none of these", "none of those", "none", "neither", "other", "something else", "my own answer"],
};
