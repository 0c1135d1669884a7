-- Runs every command that the other scripts use, on keys of its own, and returns those that were refused. A cluster
-- before Redis 7 has no SPUBLISH, which is no refusal.
--
-- ARGV: 1 the shared channel
--       2 the command for the channel of a register
--       3 that channel
local refused = {}
local function try(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err and not (select(1, ...) == 'SPUBLISH' and string.find(r.err, 'nknown')) then
    refused[#refused + 1] = select(1, ...) .. ' (' .. r.err .. ')'
  end
end
try('SET', KEYS[1], 'probe', 'PX', 1000, 'NX')
try('GET', KEYS[1])
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], 1000)
try('DEL', KEYS[1])
try('SET', KEYS[2], 'probe')
try('GET', KEYS[2])
try('PERSIST', KEYS[2])
try('DEL', KEYS[2])
try('TIME')
if KEYS[3] then
  try('ZADD', KEYS[3], 'XX', 0, '')
end
try('PUBLISH', ARGV[1], '')
try(ARGV[2], ARGV[3], '')
return refused
