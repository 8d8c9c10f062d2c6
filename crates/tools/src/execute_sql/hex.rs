//! Hexadecimal encoding of bytes for JSON.

/// Encodes bytes, with two digits for each byte.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four_bits: u8| char::from(DIGITS[usize::from(four_bits & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Decodes bytes. `None` unless `digits` is an even number of hexadecimal digits.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
