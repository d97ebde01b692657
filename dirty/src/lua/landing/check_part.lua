#!lua flags=allow-oom
-- Ends a collection: says under which epoch the values before it were read, and notes how far they reach.
-- KEYS[1] partition record
-- Reply: {epoch, landed, how far the values reach, generation, identity of the database, false if it is not
--   watched}.
-- Invariant: refused under another incarnation than the recorded one, so what has landed up to `collected` is here, though somebody who
--   did not know of a rewind should write after it (R14).
expect(#KEYS == 1 and #ARGV == 0)
local r = present(KEYS[1])
local source = digits(r.source)
call('HSET', KEYS[1], 'collected', source)
return { r.epoch, digits(r.landed), source, digits(r.generation), call('HGET', KEYS[1], 'db') }
