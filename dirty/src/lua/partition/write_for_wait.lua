#!lua flags=allow-oom
-- Writes a key, so that a WAIT or WAITAOF behind it covers all earlier writes of the server.
-- The connection of those writes does not matter.
-- KEYS[1] a key of its own
-- Reply: 1.
-- Invariant: no other script reads the key, which expires by itself.
expect(#KEYS == 1 and #ARGV == 0)
call('SET', KEYS[1], '', 'PX', 1000)
return 1
