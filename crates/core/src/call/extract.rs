//! x
/// x
pub enum Malformed {}
/// x
pub enum Said {}
/// x
pub fn parse() {}
