//! A reader by SQL beside the play: it adds up the amounts of all purses, in one statement.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::oracle::Flaw;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// The purses that do not add up to zero.
const UNEVEN: &str = "SELECT owner_id, CAST(SUM(CAST(CONVERT(value USING utf8mb4) AS SIGNED)) AS SIGNED) AS total FROM landing_rows \
                      WHERE logic_type = 'purse' AND is_del = 0 GROUP BY owner_id HAVING total <> 0";

/// Looks at the rows until it is told to stop. The database may be away meanwhile. Returns the number of looks, and the flaws.
pub async fn watch(database: &str, mut stop: oneshot::Receiver<()>) -> (u64, Vec<Flaw>) {
    let (mut looks, mut flaws) = (0, Vec::new());
    let mut connection: Option<MySqlConnection> = None;
    loop {
        let looked = tokio::select! {
            looked = look(database, &mut connection) => looked,
            _ = &mut stop => return (looks, flaws),
        };
        match looked {
            Ok(uneven) => {
                looks += 1;
                flaws.extend(uneven.into_iter().map(|(owner, total)| {
                    let detail = format!("a reader by SQL saw amounts that add up to {total}");
                    Flaw::new("V10", &format!("purse/{owner}"), detail)
                }));
                flaws.truncate(20);
            }
            Err(_) => connection = None,
        }
        sleep(PAUSE).await;
    }
}

async fn look(
    database: &str,
    connection: &mut Option<MySqlConnection>,
) -> sqlx::Result<Vec<(String, i64)>> {
    if connection.is_none() {
        *connection = Some(MySqlConnection::connect(database).await?);
    }
    match connection {
        Some(open) => sqlx::query_as(UNEVEN).fetch_all(open).await,
        None => Ok(Vec::new()),
    }
}
