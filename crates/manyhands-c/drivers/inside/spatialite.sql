-- SpatiaLite: metadata with triggers, geometries with constraints, and an index in an R-Tree.
SELECT spatialite_version()
SELECT InitSpatialMetaData(1)
CREATE TABLE town (id INTEGER PRIMARY KEY, name TEXT)
SELECT AddGeometryColumn('town', 'place', 4326, 'POINT', 'XY')
SELECT CreateSpatialIndex('town', 'place')
INSERT INTO town (name, place) VALUES ('a', MakePoint(1, 2, 4326)), ('b', MakePoint(4, 6, 4326))
BEGIN
INSERT INTO town (name, place) VALUES ('c', MakePoint(10, 10, 4326))
SELECT round(ST_Distance(a.place, b.place), 3) FROM town a, town b WHERE a.name = 'a' AND b.name = 'b'
COMMIT
INSERT INTO town (name, place) VALUES ('d', MakePoint(1, 1, 3003))
INSERT INTO town (name, place) VALUES ('e', 'no geometry')
UPDATE town SET place = MakePoint(5, 5, 4326) WHERE name = 'c'
SELECT name, ST_AsText(place) FROM town ORDER BY id
SELECT name FROM town WHERE id IN (SELECT rowid FROM SpatialIndex WHERE f_table_name = 'town' AND search_frame = BuildMbr(3, 3, 6, 7))
SELECT count(*), ST_AsText(ST_Buffer(MakePoint(0, 0), 0)) FROM geometry_columns
SELECT ST_AsText(ST_Union(place)) FROM town
DELETE FROM town WHERE name = 'b'
SELECT count(*) FROM idx_town_place
