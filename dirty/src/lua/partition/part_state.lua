#!lua flags=no-writes,allow-oom
-- Reads the partition's record and the server's incarnation.
-- KEYS[1] partition record
-- Reply: {incarnation now, recorded incarnation, epoch, generation, source, landed, identity of the
--   database, `collected`, stamp of the epoch}. Without a record the values between first and last are false. The
--   identity is also false if the database is not watched. `collected` is the version source of the
--   last collection, or 0. The stamp is 0 if an older program adopted the epoch.
-- Invariant: both are of one moment.
expect(#KEYS == 1 and #ARGV == 0)
local r = call('HMGET', KEYS[1], 'inc', 'epoch', 'gen', 'src', 'landed', 'db', 'collected', 'stamp')
return { incarnation(), r[1], r[2], r[3], r[4], r[5], r[6], r[7] or '0', r[8] or '0' }
