#!lua flags=allow-oom
-- Announces a worker, and forgets workers whose announcements ran out.
-- KEYS[1] announcements, sorted by the time at which they run out
-- ARGV[1] name of the worker
-- ARGV[2] time to live, milliseconds
-- Reply: names of all announced workers.
-- Invariant: the time is this server's, so the workers' clocks do not matter.
expect(#KEYS == 1 and #ARGV == 2)
local now = time()
local ends = digits(now + number(ARGV[2], 'the time to live') * 1000)
-- If the clock was set back, the announcements of dead workers would last longer by as much (H8).
for _, name in ipairs(call('ZRANGEBYSCORE', KEYS[1], table.concat({ '(', ends }), '+inf')) do
  call('ZADD', KEYS[1], ends, name)
end
call('ZADD', KEYS[1], ends, ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', digits(now))
return call('ZRANGE', KEYS[1], 0, -1)
