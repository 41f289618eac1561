-- Takes back one use of a rate limit. KEYS: limit. ARGV: interval in us.
local arrival = tonumber(redis.call('GET', KEYS[1]) or 0)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local earlier = arrival - ARGV[1]
if earlier <= now then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], string.format('%.0f', earlier), 'PX',
    string.format('%.0f', math.ceil((earlier - now) / 1000) + 1))
end
return 0
