//! Moving a slot from one master to another, step by step.

use anyhow::{Context as _, Result, bail};

use crate::{RedisCluster, RedisServer, Reply};

/// The longest time that one MIGRATE can take, in milliseconds.
const MIGRATE_TIMEOUT: &str = "5000";

/// A slot that is on its way between two masters.
///
/// Until [`finish`](Self::finish) the old master serves the keys that it still has and answers ASK
/// for the others. A command on keys of both kinds gets TRYAGAIN. A move that is dropped stays
/// half-way. Begin it again to go on.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl<'a> SlotMove<'a> {
    /// Marks `slot` as migrating on the master that has it and as importing on the master with
    /// index `to`.
    ///
    /// # Errors
    /// There is no such slot or node, the node has the slot already or is not a master, or a node
    /// is down.
    ///
    /// # Cancel safety
    /// A cancelled call may leave one node or both marked. Begin again.
    pub async fn begin(cluster: &'a RedisCluster, slot: u16, to: usize) -> Result<Self> {
        let from = cluster.node(cluster.owner_of(slot).await?)?;
        let to = cluster.node(to)?;
        let slot = slot.to_string();
        to.call(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from).await?])
            .await?;
        from.call(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to).await?])
            .await?;
        Ok(Self {
            cluster,
            slot,
            from,
            to,
        })
    }

    /// Moves up to `limit` keys and returns their number. 0 means that none are left.
    ///
    /// # Errors
    /// A node is down or rejected its part.
    ///
    /// # Cancel safety
    /// The keys of a cancelled call are on one of the two nodes, each with its whole value. Call
    /// again.
    pub async fn migrate(&self, limit: usize) -> Result<usize> {
        let keys = self
            .from
            .call(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &limit.to_string()])
            .await?;
        let Reply::Array(keys) = keys else {
            bail!("GETKEYSINSLOT answered {keys:?}")
        };
        if keys.is_empty() {
            return Ok(0);
        }
        let port = self.to.port().to_string();
        // While the slot moves, the source's copy is the valid one. So it replaces the rest of an
        // interrupted call.
        let mut command: Vec<&[u8]> = vec![
            b"MIGRATE",
            b"127.0.0.1",
            port.as_bytes(),
            b"",
            b"0",
            MIGRATE_TIMEOUT.as_bytes(),
            b"REPLACE",
        ];
        if let Some(password) = self.to.password() {
            command.extend([b"AUTH".as_slice(), password.as_bytes()]);
        }
        command.push(b"KEYS");
        for key in &keys {
            let Reply::Bytes(key) = key else {
                bail!("GETKEYSINSLOT answered a key {key:?}")
            };
            command.push(key);
        }
        self.from.call(&command).await?;
        Ok(keys.len())
    }

    /// Gives the slot to its new master and waits until all nodes know.
    ///
    /// # Errors
    /// Keys are left on the old master, a node is down, or the nodes do not agree within a minute.
    ///
    /// # Cancel safety
    /// The slot of a cancelled call has one master or the other, and the nodes learn of it from
    /// each other.
    pub async fn finish(self) -> Result<()> {
        let new = id(self.to).await?;
        // ORDER: the new master first, otherwise the slot has none for a moment.
        for node in [self.to, self.from] {
            let assign = node
                .call(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &new])
                .await;
            assign.with_context(|| format!("cannot assign slot {}", self.slot))?;
        }
        self.cluster.settled().await
    }
}

async fn id(node: &RedisServer) -> Result<String> {
    Ok(node.call(&["CLUSTER", "MYID"]).await?.text()?.to_owned())
}
