#!lua flags=allow-oom
-- Ends a collection: returns the epoch of the values before it, and notes how far they reach.
-- KEYS[1] partition record
-- Reply: {epoch, landed, how far the values reach, generation, identity of the database (false if
--   it is not watched), 1 if a mark may have partners, the place of the gap that tells the notes of
--   a hot tier that came back older (false if it never did), the stamp of the epoch (false if an
--   older program adopted it)}.
-- Invariant: the call fails under another incarnation than the recorded one. So all landed data up
--   to `collected` is here, even if a client that missed a rewind writes later (R14).
expect(#KEYS == 1 and #ARGV == 0)
local r = present(KEYS[1])
local source = digits(r.source)
call('HSET', KEYS[1], 'collected', source)
local at = call('HMGET', KEYS[1], 'db', 'linked', 'linked_saving', 'older', 'stamp')
return { r.epoch, digits(r.landed), source, digits(r.generation), at[1], (at[2] or at[3]) and 1 or 0, at[4], at[5] }
