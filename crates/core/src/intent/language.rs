//! The phrases of each language. Phrases are lowercase, with a space between words; Chinese has no spaces.

mod chinese;
mod english;

/// A list of phrases.
pub(super) type Phrases = &'static [&'static str];

/// The phrases of a language, grouped by meaning.
pub(super) struct Language {
    /// Phrases that may precede a request ("please", "hello", "can you", "I want you to").
    pub(super) openers: Phrases,
    /// Negations of the words after them in the same clause ("don't", "without").
    pub(super) negations: Phrases,
    /// Verbs that turn a negation before them into a request ("don't forget to …").
    pub(super) forget: Phrases,
    /// Words that begin a new clause without punctuation, and so end a negation ("but").
    pub(super) clause_starts: Phrases,
    /// Words that join two names or clauses ("and").
    pub(super) joints: Phrases,
    /// Words before a verb that make its clause a question, a condition or a statement ("how do we use …", "if …").
    pub(super) not_requests: Phrases,
    /// Subjects that, directly before a verb, show that the verb is not a request to Dirigent ("we use …").
    pub(super) subjects: Phrases,
    /// Exceptions to `subjects`: phrases after which a verb is a request ("can you", 帮我).
    pub(super) requested: Phrases,

    /// Particles that end a question (吗). English has none.
    pub(super) question_ends: Phrases,
    /// Words that make a sentence a question, wherever they occur (什么, 谁). English has none.
    pub(super) question_words: Phrases,

    /// Verbs for using a tool ("use", "call").
    pub(super) use_verbs: Phrases,
    /// Words that introduce a tool, but only if the tool is known ("with the search tool").
    pub(super) means: Phrases,
    /// Words that may come between the verb and a name ("use the …").
    pub(super) articles: Phrases,
    /// Articles that do not refer to a particular tool ("use a …").
    pub(super) indefinite: Phrases,
    /// Nouns that make the words before them the name of a tool ("use the … tool").
    pub(super) tool_nouns: Phrases,
    /// Nouns that may follow the name of a known service ("use the … server").
    pub(super) service_nouns: Phrases,
    /// Words between the noun and a name ("the tool named …").
    pub(super) named: Phrases,
    /// Words that may come before the noun but are not a name ("use the right tool").
    pub(super) not_names: Phrases,
    /// Words that do not occur in names ("to", "of").
    pub(super) never_in_names: Phrases,
    /// Nouns that make the name before them part of the user's code ("call the … function").
    pub(super) code_nouns: Phrases,

    /// Phrases that introduce a fact ("remember that …").
    pub(super) remember_that: Phrases,
    /// Phrases that introduce a fact if a colon follows ("make a note: …").
    pub(super) remember_colon: Phrases,
    /// Phrases that introduce a fact if the rest begins with one of `first_person` or contains one of `fact_verbs` ("remember I prefer
    /// tabs").
    pub(super) remember_me: Phrases,
    /// Phrases that introduce a fact unless one of `tasks` follows (别忘了 …). English has none.
    pub(super) remember_or_task: Phrases,
    /// Whole sentences that ask to remember the text before them ("… Please remember that.").
    pub(super) remember_this: Phrases,
    /// Markers before a fact that is followed by one of `keep_it` (把 … 记住). English has none.
    pub(super) object_marks: Phrases,
    /// Verbs after a fact that one of `object_marks` introduced (把 … 记住). English has none.
    pub(super) keep_it: Phrases,
    /// Words that refer to earlier text and are not a fact by themselves ("remember this").
    pub(super) pronouns: Phrases,
    /// Particles between a request and its fact (记住了 …). English has none.
    pub(super) particles: Phrases,
    /// Words that show that a fact is about the user ("my name is …").
    pub(super) about_user: Phrases,
    /// Words that show that a fact is about the project, even if the fact also contains one of `about_user` ("I use
    /// tabs in this project").
    pub(super) about_project: Phrases,
    /// The user as the subject of a fact ("remember I …").
    pub(super) first_person: Phrases,
    /// Words that cannot be the subject of a fact ("remember to …", "remember when …").
    pub(super) no_subjects: Phrases,
    /// Verbs of a fact ("remember the deadline is Friday").
    pub(super) fact_verbs: Phrases,
    /// Words after which "that" refers to a thing and does not introduce a fact ("remember that film").
    pub(super) pointed_at: Phrases,
    /// Verbs that begin a task instead of a fact (别忘了检查 …). English has none.
    pub(super) tasks: Phrases,

