//! dirigent
