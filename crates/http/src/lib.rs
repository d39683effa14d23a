//! Sessions over HTTP: the door for editors, scripts and other programs.
//!
//! A request walks down: `serve.rs` takes the connection, `entrance.rs` lets it in or says why
//! not, a handler reads its input (`input.rs`) and calls a verb. `chat.rs` is the contract of an
//! editor's plugin; `v1/` has every verb. Turns go on by themselves (`turns.rs`), in the order
//! they were asked for ([`Lanes`](rethread_agent::lanes::Lanes)). Every error is a [problem](https://www.rfc-editor.org/rfc/rfc9457)
//! (`problem.rs`); every limit is in [`limits`].
//!
//! ```no_run
//! # async fn open(door: rethread_http::Door) -> Result<(), rethread_http::ListenError> {
//! let listening = door.listen(rethread_http::DEFAULT_ADDRESS).await?;
//! println!("listening on http://{}", listening.address());
//! listening.serve(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod answering;
mod bare;
mod chat;
mod desk;
mod document;
mod door;
mod entrance;
mod house;
mod input;
pub mod limits;
mod log;
mod metrics;
mod owners;
mod problem;
mod routes;
mod rules;
mod runners;
mod serve;
mod sse;
mod tokens;
mod turns;
mod v1;
mod watched;

pub use door::{Door, ListenError};
pub use limits::Limits;
pub use routes::openapi;
pub use rules::{OBSIDIAN, Rules};
pub use runners::Runners;
pub use serve::Listening;
pub use tokens::{TOKENS_OWNER, Token, TokenError, Tokens};

/// Where the door is unless someone says otherwise: where existing plugins look for it.
pub const DEFAULT_ADDRESS: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8000);
