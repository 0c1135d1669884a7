-- Removes a register if it has the revision expected and nobody holds it, and answers with 1; with nothing if not. Nothing is published:
-- nobody waits for a register that nobody holds.
--
-- KEYS: 1 and 2 as in get.lua; 3 the index of names, but not in a cluster
-- ARGV: 1 revision expected, 2 name, with the index
local call = redis.call
local rev, till, stamp, who = string.match(call('GET', KEYS[2]) or ' \n\n', '^(%S*) (%S*) ?(%S*)\n([^\n]*)\n')
if not rev or rev == '' then return false end
if redis.pcall('GET', KEYS[1]) then return false end -- somebody holds the seat, who may not use Regent

if who == '' then
  if rev ~= ARGV[1] then return false end
else -- it must have expired, by the clock of the server that wrote it
  if till == '' or rev .. '!' ~= ARGV[1] then return false end
  local me = server()
  if me ~= '' and me ~= stamp then return false end
  local t = call('TIME')
  if t[1] * 1000 + t[2] / 1000 < tonumber(till) then return false end
end

call('DEL', KEYS[2])
-- A name in the index without a register does no harm, so that a user who may not call ZREM may still remove.
if KEYS[3] then redis.pcall('ZREM', KEYS[3], ARGV[2]) end
return 1
