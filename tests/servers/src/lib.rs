//! Starts Redis, Redis Cluster and MariaDB in temporary folders, for tests and the demo.
