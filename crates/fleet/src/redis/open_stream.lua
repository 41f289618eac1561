-- KEYS: session. ARGV: node, epoch, stream, kind, max streams, max pending answers, then field and value of each
-- pending answer. Kinds: r requests, l listen.
local streams, pending = KEYS[1] .. ':t', KEYS[1] .. ':o'
local last = redis.call('HGET', streams, ARGV[3] .. ':last')
if last then return {'ok', last} end
local added = (#ARGV - 6) / 2
if redis.call('HLEN', pending) + added > tonumber(ARGV[6]) then return {'pending'} end

-- Streams are ordered by the two numbers of their names.
local function is_before(a, b)
  local a1, a2 = string.match(a, '^(%d+)%.(%d+)$')
  local b1, b2 = string.match(b, '^(%d+)%.(%d+)$')
  if a1 ~= b1 then return tonumber(a1) < tonumber(b1) end
  return tonumber(a2) < tonumber(b2)
end
local known, fields = redis.call('HGETALL', streams), {}
local count, listening, oldest = 0, 0, {}
for i = 1, #known, 2 do fields[known[i]] = known[i + 1] end
for field, kind in pairs(fields) do
  local stream = string.match(field, '^(.*):kind$')
  if stream then
    count = count + 1
    if kind == 'l' then listening = listening + 1 end
    if fields[stream .. ':pending'] == '0' and (not oldest[kind] or is_before(stream, oldest[kind])) then
      oldest[kind] = stream
    end
  end
end
if count >= tonumber(ARGV[5]) then
  -- A stream of changes never ends. Without a bound of their own they would leave no room for those that answer.
  local dropped = (listening > math.max(1, math.floor(tonumber(ARGV[5]) / 4)) and oldest['l']) or oldest['r'] or oldest['l']
  if not dropped then return {'streams'} end
  for _, part in ipairs({'kind', 'last', 'trimmed', 'bytes', 'pending'}) do
    redis.call('HDEL', streams, dropped .. ':' .. part)
  end
  redis.call('DEL', KEYS[1] .. ':e:' .. dropped)
end

redis.call('DEL', KEYS[1] .. ':e:' .. ARGV[3])
redis.call('HSET', streams, ARGV[3] .. ':kind', ARGV[4], ARGV[3] .. ':last', '0-0', ARGV[3] .. ':bytes', '0',
  ARGV[3] .. ':pending', added)
for i = 7, #ARGV, 2 do redis.call('HSET', pending, ARGV[i], ARGV[i + 1]) end
extend(lifetime)
return {'ok', '0-0'}
