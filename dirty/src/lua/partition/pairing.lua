#!lua flags=no-writes,allow-oom
-- Reads which database the hot tier belongs to, beside the server that holds it.
-- KEYS[1] settings of all partitions
-- Reply: {incarnation now; time, microseconds; then token, identity of the database, partition count, number of the layout, and since
--   when, microseconds: each false where the hot tier belongs to no database yet}.
-- Invariant: all of it is of one moment.
expect(#KEYS == 1 and #ARGV == 0)
local m = call('HMGET', KEYS[1], 'token', 'database', 'partitions', 'layout', 'since')
return { incarnation(), digits(time()), m[1], m[2], m[3], m[4], m[5] }
