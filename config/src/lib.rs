//! Typed settings of the storage, read from a file and from the environment.
