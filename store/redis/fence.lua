do
  local guard, token = table.remove(KEYS), table.remove(ARGV)
  local mark = redis.call('GET', guard)
  local epoch, term = string.match(token .. ' ', '^(%d+) (%S*) ?$')
  local newest, owner = string.match((mark or '0') .. ' ', '^(%d+) (%S*) ?$')
  if not epoch then return redis.error_reply('ERR fencing token ' .. token .. ': it must be an epoch and a term') end
  if not newest then return redis.error_reply('ERR ' .. guard .. ' is not a fence of Regent') end
  -- Compared as decimal numbers without leading zeros: Lua's own numbers are exact only up to 2^53.
  if #newest > #epoch or #newest == #epoch and newest > epoch then return redis.error_reply('STALE ' .. mark) end
  -- A mark without a term is of an older version, or of a term without a name: the next term with a name takes it.
  if newest == epoch and owner ~= '' and owner ~= term then return redis.error_reply('STALE ' .. mark) end
  if mark ~= token then redis.call('SET', guard, token) end
end
