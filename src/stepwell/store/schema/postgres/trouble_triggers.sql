-- Failures by cause: what a change of the list of trouble changes in their numbers (docs/decisions/0012-counters.md).

CREATE OR REPLACE FUNCTION steps_trouble_entered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind)
    SELECT @cause(n), sum(@alike(n)), sum(@behind(n)) FROM new_rows n WHERE @cause(n) IS NOT NULL GROUP BY 1;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_trouble_entered ON steps_trouble;
CREATE TRIGGER steps_trouble_entered AFTER INSERT ON steps_trouble
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_trouble_entered();

CREATE OR REPLACE FUNCTION steps_trouble_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind)
    SELECT @cause(o), - sum(@alike(o)), - sum(@behind(o)) FROM old_rows o WHERE @cause(o) IS NOT NULL GROUP BY 1;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_trouble_left ON steps_trouble;
CREATE TRIGGER steps_trouble_left AFTER DELETE ON steps_trouble
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_trouble_left();

CREATE OR REPLACE FUNCTION steps_trouble_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind)
    SELECT fingerprint, sum(number), sum(behind)
    FROM (SELECT @cause(n) AS fingerprint, @alike(n) AS number, @behind(n) AS behind FROM new_rows n
          UNION ALL SELECT @cause(o), - @alike(o), - @behind(o) FROM old_rows o) AS moved
    WHERE fingerprint IS NOT NULL GROUP BY fingerprint HAVING sum(number) <> 0 OR sum(behind) <> 0;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_trouble_changed ON steps_trouble;
CREATE TRIGGER steps_trouble_changed AFTER UPDATE ON steps_trouble
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_trouble_changed();
