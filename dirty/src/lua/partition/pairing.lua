#!lua flags=no-writes,allow-oom
-- Reads the database that the hot tier belongs to, and the incarnation of its server.
-- KEYS[1] settings of all partitions
-- Reply: {incarnation now, time in microseconds, token, identity of the database, partition count,
--   number of the layout, when the hot tier took over in microseconds}. The token and all values
--   after it are false while the hot tier belongs to no database.
-- Invariant: all values are of one moment.
expect(#KEYS == 1 and #ARGV == 0)
local m = call('HMGET', KEYS[1], 'token', 'database', 'partitions', 'layout', 'since')
return { incarnation(), digits(time()), m[1], m[2], m[3], m[4], m[5] }
