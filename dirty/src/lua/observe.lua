#!lua flags=no-writes,allow-oom
-- What a reader remembers before it asks the cold tier (R7, R15).
-- KEYS[1] exist marker
-- KEYS[2] partition record
-- Reply: {marker: "?" unknown, "-" absent or a version; epoch}.
-- Invariant: refused under another incarnation, so what is loaded under the answer was observed on this server.
expect(#KEYS == 2 and #ARGV == 0)
local r = present(KEYS[2])
return { (marker(KEYS[1])), r.epoch }
