-- KEYS: session, lease of the dead owner, lease of the adopter, index of the dead owner, index of the adopter.
-- ARGV: adopter, dead owner, its epoch, highest known version, replication id or '', session.
-- Another replication id than that of the connection means that leases may exist that this engine does not know.
if ARGV[5] ~= '' and string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') ~= ARGV[5] then
  return {'replaced'}
end
local record = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'state', 'version', 'body', 'lifetime')
if not record[1] or record[3] == '3' then return {'gone'} end
if redis.call('EXISTS', KEYS[3]) == 0 then return {'fenced'} end
local epoch = string.format('%.0f', tonumber(ARGV[3]) + 1)
if record[1] ~= ARGV[1] or record[2] ~= epoch then
  if record[1] ~= ARGV[2] or record[2] ~= ARGV[3] or redis.call('EXISTS', KEYS[2]) == 1
    or tonumber(record[4]) > tonumber(ARGV[4]) then
    return {'fenced', record[1], record[2]}
  end
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', epoch)
  redis.call('SREM', KEYS[4], ARGV[6])
end
index_add(KEYS[5], ARGV[6], record[6])
extend_with_events(record[6])
return {'ok', ARGV[1], epoch, record[3], record[4], record[5]}
