-- sqlite-vec: functions, and a virtual table with shadow tables, in transactions of all kinds.
SELECT vec_version()
SELECT vec_length('[1, 2, 3]'), vec_to_json(vec_add('[1, 2]', '[3, 4]')), vec_distance_L2('[0, 0]', '[3, 4]')
CREATE VIRTUAL TABLE place USING vec0(position float[2])
INSERT INTO place (rowid, position) VALUES (1, '[0, 0]'), (2, '[3, 4]'), (3, '[6, 8]')
BEGIN
INSERT INTO place (rowid, position) VALUES (4, '[1, 1]')
SELECT rowid, distance FROM place WHERE position MATCH '[1, 1]' ORDER BY distance LIMIT 3
COMMIT
BEGIN IMMEDIATE
DELETE FROM place WHERE rowid = 2
ROLLBACK
SELECT rowid, vec_to_json(position) FROM place ORDER BY rowid
INSERT INTO place (rowid, position) VALUES (1, '[9, 9]')
INSERT INTO place (rowid, position) VALUES (5, '[1, 2, 3]')
SELECT name FROM sqlite_schema WHERE name LIKE 'place%' ORDER BY name
SELECT count(*) FROM place_chunks
DROP TABLE place
SELECT count(*) FROM sqlite_schema
