#!lua flags=no-writes,allow-oom
-- Reads the sizes of the maps of a partition, how long marks have waited, and the lock.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- Reply: {entries of each of the five maps, since when the dirty map has marks, since when the
--   snapshot has marks, whether marks on probation must become live again, token and holder of the
--   lock}. Each of the last four is false if there is no such thing.
-- Invariant: all values are of one moment.
expect(#KEYS == 7 and #ARGV == 0)
local reply = {}
for map = 1, 5 do reply[map] = call('HLEN', KEYS[map]) end
local r = call('HMGET', KEYS[6], 'first', 'first_saving', 'requeue')
for i = 1, 3 do reply[5 + i] = r[i] end
reply[9] = holder_of(KEYS[7]) or false
return reply
