//! Token estimates, and the ratio between a provider's token counts and these estimates, which is learned from replies.

/// Estimates the number of tokens in the text: one per four ASCII characters, and one per other character.
pub fn estimated_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = if ascii == text.len() {
        0
    } else {
        text.chars().filter(|character| !character.is_ascii()).count()
    };
    u64::try_from(ascii.div_ceil(4) + others).unwrap_or(u64::MAX)
}

/// The number of tokens by which the estimate of a request can be too high, because its parts are rounded up separately.
const ROUNDING: u64 = 8;

/// The number of tokens that a provider counts per estimated token, between 0.5 and 4.
///
/// The ratio of a byte-level tokenizer cannot exceed 4: an estimated token stands for four ASCII characters or one other character, which
/// are at most four bytes, and each counted token has at least one byte. A ratio below 0.5 means that the server's counts are not token
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRatio {
    per_thousand: u64,
}

impl Default for TokenRatio {
    /// Returns a ratio of 1.
    fn default() -> Self {
        TokenRatio { per_thousand: 1_000 }
    }
}

impl TokenRatio {
    /// The maximum ratio: one token per byte.
    pub const MAX: TokenRatio = TokenRatio { per_thousand: 4_000 };

    /// The ratio for a model before its first counted reply. Current tokenizers count up to a quarter more than the estimate for prose and
    /// code.
    pub const CAUTIOUS: TokenRatio = TokenRatio { per_thousand: 1_250 };

    /// Computes the ratio of a provider's count to the estimate for the same text, rounded up. Assumes that the estimate was rounded up as
    /// far as possible, because the estimate of another request may be rounded less.
    pub fn from_counts(counted: u64, estimated: u64) -> Self {
        let unrounded = estimated.saturating_sub(ROUNDING.min(estimated / 8)).max(1);
        let per_thousand = counted.saturating_mul(1_000).div_ceil(unrounded);
        TokenRatio {
            per_thousand: per_thousand.clamp(500, Self::MAX.per_thousand),
        }
    }

    /// Returns the number of tokens that the provider is expected to count for this estimate, rounded up.
    pub fn tokens(self, estimated: u64) -> u64 {
        let tokens = (u128::from(estimated) * u128::from(self.per_thousand)).div_ceil(1_000);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Updates this ratio with the ratio observed for another request. Adopts a higher ratio at once, and moves an eighth of the way
    /// towards a lower one.
    pub fn update(&mut self, observed: TokenRatio) {
        let fall = self.per_thousand.saturating_sub(observed.per_thousand) / 8;
        self.per_thousand = (self.per_thousand - fall).max(observed.per_thousand);
    }
}
