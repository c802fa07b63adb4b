-- ICU: case, patterns and collations of languages.
SELECT lower('ÄÖÜ'), upper('straße'), lower('I', 'tr_tr')
SELECT 'Ä' LIKE 'ä', 'file' REGEXP 'f.l.'
SELECT 'file' REGEXP '('
SELECT icu_load_collation('sv_SE', 'swedish')
SELECT icu_load_collation('xx', 'nothing')
CREATE TABLE word (w TEXT COLLATE swedish)
CREATE UNIQUE INDEX word_w ON word (w)
INSERT INTO word VALUES ('ö'), ('z'), ('a'), ('å')
BEGIN
INSERT INTO word VALUES ('ä')
SELECT w FROM word ORDER BY w
COMMIT
INSERT INTO word VALUES ('ä')
UPDATE word SET w = 'é' WHERE w = 'z'
SELECT group_concat(w) FROM (SELECT w FROM word ORDER BY w DESC)
