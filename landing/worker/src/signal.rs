//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Ready at the first SIGTERM or SIGINT (Ctrl-C). Logs the next step. A second signal ends the
/// process at once, which is safe at any moment.
pub async fn stop(follows: &str) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("signals can't be watched: stop the process with SIGKILL, which is safe");
        return std::future::pending().await;
    };
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("{follows}");
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(i32::from(Exit::Signal as u8));
    });
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
