#!lua flags=no-writes,allow-oom
-- Whether a map of marks names the owner: something of it has not landed, was refused or is on probation.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- ARGV[1] the owner's name in the maps
-- Reply: 1 or 0.
-- Invariant: all maps are looked at in one step, since marks move between them.
expect(#KEYS == 5 and #ARGV == 1)
return is_named(1, ARGV[1]) and 1 or 0
