//! The classes of characters that the pattern of o200k distinguishes, shared by the build script
//! and the code that splits texts.
//!
//! Each is one bit, so a set of classes is a byte as well.

/// Uppercase and titlecase letters: Lu, Lt.
pub(crate) const UPPER: u8 = 1;
/// Lowercase letters: Ll.
pub(crate) const LOWER: u8 = 1 << 1;
/// Letters without case: Lm, Lo.
pub(crate) const CASELESS: u8 = 1 << 2;
/// Combining marks: M.
pub(crate) const MARK: u8 = 1 << 3;
/// Numbers: N.
pub(crate) const NUMBER: u8 = 1 << 4;
/// White space except line breaks.
pub(crate) const SPACE: u8 = 1 << 5;
/// Carriage return and line feed.
pub(crate) const NEWLINE: u8 = 1 << 6;
/// Everything else.
pub(crate) const OTHER: u8 = 1 << 7;
