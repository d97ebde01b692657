#!lua flags=allow-oom
-- Ends a collection: says under which epoch the values before it were read, and notes how far the source of versions was then.
-- KEYS[1] partition record
-- Reply: {epoch, landed, generation, identity of the database, false if it is not watched}.
-- Invariant: refused under another incarnation than the recorded one, so every version up to `collected` was given to a write that
--   is here, though somebody who did not know of a rewind should write after it (R14).
expect(#KEYS == 1 and #ARGV == 0)
local r = present(KEYS[1])
if r.collected ~= r.source then call('HSET', KEYS[1], 'collected', digits(r.source)) end
return { r.epoch, digits(r.landed), digits(r.generation), call('HGET', KEYS[1], 'db') }
