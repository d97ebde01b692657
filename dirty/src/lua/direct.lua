#!lua
-- Goes before a transaction of plain commands, and keeps it from being applied if it comes too late.
-- KEYS[1] writer, whose key is watched
-- ARGV[1] the earliest deadline of the transaction's writes, microseconds since 1970
-- Reply: 1 if the transaction may be applied, 0 if it will not be.
-- Invariant: as update.lua, a write is applied before its deadline (R11).
local clock = redis.call('TIME')
if clock[1] * 1000000 + clock[2] < tonumber(ARGV[1]) then return 1 end
redis.call('DEL', KEYS[1])
return 0
