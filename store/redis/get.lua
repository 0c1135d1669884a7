-- Reads a register: its revision, its record, how long the seat still lives in milliseconds (-1: no matter), and who holds the seat if it is
-- somebody who does not use Regent. Nothing if it was never written.
--
-- KEYS: 1 the seat, which anybody may look at: its holder, expiring as the lease does
--       2 the register, which never expires: rev, who (the seat's value, '' if vacant), till (when the seat expires, in milliseconds of
--         this server, '' if it does not), note (what else makes a change of hands) and record

-- Nothing is changed by this, but a server that would not take a write (a replica, a primary that has lost its replicas) refuses it:
-- what such a server shows may be old.
redis.call('PERSIST', KEYS[2])
local m = redis.call('HMGET', KEYS[2], 'rev', 'who', 'till', 'record')
local rev, who, till = m[1] or '', m[2] or '', m[3] or ''
local seat = redis.pcall('GET', KEYS[1])
if type(seat) == 'table' then
  if not string.find(seat.err, 'WRONGTYPE', 1, true) then return seat end
  seat = '(not a string)'
end
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A revision has a mark when the seat is not as the register has it. ! it has expired. ~ it is in other hands, until the time that is part
-- of it: when that is put off, the revision changes, as with every renewal.
if seat and (seat ~= who or who == '') then
  local left = redis.call('PTTL', KEYS[1])
  rev = rev .. '~' .. redis.sha1hex(seat)
  if left >= 0 then rev = rev .. string.format('.%.0f', math.floor((now() + left + 50) / 100)) end
  return {rev, m[4] or '', left, seat}
end
if rev == '' then return false end
local left = -1
if till ~= '' and seat then
  left = redis.call('PTTL', KEYS[1])
elseif till ~= '' then
  -- A seat that is gone before its time was deleted or evicted, and its holder does not know: it holds it until then.
  left = till - now()
  if left <= 0 then rev = rev .. '!' end
end
return {rev, m[4], left}
