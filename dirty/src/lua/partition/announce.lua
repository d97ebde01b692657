#!lua flags=allow-oom
-- Announces a worker, and forgets those whose announcement ran out.
-- KEYS[1] announcements by the time they run out
-- ARGV[1] name of the worker
-- ARGV[2] time to live, milliseconds
-- Reply: names of all announced workers.
-- Invariant: time is this server's, so that workers' clocks don't matter.
expect(#KEYS == 1 and #ARGV == 2)
local now = time()
local ends = digits(now + number(ARGV[2], 'the time to live') * 1000)
-- A clock that was set back would let the announcements of those who died last for as long (H8).
for _, name in ipairs(call('ZRANGEBYSCORE', KEYS[1], table.concat({ '(', ends }), '+inf')) do
  call('ZADD', KEYS[1], ends, name)
end
call('ZADD', KEYS[1], ends, ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', digits(now))
return call('ZRANGE', KEYS[1], 0, -1)
