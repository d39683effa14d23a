//! The HTTP API for editors, scripts and other programs.
//!
//! The path of a request: `serve.rs` accepts the connection, `admission.rs` admits or refuses the
//! request, a handler reads its input (`input.rs`) and calls the owner's
//! [`Handle`](rethread_agent::Handle). `chat.rs` is the contract with editor plugins; `v1/` has
//! every verb. The host decides which agent answers, and when; `turn_events.rs` turns a turn into a
//! response or a stream. Every error is a [problem
//! document](https://www.rfc-editor.org/rfc/rfc9457) (`problem.rs`); every limit is in [`limits`].
//!
//! ```no_run
//! # async fn open(settings: rethread_http::ServerSettings) -> Result<(), rethread_http::ListenError> {
//! let listening = settings.listen(rethread_http::DEFAULT_ADDRESS).await?;
//! println!("listening on http://{}", listening.address());
//! listening.serve(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod access_log;
mod admission;
mod allow_lists;
mod chat;
mod health;
mod hyper_errors;
mod incoming;
mod input;
pub mod limits;
mod listen;
mod metrics;
mod notifying_store;
mod openapi_document;
mod outgoing;
mod problem;
mod quotas;
mod routes;
mod send_timeout;
mod serve;
mod sse;
mod state;
mod tokens;
mod turn_events;
mod v1;

pub use allow_lists::{OBSIDIAN, Rules};
pub use limits::Limits;
pub use listen::{ListenError, ServerSettings};
pub use routes::openapi;

pub use serve::Listening;
pub use tokens::{AccessToken, AccessTokenError, AccessTokens, METRICS_OWNER, TOKENS_OWNER};

/// The default address, which existing plugins expect.
pub const DEFAULT_ADDRESS: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8000);
