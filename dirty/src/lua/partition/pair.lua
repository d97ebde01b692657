#!lua flags=allow-oom
-- Records the database that the hot tier belongs to, if server and token are still those seen.
-- KEYS[1] settings of all partitions
-- ARGV[1] incarnation of the server that the caller saw
-- ARGV[2] token that the caller saw. Empty if there was none.
-- ARGV[3] token from now on
-- ARGV[4] identity of the database
-- ARGV[5] partition count
-- ARGV[6] number of the layout
-- ARGV[7] when the hot tier takes over, microseconds
-- Reply: 1 if it did, 0 if the server or the token is another one by now.
-- Invariant: a token names one server, and reaches no other before its data does.
expect(#KEYS == 1 and #ARGV == 7)
if incarnation() ~= ARGV[1] or (call('HGET', KEYS[1], 'token') or '') ~= ARGV[2] then return 0 end
call('HSET', KEYS[1], 'token', ARGV[3], 'database', ARGV[4], 'partitions', ARGV[5], 'layout', ARGV[6], 'since', ARGV[7])
return 1
