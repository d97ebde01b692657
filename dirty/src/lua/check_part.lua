#!lua flags=allow-oom
-- Ends a collection: says under which epoch the values before it were read, raises the source of versions and notes it.
-- KEYS[1] partition record
-- Reply: {epoch, landed, how far a landing of the values reaches at least, generation, identity of the database, false if it is not
--   watched}.
-- Invariant: refused under another incarnation than the recorded one, so what has landed up to `collected` is here, though somebody who
--   did not know of a rewind should write after it; and `collected` is above all that was collected and settled before, so that each
--   landing shows in the database, also of versions that were given without a script and left their source as it is (R14).
expect(#KEYS == 1 and #ARGV == 0)
local r = present(KEYS[1])
local source = digits(math.min(math.max(r.source + 2, time()), VERSION_MAX))
call('HSET', KEYS[1], 'src', source, 'collected', source)
return { r.epoch, digits(r.landed), source, digits(r.generation), call('HGET', KEYS[1], 'db') }
