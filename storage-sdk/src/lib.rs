//! The storage SDK that a game server links: ByteStorage and ObjStorage.
