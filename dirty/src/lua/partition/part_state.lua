#!lua flags=no-writes,allow-oom
-- The partition's record beside the server's incarnation.
-- KEYS[1] partition record
-- Reply: {incarnation now; then recorded incarnation, epoch, generation, source and landed, each false without a record; then the
--   identity of the database, false if it is not watched; the source when values were last collected}.
-- Invariant: both are of one moment.
expect(#KEYS == 1 and #ARGV == 0)
local r = call('HMGET', KEYS[1], 'inc', 'epoch', 'gen', 'src', 'landed', 'db', 'collected')
return { incarnation(), r[1], r[2], r[3], r[4], r[5], r[6], r[7] or '0' }
