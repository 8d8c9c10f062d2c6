//! How a provider's token counts compare with [`estimated_tokens`](crate::token_ratio::estimated_tokens), learned from its own counts.

/// About how many tokens a text has, where nobody has counted: four characters make one, or one that is not ASCII.
pub fn estimated_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = if ascii == text.len() {
        0
    } else {
        text.chars().filter(|character| !character.is_ascii()).count()
    };
    u64::try_from(ascii.div_ceil(4) + others).unwrap_or(u64::MAX)
}

/// Tokens that a provider counts for each estimated one.
///
/// It stays between 0.5 and 4. More is impossible for a tokenizer of bytes: an estimated token stands for four ASCII characters or one
/// other character, which are at most four bytes, and a token is at least one. Less would rest on a server that counts something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRatio {
    per_thousand: u64,
}

impl Default for TokenRatio {
    /// Estimates are taken as they are.
    fn default() -> Self {
        TokenRatio { per_thousand: 1_000 }
    }
}

impl TokenRatio {
    /// A token for each byte.
    pub const MAX: TokenRatio = TokenRatio { per_thousand: 4_000 };

    /// The ratio for a model of which nothing has been counted. Current tokenizers count up to a quarter more than the estimate for
    /// prose and code.
    pub const CAUTIOUS: TokenRatio = TokenRatio { per_thousand: 1_250 };

    /// The ratio of a count to the estimate for the same text.
    pub fn from_counts(counted: u64, estimated: u64) -> Self {
        let per_thousand = counted.saturating_mul(1_000) / estimated.max(1);
        TokenRatio {
            per_thousand: per_thousand.clamp(500, Self::MAX.per_thousand),
        }
    }

    /// The tokens that the provider will count, rounded up.
    pub fn tokens(self, estimated: u64) -> u64 {
        let tokens = (u128::from(estimated) * u128::from(self.per_thousand)).div_ceil(1_000);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Takes the ratio of a further request into account, as an upper estimate: a higher one counts at once, a lower one by an eighth.
    pub fn update(&mut self, seen: TokenRatio) {
        let fall = self.per_thousand.saturating_sub(seen.per_thousand) / 8;
        self.per_thousand = (self.per_thousand - fall).max(seen.per_thousand);
    }
}
