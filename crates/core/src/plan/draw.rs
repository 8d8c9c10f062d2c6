//! Drawings of a plan.
