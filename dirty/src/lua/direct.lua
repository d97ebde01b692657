#!lua
-- Goes before a transaction of plain commands, and keeps it from being applied if it comes too late, or to a server in another history.
-- KEYS[1] writer, whose key is watched
-- ARGV[1] replication history in which the writer was granted what it builds on, as INFO names it: "master_replid:…\r"
-- ARGV[2] the earliest deadline of the transaction's writes, microseconds since 1970
-- Reply: 1 if the transaction may be applied, 0 if it will not be.
-- Invariant: as update.lua, a write is applied before its deadline, by a server that has forgotten nothing since (R11, R14).
local clock = redis.call('TIME')
local here = string.find(redis.call('INFO', 'replication'), ARGV[1], 1, true)
if here and clock[1] * 1000000 + clock[2] < tonumber(ARGV[2]) then return 1 end
redis.call('DEL', KEYS[1])
return 0
