#!lua flags=allow-oom
-- Raises what is known to have landed, after a fence found a commit that was not settled.
-- KEYS[1] partition record
-- ARGV[1] epoch
-- ARGV[2] how far landings reach
-- Reply: 1.
-- Invariant: `landed` never falls; another epoch or incarnation refuses it.
expect(#KEYS == 1 and #ARGV == 2)
local landed = number(ARGV[2], 'landed')
raise_landed(KEYS[1], in_epoch(KEYS[1], ARGV[1]), landed)
return 1
