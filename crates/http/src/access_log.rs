//! The request log: one line of JSON for each request.
//!
//! Lines are written by a separate thread. If nobody reads them they are dropped, because a full
//! pipe must not stop the server; the metrics count them.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde_json::Value;

use crate::limits::LOG_LINES_MAX;
use crate::metrics::Metrics;
use crate::outgoing::json_text;

/// Where lines go; nowhere if there is no sink.
pub(crate) struct AccessLog {
    lines: Option<SyncSender<String>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    pub(crate) fn new(sink: Option<Box<dyn Write + Send>>, metrics: Arc<Metrics>) -> AccessLog {
        let lines = sink.map(|mut sink| {
            let (sender, lines) = sync_channel::<String>(LOG_LINES_MAX);
            std::thread::spawn(move || {
                for line in lines {
                    // A request is not refused because its log line cannot be written.
                    drop(sink.write_all(line.as_bytes()).and_then(|()| sink.flush()));
                }
            });
            sender
        });
        AccessLog { lines, metrics }
    }

    pub(crate) fn line(&self, value: &Value) {
        if let Some(sender) = &self.lines
            && sender.try_send(json_text(value) + "\n").is_err()
        {
            self.metrics.log_dropped();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// A pipe that stays full until the test drains it.
    struct Full {
        open: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // When the other end is dropped, everything is read.
            self.open.recv().ok();
            drop(self.written.send(String::from_utf8_lossy(bytes).into_owned()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_nobody_reads_stops_nobody_and_says_how_much_it_lost() {
        let metrics = Arc::new(Metrics::default());
        let ((tap, open), (written, lines)) = (channel(), channel());
        let log = AccessLog::new(Some(Box::new(Full { open, written })), metrics.clone());
        let sent = LOG_LINES_MAX + 100;
        for number in 0..sent {
            log.line(&serde_json::json!({ "number": number }));
        }
        let page = metrics.text(&Default::default());
        let dropped = page.lines().find_map(|line| {
            line.strip_prefix("rethread_log_lines_dropped_total ")?.parse::<usize>().ok()
        });
        let dropped = dropped.expect("the metrics say it");
        // The writing thread may hold one line.
        assert!((99..=100).contains(&dropped), "{dropped}");
        drop(tap);
        let kept: Vec<String> = (0..sent - dropped)
            .map(|_| lines.recv_timeout(Duration::from_secs(60)).expect("a line"))
            .collect();
        assert_eq!(kept[0], "{\"number\":0}\n");
        drop(log);
        assert!(lines.recv_timeout(Duration::from_secs(60)).is_err(), "the rest is gone");
    }
}
