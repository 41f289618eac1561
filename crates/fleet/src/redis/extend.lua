-- Functions that extend the lifetime of a session, in ms. Its parts have keys that begin with KEYS[1]: ':x' entries,
-- ':t' streams, ':o' pending answers, ':e:<stream>' events.
local function extend(lifetime)
  for _, part in ipairs({'', ':x', ':t', ':o'}) do redis.call('PEXPIRE', KEYS[1] .. part, lifetime) end
end
local function extend_with_events(lifetime)
  extend(lifetime)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1] .. ':t')) do
    local stream = string.match(field, '^(.*):kind$')
    if stream then redis.call('PEXPIRE', KEYS[1] .. ':e:' .. stream, lifetime) end
  end
end
