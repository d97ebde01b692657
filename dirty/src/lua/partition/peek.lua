#!lua flags=no-writes,allow-oom
-- Reads the sizes of the maps of a partition, how long marks have waited, and the lock.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- KEYS[8] notes
-- Reply: {entries of each of the five maps, since when the dirty map has marks, since when the
--   snapshot has marks, whether marks on probation must become live again, token and holder of the
--   lock, position of the last note, position that notes have landed up to, entries of the stream, 1
--   if lost leads were looked for in this epoch, 1 if there is a record}. Each of the four before the positions is false if
--   there is no such thing.
-- Invariant: all values are of one moment.
expect(#KEYS == 8 and #ARGV == 0)
local reply = {}
for map = 1, 5 do reply[map] = call('HLEN', KEYS[map]) end
local r = call('HMGET', KEYS[6], 'first', 'first_saving', 'requeue', 'epoch', 'resynced', 'note', 'noted')
for i = 1, 3 do reply[5 + i] = r[i] end
reply[9] = holder_of(KEYS[7]) or false
reply[10], reply[11] = r[6] or '0-0', r[7] or '0-0'
reply[12] = call('XLEN', KEYS[8])
reply[13] = r[4] and r[4] == r[5] and 1 or 0
reply[14] = r[4] and 1 or 0
return reply
