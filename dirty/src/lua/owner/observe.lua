#!lua
-- Observes an owner that has no marker. Sets one, so that a load can prove itself by its number.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- Reply: {marker, whether there is a hash (0 or 1), epoch}.
-- Invariant: the number of the marker is above every number given before (R7).
expect(#KEYS == 3 and #ARGV == 0)
local r = record(KEYS[3])
return { observed(KEYS[2], KEYS[3], r), digits(call('EXISTS', KEYS[1])), r.epoch }
