//! A crash at every step.
