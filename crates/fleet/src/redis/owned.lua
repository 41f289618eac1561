-- Common beginning of changes by the owner. ARGV: node, epoch.
local record = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'state', 'lifetime')
if not record[1] or record[3] == '3' then return {'gone'} end
if record[1] ~= ARGV[1] or record[2] ~= ARGV[2] then return {'fenced', record[1], record[2]} end
local lifetime = record[4]
