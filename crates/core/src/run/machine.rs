//! Stub.
/// x
pub struct Run;
