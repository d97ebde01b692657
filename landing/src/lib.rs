//! Landing: what needs both tiers, and the worker that moves dirty data into the database.
