-- The effects of every change of a step, re-created by `migrate` whenever they have changed.

CREATE OR REPLACE FUNCTION steps_mark_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_key_marks (concurrency_key) VALUES (coalesce(NEW.concurrency_key, OLD.concurrency_key));
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_key_entered ON steps_agenda;
CREATE TRIGGER steps_key_entered AFTER INSERT ON steps_agenda FOR EACH ROW
    WHEN (NEW.concurrency_key IS NOT NULL AND NEW.status = 'open') EXECUTE FUNCTION steps_mark_key();
DROP TRIGGER IF EXISTS steps_key_changed ON steps_agenda;
CREATE TRIGGER steps_key_changed AFTER UPDATE OF status ON steps_agenda FOR EACH ROW
    WHEN (NEW.concurrency_key IS NOT NULL AND NEW.status <> OLD.status AND NEW.status NOT IN ('dispatched', 'running'))
    EXECUTE FUNCTION steps_mark_key();
DROP TRIGGER IF EXISTS steps_key_left ON steps_agenda;
CREATE TRIGGER steps_key_left AFTER DELETE ON steps_agenda FOR EACH ROW
    WHEN (OLD.concurrency_key IS NOT NULL) EXECUTE FUNCTION steps_mark_key();

CREATE OR REPLACE FUNCTION steps_reject_transition(origin text, target text, actor text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'illegal transition: % to % by %', origin, target, coalesce(actor, 'unknown actor')
        USING ERRCODE = 'ZS001';
END $$;

CREATE OR REPLACE FUNCTION steps_created() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
    has_dormant boolean;
    has_unplaced boolean;
BEGIN
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt)
    SELECT id, NULL, state, reason, actor, created_at, attempts FROM new_rows;
    GET DIAGNOSTICS rows = ROW_COUNT;
    IF rows = 1 THEN -- without grouping it takes 19 µs less
        INSERT INTO steps_tally (from_state, to_state, action, queue, "group", child, is_throttled, at, number)
        SELECT NULL, state, action, queue, "group", parent_step_id IS NOT NULL, is_throttled, created_at, 1 FROM new_rows
        RETURNING to_state = 'NotRunnable', (SELECT NOT placed FROM new_rows) INTO has_dormant, has_unplaced;
    ELSE
        WITH alike AS (
            SELECT state, action COLLATE "C" AS action, queue COLLATE "C" AS queue, "group" COLLATE "C" AS "group",
                   parent_step_id IS NOT NULL AS child, is_throttled, placed, max(created_at) AS at, count(*) AS number
            FROM new_rows GROUP BY 1, 2, 3, 4, 5, 6, 7
        ), tallied AS (
            INSERT INTO steps_tally (from_state, to_state, action, queue, "group", child, is_throttled, at, number)
            SELECT NULL, state, action, queue, "group", child, is_throttled, at, number FROM alike
        )
        SELECT bool_or(state = 'NotRunnable'), bool_or(NOT placed) INTO has_dormant, has_unplaced FROM alike;
    END IF;
    IF has_dormant THEN -- handlers, for example
        INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at)
        SELECT @trouble(n) FROM new_rows n WHERE state = 'NotRunnable';
    END IF;
    IF has_unplaced THEN -- plain SQL
        IF EXISTS (SELECT 1 FROM new_rows n
                   WHERE NOT n.placed AND (n.state <> 'Pending' OR n.lease_worker IS NOT NULL OR n.own_code_done_at IS NOT NULL
              OR n.compute_done_at IS NOT NULL OR n.stage IS NOT NULL OR n.dependencies <> 0)) THEN
            RAISE EXCEPTION 'a row of plain SQL begins as Pending: the engine writes state, lease and results'
                USING ERRCODE = 'check_violation';
        END IF;
        -- A number that the sequence has not given out yet would be given to a later step as well.
        IF EXISTS (SELECT 1 FROM new_rows n, steps_id_seq q
                   WHERE NOT n.placed AND (n.id < 1 OR n.id > q.last_value OR NOT q.is_called)) THEN
            RAISE EXCEPTION 'the database numbers the steps: leave id out' USING ERRCODE = 'check_violation';
        END IF;
        INSERT INTO steps_agenda (step_id, status, queue, action, rank)
        SELECT id, 'new', coalesce(queue, 'default'), action, 1 FROM new_rows WHERE NOT placed;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_created ON steps;
