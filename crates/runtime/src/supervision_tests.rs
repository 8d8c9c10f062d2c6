//! Supervision, tried on real actors.
