#!lua flags=allow-oom
-- Lets a partition be served though its record was made under another incarnation, while the database can't be asked.
-- KEYS[1] partition record
-- ARGV[1] incarnation of the record that was seen
-- ARGV[2] incarnation of the server that was seen
-- Reply: 1 if it may be served, 0 if record or server are no longer those seen.
-- Invariant: whatever is written from then on is told apart, until the partition is adopted (R14).
expect(#KEYS == 1 and #ARGV == 2)
if call('HGET', KEYS[1], 'inc') ~= ARGV[1] or incarnation() ~= ARGV[2] then return 0 end
-- A write without a script would not be told apart.
end_grants(KEYS[1])
-- The first one stays: writes under it may be older than what has landed since.
if ARGV[1] ~= ARGV[2] then call('HSETNX', KEYS[1], 'unv', ARGV[2]) end
return 1