CREATE TRIGGER steps_created AFTER INSERT ON steps
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_created();

-- Plain SQL changed when a step runs (or runs again), or as what: the agenda is made to agree. (What the engine itself
-- changes agrees already.)
CREATE OR REPLACE FUNCTION steps_replanned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE steps_agenda
    SET action = NEW.action, queue = NEW.queue, rank = CASE NEW.priority WHEN 'high' THEN 0 ELSE 1 END, concurrency_key = NEW.concurrency_key,
        key_blocked = CASE WHEN NEW.concurrency_key IS NOT DISTINCT FROM OLD.concurrency_key THEN key_blocked ELSE NEW.concurrency_key IS NOT NULL END
    WHERE step_id = NEW.id;
    UPDATE steps_agenda SET status = 'unchecked', due_at = NEW.dispatch_after
    WHERE step_id = NEW.id AND status IN ('open', 'delayed', 'unchecked') AND NEW.dispatch_after IS DISTINCT FROM OLD.dispatch_after;
    INSERT INTO steps_key_marks (concurrency_key)
    SELECT k.concurrency_key FROM (SELECT NEW.concurrency_key UNION SELECT OLD.concurrency_key) AS k (concurrency_key)
    WHERE k.concurrency_key IS NOT NULL AND NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key;
    UPDATE steps_unsettled SET action = NEW.action WHERE step_id = NEW.id AND action <> NEW.action;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_replanned ON steps;
CREATE TRIGGER steps_replanned AFTER UPDATE OF action, queue, priority, dispatch_after, concurrency_key ON steps FOR EACH ROW
    WHEN (NEW.placed AND OLD.placed AND NEW.state = OLD.state AND NEW.state IN @unfinished
          AND (NEW.action <> OLD.action OR NEW.queue <> OLD.queue OR NEW.priority <> OLD.priority
               OR NEW.dispatch_after IS DISTINCT FROM OLD.dispatch_after OR NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key))
    EXECUTE FUNCTION steps_replanned();

-- Plain SQL took retries away from a step that can be claimed: the next tick checks it again, and fails it.
CREATE OR REPLACE FUNCTION steps_exhausted_by_sql() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE steps_agenda SET status = 'unchecked' WHERE step_id = NEW.id AND status IN ('open', 'delayed');
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_exhausted_by_sql ON steps;
CREATE TRIGGER steps_exhausted_by_sql AFTER UPDATE OF retries, max_retries ON steps FOR EACH ROW
    WHEN (NEW.retries > NEW.max_retries AND NEW.state = 'Pending' AND OLD.state = 'Pending')
    EXECUTE FUNCTION steps_exhausted_by_sql();

-- Only for plain SQL, which does not set `changed_from`.
CREATE OR REPLACE FUNCTION steps_set_changed_from() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_from := CASE WHEN OLD.state <> NEW.state THEN OLD.state END;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS steps_set_changed_from ON steps;
CREATE TRIGGER steps_set_changed_from BEFORE UPDATE ON steps FOR EACH ROW
    WHEN (NEW.changed_from IS DISTINCT FROM OLD.state
          AND (OLD.state <> NEW.state OR NEW.changed_from IS NOT NULL))
    EXECUTE FUNCTION steps_set_changed_from();

-- Clocks of two machines differ by some microseconds; the history of a step must still be in order.
CREATE OR REPLACE FUNCTION steps_keep_time_monotonic() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := OLD.updated_at;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS steps_keep_time_monotonic ON steps;
CREATE TRIGGER steps_keep_time_monotonic BEFORE UPDATE ON steps FOR EACH ROW
    WHEN (NEW.updated_at < OLD.updated_at) EXECUTE FUNCTION steps_keep_time_monotonic();

-- What nearly every change needs is one statement. It also finds out whether the rest is needed: parts of a statement that do
-- nothing cost microseconds for every step (docs/decisions/0012-counters.md).
CREATE OR REPLACE FUNCTION steps_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    claimed bigint;
    has_returned boolean;
    has_ended boolean;
    has_troubled boolean;
