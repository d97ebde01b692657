#!lua flags=no-writes,allow-oom
-- What waits in a partition, since when, and who lands it.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] landed marks on probation
-- KEYS[5] landed marks of the window before
-- KEYS[6] partition record
-- KEYS[7] lock
-- Reply: {entries of the five maps; then since when dirty map and snapshot have marks, and whether probation is to end, each false if
--   it is not so; then token and holder, false if nobody holds the lock}.
-- Invariant: all is of one moment.
expect(#KEYS == 7 and #ARGV == 0)
local reply = {}
for map = 1, 5 do reply[map] = call('HLEN', KEYS[map]) end
local r = call('HMGET', KEYS[6], 'first', 'first_saving', 'relive')
for i = 1, 3 do reply[5 + i] = r[i] end
reply[9] = holder_of(KEYS[7]) or false
return reply