    /// Phrases that ask for facts, whatever follows ("what do you remember …").
    pub(super) recall: Phrases,
    /// Phrases that ask for facts if the message is a question ("did I tell you …?").
    pub(super) recall_question: Phrases,
    /// Phrases that ask for facts if one of `recall_about` follows ("do you remember my …").
    pub(super) recall_if_about: Phrases,
    /// Phrases that ask for facts if one of `recall_about` follows and the message ends with a question mark ("remember my …?").
    pub(super) recall_if_marked: Phrases,
    /// Phrases that make the user the subject of a question ("do you remember where I …").
    pub(super) recall_about: Phrases,
    /// Phrases after which the question is about the conversation, not about a fact ("do you remember my last message").
    pub(super) recall_conversation: Phrases,
    /// Phrases that ask for facts if one of `personal` follows ("what is my …").
    pub(super) recall_if_personal: Phrases,
    /// Personal details of a user ("name", "birthday").
    pub(super) personal: Phrases,
    /// The beginnings of complete questions for a fact ("where do I live").
    pub(super) recall_whole: Phrases,
    /// Words that are left out of the search terms of a question ("what", "did", "my").
    pub(super) query_noise: Phrases,

    /// Whole messages that delete the most recently saved fact ("forget what I just said").
    pub(super) undo: Phrases,
    /// Whole messages that delete the most recently saved fact only if the previous message saved it ("never mind").
    pub(super) undo_if_just_kept: Phrases,
    /// Phrases that ask to undo the last save if the conversation has one ("forget that").
    pub(super) undo_if_kept: Phrases,
    /// Phrases that ask to delete the facts about a topic ("forget everything about …").
    pub(super) forget_about: Phrases,

    /// Phrases that approve a call ("yes", "go ahead").
    pub(super) approve: Phrases,
    /// Approvals that can only be about a call ("approve it").
    pub(super) approve_explicitly: Phrases,
    /// Phrases that reject a call ("no", "stop").
    pub(super) reject: Phrases,
    /// Rejections that can only be about a call ("deny it").
    pub(super) reject_explicitly: Phrases,
    /// Phrases of an undecided user ("maybe", "not now").
    pub(super) hedges: Phrases,
    /// Words without influence on a decision or a choice ("thanks", "this one").
    pub(super) fillers: Phrases,
    /// Words that introduce the reason for a rejection ("no, because …").
    pub(super) reasons: Phrases,
    /// Phrases that introduce changed parameters ("change it to …").
    pub(super) edits: Phrases,
    /// Two-part phrases with other words in between, for changed parameters ("change the path … to").
    pub(super) edit_pairs: &'static [(&'static str, Phrases)],
    /// Words that introduce another instruction, at the start of a clause after a rejection ("no, use … instead").
    pub(super) instead: Phrases,
    /// Words that introduce another instruction, at the start of a message without a rejection ("instead …").
    pub(super) instead_at_start: Phrases,
    /// Words that mark another instruction, at the end of a message ("use … instead").
    pub(super) instead_at_end: Phrases,
    /// Phrases that introduce a choice ("I'd go with the … one").
    pub(super) choose: Phrases,
    /// Words before the number of a choice ("option 2").
    pub(super) number_before: Phrases,
    /// Words after the number of a choice ("the second one").
    pub(super) number_after: Phrases,
    /// The numbers from 1 up, as words ("first", "two").
    pub(super) numbers: &'static [Phrases],
    /// Words for the last choice ("the last one").
    pub(super) last: Phrases,
    /// Phrases that reject all choices, so that the whole message is the answer ("something else").
    pub(super) none_of_them: Phrases,
}

/// All supported languages. Every phrase counts in every message, so that a message may mix languages.
pub(super) const LANGUAGES: [&Language; 2] = [&english::ENGLISH, &chinese::CHINESE];

/// The phrases of this kind in all languages.
pub(super) fn all(of: fn(&Language) -> Phrases) -> impl Iterator<Item = &'static &'static str> + Clone {
    LANGUAGES
        .into_iter()
        .flat_map(move |language| of(language).iter())
}