BEGIN
    WITH changed AS MATERIALIZED (
        SELECT n.id, n.action, n.queue, n."group", n.state, n.reason, n.actor, n.changed_from, n.attempts, n.updated_at, n.is_throttled,
               n.hostname, n.last_error, n.parent_step_id IS NOT NULL AS child, n.lease_worker IS NOT NULL AS leased,
               n.has_dependents OR n.has_children OR n.parent_step_id IS NOT NULL AS connected,
               n.own_code_done_at IS NOT NULL AS own_code_done,
               CASE WHEN n.changed_from = 'Running' AND n.state NOT IN ('Pending', 'Cancelled')
                         -- A run is counted when it ends, not when the children of its step have ended.
                         AND (n.state = 'Running' OR n.own_code_done_at IS NULL OR n.own_code_done_at = n.completed_at)
                    THEN n.duration END AS ran,
               t.is_claim_of_open,
               @legal(CASE WHEN t.is_claim_of_open THEN 'Dispatched' ELSE n.changed_from END, n.state, n.actor) AS legal
        FROM new_rows n
        -- The claim of an open step makes two transitions, Pending to Dispatched to Running: `claim_token` shows it.
        CROSS JOIN LATERAL (SELECT n.changed_from = 'Pending' AND n.state = 'Running'
                                   AND n.lease_worker IS NOT NULL AND n.claim_token = n.lease_token AS is_claim_of_open) AS t
        WHERE n.changed_from IS NOT NULL
    ), left_agenda AS (
        DELETE FROM steps_agenda a USING changed c
        WHERE a.step_id = c.id AND c.state NOT IN ('Pending', 'Dispatched') AND NOT c.leased
    ), moved_on_agenda AS (
        UPDATE steps_agenda a SET status = CASE c.state WHEN 'Dispatched' THEN 'dispatched' ELSE 'running' END
        FROM changed c
        WHERE a.step_id = c.id
          AND (c.state = 'Dispatched' OR c.state = 'Running' AND c.changed_from IN ('Pending', 'Dispatched') AND c.leased)
    ), tallied AS (
        -- COLLATE "C" halves the cost of grouping. Eight runs are enough for percentiles.
        INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number, runs)
        SELECT changed_from, state, action COLLATE "C", queue COLLATE "C",
               CASE WHEN 'Pending' IN (state, changed_from) OR 'Dispatched' IN (state, changed_from) THEN "group" COLLATE "C" END,
               hostname COLLATE "C", child, is_throttled, max(updated_at), count(*), (array_agg(ran) FILTER (WHERE ran IS NOT NULL))[1:8]
        FROM changed WHERE changed_from <> state OR state = 'Running' AND own_code_done
        GROUP BY changed_from, state, 3, 4, 5, 6, child, is_throttled
    ), recorded AS (
        INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt, error)
        SELECT id, 'Pending', 'Dispatched', NULL, actor, updated_at, attempts - 1, NULL FROM changed WHERE is_claim_of_open
        UNION ALL
        SELECT id, CASE WHEN is_claim_of_open THEN 'Dispatched' ELSE changed_from END,
               CASE WHEN legal THEN state ELSE steps_reject_transition(changed_from, state, actor) END,
               reason, actor, updated_at, attempts,
               CASE WHEN state IN @failed OR changed_from = 'Running' AND state IN ('Pending', 'Completed')
                    THEN last_error END
        FROM changed WHERE changed_from <> state
    )
    SELECT count(*) FILTER (WHERE leased AND state = 'Running' AND changed_from <> 'Running'),
           bool_or(state = 'Pending' AND changed_from <> 'Pending'),
           -- Others look at the end of a step, at that of its own code, and at its return from an end.
           bool_or(connected AND (state NOT IN @unfinished OR state = 'Running' AND own_code_done
                                  OR changed_from NOT IN @unfinished)),
           bool_or(state NOT IN ('Running', 'Completed', 'Pending', 'Dispatched', 'Skipped')
                   OR changed_from NOT IN ('Running', 'Completed', 'Pending', 'Dispatched', 'Skipped'))
    INTO claimed, has_returned, has_ended, has_troubled FROM changed;

    IF claimed > 0 AND (claimed <= 8 OR random() < 0.25) THEN -- of many waits, some are enough for percentiles
        INSERT INTO steps_tally (action, child, is_throttled, at, number, waits)
        SELECT n.action, false, false, max(n.updated_at), 0, array_agg(date_part('epoch', n.updated_at - greatest(a.since, a.due_at)))
        FROM new_rows n JOIN steps_agenda a ON a.step_id = n.id
        WHERE n.state = 'Running' AND n.changed_from IN ('Pending', 'Dispatched') AND n.lease_worker IS NOT NULL
          AND (claimed <= 8 OR n.id % 8 = 0)
        GROUP BY n.action;
    END IF;
    IF has_returned THEN
        INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, since, concurrency_key, key_blocked)
        SELECT id, @returned(n), "group", coalesce(queue, 'default'), action,
               CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, updated_at, concurrency_key, concurrency_key IS NOT NULL
        FROM new_rows n WHERE state = 'Pending' AND changed_from <> 'Pending'
        ON CONFLICT (step_id) DO UPDATE SET status = excluded.status, due_at = excluded.due_at, since = excluded.since, key_blocked = excluded.key_blocked;
    END IF;
    IF has_ended THEN
        WITH changed AS MATERIALIZED (
            SELECT n.id, n."group", n.state, n.reason, n.has_dependents, n.has_children, n.parent_step_id, n.own_code_done_at,
                   n.state NOT IN @unfinished AS is_terminal, n.lease_worker
            FROM new_rows n
            WHERE n.changed_from IS NOT NULL AND (n.has_dependents OR n.has_children OR n.parent_step_id IS NOT NULL)
        ), concluded AS (
            DELETE FROM steps_unconcluded u USING changed c
            WHERE u.step_id = c.id AND c.state IN @concluded AND c.lease_worker IS NULL
              AND (c.parent_step_id IS NOT NULL OR c.has_dependents)
        ), ended AS (
            UPDATE steps_unconcluded u SET ended = c.is_terminal AND c.lease_worker IS NULL FROM changed c
            WHERE u.step_id = c.id AND (c.parent_step_id IS NOT NULL OR c.has_dependents)
              AND NOT (c.state IN @concluded AND c.lease_worker IS NULL)
              AND u.ended <> (c.is_terminal AND c.lease_worker IS NULL)
        )
        INSERT INTO steps_marks ("group", step_id)
        SELECT "group", id FROM changed
        WHERE "group" IS NOT NULL
          -- A leaf that a cascade ended decides nothing; one with `has_children` may just have been given a child.
          AND (has_dependents OR has_children
               OR coalesce(reason, '') NOT IN @ended_with_parent)
          AND (is_terminal OR state = 'Running' AND own_code_done_at IS NOT NULL);
    END IF;
    IF has_troubled THEN
        INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at)
        SELECT @trouble(n) FROM new_rows n
        WHERE n.state IN @troubled AND n.changed_from <> n.state
        ON CONFLICT (step_id) DO UPDATE SET state = excluded.state, reason = excluded.reason, fingerprint = excluded.fingerprint,
            cause = excluded.cause, cause_fingerprint = NULL, ended_at = excluded.ended_at;
        DELETE FROM steps_trouble t
        WHERE t.step_id = ANY(ARRAY(SELECT n.id FROM new_rows n
                                    WHERE n.changed_from IN @troubled
                                      AND n.state NOT IN @troubled));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_changed ON steps;
