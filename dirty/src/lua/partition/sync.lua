#!lua flags=allow-oom
-- Writes something, so that a WAIT or WAITAOF behind it covers all that the server did before, on whichever connection.
-- KEYS[1] a key of its own
-- Reply: 1.
-- Invariant: none depends on it; the key goes by itself.
expect(#KEYS == 1 and #ARGV == 0)
call('SET', KEYS[1], '', 'PX', 1000)
return 1
