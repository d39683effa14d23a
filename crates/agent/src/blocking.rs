//! Runs blocking work: disk, tools, databases.

use tokio::task::spawn_blocking;

/// Runs blocking work on a thread for that purpose. A panic is propagated to the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down: nobody waits for this any more.
            Err(_) => std::future::pending().await,
        },
    }
}
