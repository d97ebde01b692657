#!lua
-- The usual script for a hot tier by hand: sets fields of an owner, marks that the owner exists, and adds the fields to the dirty map.
-- KEYS[1] hash of the owner
-- KEYS[2] exist marker of the owner
-- KEYS[3] dirty map
-- ARGV[1] id of the owner
-- ARGV[2..] each field and its value
-- Reply: the number of fields written.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('SET', KEYS[2], '1', 'NX')
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[1] .. ':' .. ARGV[i], '1') end
return (#ARGV - 1) / 2
