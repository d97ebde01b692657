//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Ready at the first SIGTERM, SIGINT (Ctrl-C) or SIGHUP (a closed terminal). Logs the next step. A second signal ends the
/// process at once, which is safe at any moment.
pub async fn stop(follows: &str) {
    let Ok(mut signals) = Signals::watch() else {
        tracing::error!("signals can't be watched: stop the process with SIGKILL, which is safe");
        return std::future::pending().await;
    };
    signals.any().await;
    tracing::info!("{follows}");
    tokio::spawn(async move {
        signals.any().await;
        std::process::exit(i32::from(Exit::Signal as u8));
    });
}

/// The signals that end a command in order.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
