#!lua flags=no-writes,allow-oom
-- Ends a collection: says under which epoch the values before it were read.
-- KEYS[1] partition record
-- Reply: {epoch, landed, generation, identity of the database, false if it is not watched}.
-- Invariant: refused under another incarnation than the recorded one.
expect(#KEYS == 1 and #ARGV == 0)
local r = present(KEYS[1])
return { r.epoch, digits(r.landed), digits(r.generation), call('HGET', KEYS[1], 'db') }
