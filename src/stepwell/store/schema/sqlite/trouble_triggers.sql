-- Failures by cause: what a change of the list of trouble changes in their numbers (docs/decisions/0012-counters.md).

DROP TRIGGER IF EXISTS steps_trouble_entered;
CREATE TRIGGER steps_trouble_entered AFTER INSERT ON steps_trouble WHEN @cause(NEW) IS NOT NULL
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind) VALUES (@cause(NEW), @alike(NEW), @behind(NEW));
END;

DROP TRIGGER IF EXISTS steps_trouble_left;
CREATE TRIGGER steps_trouble_left AFTER DELETE ON steps_trouble WHEN @cause(OLD) IS NOT NULL
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind) VALUES (@cause(OLD), - @alike(OLD), - @behind(OLD));
END;

DROP TRIGGER IF EXISTS steps_trouble_changed;
CREATE TRIGGER steps_trouble_changed AFTER UPDATE ON steps_trouble
BEGIN
    INSERT INTO steps_causes_tally (fingerprint, number, behind)
    SELECT * FROM (SELECT @cause(NEW) AS fingerprint, @alike(NEW) AS number, @behind(NEW) AS behind
                   UNION ALL SELECT @cause(OLD), - @alike(OLD), - @behind(OLD)) WHERE fingerprint IS NOT NULL;
END;
