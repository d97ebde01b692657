#!lua flags=no-writes,allow-oom
-- What a reader remembers before it asks the cold tier (R7, R15).
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- Reply: {marker: "?" unknown, "-" absent or a version, one below the marker while the hash holds unlanded data; epoch}.
-- Invariant: refused under another incarnation, so what is loaded under the answer was observed on this server.
expect(#KEYS == 3 and #ARGV == 0)
local r = present(KEYS[3])
return { observed(header(KEYS[1]), (marker(KEYS[2], r))), r.epoch }