CREATE TRIGGER steps_changed AFTER UPDATE ON steps
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_changed();

-- What is counted under another action, queue, group or parent from now on.
CREATE OR REPLACE FUNCTION steps_recounted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, number)
    VALUES (OLD.state, NULL, OLD.action, OLD.queue, OLD."group", OLD.hostname, OLD.parent_step_id IS NOT NULL, OLD.is_throttled, 1),
           (NULL, OLD.state, NEW.action, NEW.queue, NEW."group", OLD.hostname, NEW.parent_step_id IS NOT NULL, OLD.is_throttled, 1);
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_recounted ON steps;
CREATE TRIGGER steps_recounted AFTER UPDATE OF action, queue, "group", parent_step_id ON steps FOR EACH ROW
    WHEN (NEW.action <> OLD.action OR NEW.queue IS DISTINCT FROM OLD.queue OR NEW."group" IS DISTINCT FROM OLD."group"
          OR (NEW.parent_step_id IS NULL) <> (OLD.parent_step_id IS NULL))
    EXECUTE FUNCTION steps_recounted();

CREATE OR REPLACE FUNCTION steps_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, number)
    SELECT state, NULL, action, queue, "group", hostname, parent_step_id IS NOT NULL, is_throttled, count(*)
    FROM old_rows GROUP BY state, action, queue, "group", hostname, parent_step_id IS NOT NULL, is_throttled;
    DELETE FROM steps_trouble t USING old_rows o WHERE t.step_id = o.id;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_deleted ON steps;
CREATE TRIGGER steps_deleted AFTER DELETE ON steps
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_deleted();
