//! The landing-worker program: run, migrate, status, drain, import, export, demo.
