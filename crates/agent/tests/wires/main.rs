//! Each provider against a server that speaks its wire.

mod desk;
mod failures;
mod replies;
mod requests;
