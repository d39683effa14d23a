//! Each provider against a server that speaks its wire.

mod failures;
mod replies;
mod requests;
mod support;
