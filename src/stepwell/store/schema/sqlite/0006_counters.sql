-- Counters and trouble, kept with the transitions: see docs/decisions/0012-counters.md.

-- Changes of counters that are not added to the totals yet: one row for all steps of a statement that are alike.
-- A row without `at` only moves steps from one counter to another.
CREATE TABLE steps_tally (
    from_state   text, -- NULL: created
    to_state     text, -- NULL: deleted
    action       text NOT NULL,
    queue        text,
    "group"      text,
    hostname     text,
    child        integer NOT NULL,
    is_throttled integer NOT NULL,
    at           text,
    number       integer NOT NULL,
    waits        text, -- how long they waited for a worker, in seconds (a sample)
    runs         text -- how long their runs took, in seconds (a sample)
);

-- How many steps there are of each kind. `group` is empty for steps that are not queued, `hostname` for those that do not run.
CREATE TABLE steps_totals (
    state     text NOT NULL,
    action    text NOT NULL,
    queue     text NOT NULL,
    "group"   text NOT NULL,
    hostname  text NOT NULL,
    child     integer NOT NULL,
    throttled integer NOT NULL,
    number    bigint NOT NULL,
    PRIMARY KEY (state, action, queue, "group", hostname, child, throttled)
) WITHOUT ROWID;

-- What happened in each minute: transitions by their state (`created`, `returned`, `Running`, …), and histograms of waits and
-- runs (`wait`, `run`), whose buckets double from a millisecond on.
CREATE TABLE steps_minutes (
    minute text NOT NULL,
    action text NOT NULL,
    kind   text NOT NULL,
    bucket integer NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (minute, action, kind, bucket)
) WITHOUT ROWID;

-- The Failed, Stopped, Cancelled and NotRunnable steps. `cause` is the step at the start of the cascade: NULL if it is its own,
-- 0 if a cascade ended it and its start has not been looked for yet.
CREATE TABLE steps_trouble (
    step_id     integer PRIMARY KEY,
    state       text NOT NULL,
    action      text NOT NULL,
    reason      text,
    fingerprint text NOT NULL,
    cause       integer,
    ended_at    text NOT NULL
);
CREATE INDEX steps_trouble_by_state ON steps_trouble (state, step_id);
CREATE INDEX steps_trouble_by_fingerprint ON steps_trouble (fingerprint, step_id);
CREATE INDEX steps_trouble_by_cause ON steps_trouble (cause, step_id) WHERE cause IS NOT NULL;

ALTER TABLE steps ADD COLUMN fingerprint text; -- of the error that failed it: model/fingerprint.py

-- The steps that exist already.
INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number)
SELECT state, action, coalesce(queue, ''), CASE WHEN state IN ('Pending', 'Dispatched') THEN coalesce("group", '') ELSE '' END,
       CASE state WHEN 'Running' THEN coalesce(hostname, '') ELSE '' END, parent_step_id IS NOT NULL, state = 'Pending' AND is_throttled,
       count(*)
FROM steps GROUP BY 1, 2, 3, 4, 5, 6, 7;
INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at)
SELECT id, state, action, reason, action || ':' || coalesce(reason, lower(state)),
       CASE WHEN reason IN ('parent_skipped', 'parent_cancelled', 'parent_failed', 'parent_not_runnable', 'predecessor_failed',
                            'children_failed') THEN 0 END, updated_at
FROM steps WHERE state IN ('Failed', 'Stopped', 'Cancelled', 'NotRunnable');
