#!lua flags=no-writes,allow-oom
-- Whether a map of marks names the owner.
-- Then a change of the owner is unlanded, in the error map or on probation.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- ARGV[1] the owner's name in the maps
-- ARGV[2] epoch in which the answer counts. Empty if any epoch will do.
-- Reply: 1 or 0.
-- Invariant: all maps are read in one step, since marks move between them. A call with an epoch
--   fails in another epoch or under another incarnation.
expect(#KEYS == 6 and #ARGV == 2)
if ARGV[2] ~= '' then in_epoch(KEYS[6], ARGV[2]) end
return is_named(1, ARGV[1]) and 1 or 0
