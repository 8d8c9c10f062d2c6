//! The words of each language. A phrase is in lower case, with a space between words; Chinese has no spaces.

mod chinese;
mod english;

/// A list of phrases.
pub(super) type Phrases = &'static [&'static str];

/// The phrases of a language, by what they say.
pub(super) struct Language {
    /// What may precede a request: greetings, politeness, words of order, and "I want you to".
    pub(super) openers: Phrases,
    /// What negates the words behind it in a clause.
    pub(super) negations: Phrases,
    /// What turns a negation before it into a request ("don't forget to").
    pub(super) forget: Phrases,
    /// What starts a clause without punctuation and ends a negation ("but").
    pub(super) clause_starts: Phrases,
    /// What joins two names or clauses.
    pub(super) joints: Phrases,
    /// What makes a clause a question, a condition or a statement about something.
    pub(super) not_requests: Phrases,
    /// Who uses a tool where it is not the one who is asked; directly before the verb.
    pub(super) subjects: Phrases,
    /// What allows such a word directly before the verb ("can you", 帮我).
    pub(super) requested: Phrases,

    /// Particles that end a question.
    pub(super) question_ends: Phrases,
    /// Words that make a question of a sentence in any order.
    pub(super) question_words: Phrases,

    /// Verbs of the use of a tool.
    pub(super) use_verbs: Phrases,
    /// Words that only count before a known name ("with").
    pub(super) means: Phrases,
    /// What may stand between the verb and a name.
    pub(super) articles: Phrases,
    /// Articles of no certain tool ("a").
    pub(super) indefinite: Phrases,
    /// Nouns that make the words before them a tool's name.
    pub(super) tool_nouns: Phrases,
    /// Nouns that may follow the name of a known service.
    pub(super) service_nouns: Phrases,
    /// What introduces a name behind the noun ("named").
    pub(super) named: Phrases,
    /// Words that may stand before the noun and are no name ("right").
    pub(super) not_names: Phrases,
    /// Words that no name contains ("to").
    pub(super) never_in_names: Phrases,
    /// Nouns that make the name before them part of the user's code.
    pub(super) code_nouns: Phrases,

    /// What introduces a fact.
    pub(super) remember_that: Phrases,
    /// What introduces a fact before a colon.
    pub(super) remember_colon: Phrases,
    /// What introduces a fact that begins with one of `first_person`, or has one of `fact_verbs`.
    pub(super) remember_me: Phrases,
    /// What introduces a fact unless one of `tasks` follows.
    pub(super) remember_or_task: Phrases,
    /// A whole sentence that keeps what precedes it.
    pub(super) remember_this: Phrases,
    /// What stands before a fact that one of `keep_it` follows (把 … 记住).
    pub(super) object_marks: Phrases,
    /// What follows such a fact.
    pub(super) keep_it: Phrases,
    /// Words for what was just said, which are no fact by themselves.
    pub(super) pronouns: Phrases,
    /// Particles between a request and a fact.
    pub(super) particles: Phrases,
    /// The user as the subject of a fact.
    pub(super) first_person: Phrases,
    /// What is not the subject of a fact ("remember to …").
    pub(super) no_subjects: Phrases,
    /// Verbs of a fact.
    pub(super) fact_verbs: Phrases,
    /// What follows "that" where it points at something ("that film").
    pub(super) pointed_at: Phrases,
    /// What starts a task rather than a fact.
    pub(super) tasks: Phrases,

    /// Asks for facts, whatever follows.
    pub(super) recall: Phrases,
    /// The same, as a question only.
    pub(super) recall_question: Phrases,
    /// Asks for facts where one of `recall_about` follows.
    pub(super) recall_if_about: Phrases,
    /// The same, with a question mark only.
    pub(super) recall_if_marked: Phrases,
    /// The user as the subject of a question for a fact.
    pub(super) recall_about: Phrases,
    /// What follows where the question is about the conversation instead.
    pub(super) recall_conversation: Phrases,
    /// Asks for facts where one of `personal` follows.
    pub(super) recall_if_personal: Phrases,
    /// What people say of themselves.
    pub(super) personal: Phrases,
    /// A whole question for a fact, by its beginning.
    pub(super) recall_whole: Phrases,
    /// Words that say nothing of what is asked for.
    pub(super) query_noise: Phrases,

    /// Undoes the last fact: the whole message.
    pub(super) undo: Phrases,
    /// The same where the message before kept a fact.
    pub(super) undo_if_just_kept: Phrases,
    /// Deletes facts about what follows.
    pub(super) forget_about: Phrases,

    /// Approves a call.
    pub(super) approve: Phrases,
    /// The same, naming the approval.
    pub(super) approve_by_name: Phrases,
    /// Rejects a call.
    pub(super) reject: Phrases,
    /// The same, naming the rejection.
    pub(super) reject_by_name: Phrases,
    /// Neither, or not now.
    pub(super) hedges: Phrases,
    /// Words that add nothing to a decision or choice.
    pub(super) fillers: Phrases,
    /// What introduces a reason.
    pub(super) reasons: Phrases,
    /// What introduces changed parameters.
    pub(super) edits: Phrases,
    /// The same, where something stands between the two words.
    pub(super) edit_pairs: &'static [(&'static str, Phrases)],
    /// What introduces something else to do, at the beginning of a clause.
    pub(super) instead: Phrases,
    /// The same, at the beginning of a message without a rejection.
    pub(super) instead_at_start: Phrases,
    /// The same, at the end.
    pub(super) instead_at_end: Phrases,
    /// What introduces a choice.
    pub(super) choose: Phrases,
    /// What stands before the number of a choice.
    pub(super) number_before: Phrases,
    /// What stands behind it.
    pub(super) number_after: Phrases,
    /// Numbers from 1 on, as words.
    pub(super) numbers: &'static [Phrases],
    /// The last choice.
    pub(super) last: Phrases,
    /// None of the choices; the message is an answer of its own.
    pub(super) none_of_them: Phrases,
}

/// All languages. What a message says counts in each of them, also where it mixes them.
pub(super) const LANGUAGES: [&Language; 2] = [&english::ENGLISH, &chinese::CHINESE];

/// The phrases of all languages.
pub(super) fn all(of: fn(&Language) -> Phrases) -> impl Iterator<Item = &'static &'static str> + Clone {
    LANGUAGES
        .into_iter()
        .flat_map(move |language| of(language).iter())
}
