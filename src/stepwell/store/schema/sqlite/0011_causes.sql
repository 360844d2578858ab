-- Failures by cause, kept with the list of trouble: see docs/decisions/0012-counters.md.

-- The fingerprint of the step at the start of the cascade, as it was when it was found: of the steps with a `cause`.
ALTER TABLE steps_trouble ADD COLUMN cause_fingerprint text;
UPDATE steps_trouble SET cause_fingerprint = (SELECT t.fingerprint FROM steps_trouble t WHERE t.step_id = steps_trouble.cause)
WHERE cause > 0;
UPDATE steps_trouble SET cause = NULL WHERE cause > 0 AND cause_fingerprint IS NULL;

-- The first and the last failure of a cause are at the ends of this index.
CREATE INDEX steps_trouble_of_causes ON steps_trouble (fingerprint, ended_at, step_id)
    WHERE cause IS NULL AND state IN ('Failed', 'Stopped');

-- What the overview and `doctor` ask for: steps that ended because of what their row holds.
CREATE INDEX steps_trouble_set_aside ON steps_trouble (step_id) WHERE state = 'Failed' AND reason IN ('refused', 'unreadable');

-- Changes of `steps_causes` that are not added yet.
CREATE TABLE steps_causes_tally (
    id          integer PRIMARY KEY AUTOINCREMENT,
    fingerprint text NOT NULL,
    number      integer NOT NULL,
    behind      integer NOT NULL
) STRICT;

-- How many steps failed alike, and how many have ended only because of these.
CREATE TABLE steps_causes (
    fingerprint text PRIMARY KEY,
    number      integer NOT NULL,
    behind      integer NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO steps_causes (fingerprint, number, behind)
SELECT coalesce(cause_fingerprint, fingerprint), count(*) - count(cause_fingerprint), count(cause_fingerprint)
FROM steps_trouble WHERE cause > 0 OR cause IS NULL AND state IN ('Failed', 'Stopped') GROUP BY 1;
