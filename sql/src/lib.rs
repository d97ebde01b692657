//! The cold tier: versioned rows in MySQL, MariaDB or SQLite.
