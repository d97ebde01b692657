#!lua flags=allow-oom
-- Raises `landed`, after a fence found a commit that was not settled.
-- KEYS[1] partition record
-- ARGV[1] epoch
-- ARGV[2] how far landings reach
-- Reply: 1.
-- Invariant: `landed` never falls. The call fails in another epoch or under another incarnation.
expect(#KEYS == 1 and #ARGV == 2)
local landed = number(ARGV[2], 'landed')
raise_landed(KEYS[1], in_epoch(KEYS[1], ARGV[1]), landed)
return 1
