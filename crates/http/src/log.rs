//! The request log: one line of JSON for each request.
//!
//! Lines are written by a thread of their own. Where nobody takes them they are dropped, because
//! a full pipe must not stop the server.

use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde_json::Value;

use crate::limits::LOG_LINES_MAX;

/// Where lines go; nowhere without a sink.
pub(crate) struct Log(Option<SyncSender<String>>);

impl Log {
    pub(crate) fn new(sink: Option<Box<dyn Write + Send>>) -> Log {
        Log(sink.map(|mut sink| {
            let (sender, lines) = sync_channel::<String>(LOG_LINES_MAX);
            std::thread::spawn(move || {
                for line in lines {
                    // A log that cannot be written is no reason to refuse a request.
                    drop(sink.write_all(line.as_bytes()).and_then(|()| sink.flush()));
                }
            });
            sender
        }))
    }

    pub(crate) fn line(&self, value: &Value) {
        if let Some(sender) = &self.0 {
            drop(sender.try_send(format!("{value}\n")));
        }
    }
}
