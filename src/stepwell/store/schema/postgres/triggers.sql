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
BEGIN
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt)
    SELECT id, NULL, state, reason, actor, created_at, attempts FROM new_rows;
    IF EXISTS (SELECT 1 FROM new_rows WHERE NOT placed) THEN -- plain SQL
        IF EXISTS (SELECT 1 FROM new_rows n
                   WHERE NOT n.placed AND (n.state <> 'Pending' OR n.lease_worker IS NOT NULL OR n.own_code_done_at IS NOT NULL
              OR n.compute_done_at IS NOT NULL OR n.stage IS NOT NULL OR n.dependencies <> 0)) THEN
            RAISE EXCEPTION 'a row of plain SQL begins as Pending: the engine writes state, lease and results'
                USING ERRCODE = 'check_violation';
        END IF;
        INSERT INTO steps_agenda (step_id, status, queue, action, rank)
        SELECT id, 'new', coalesce(queue, 'default'), action, 1 FROM new_rows WHERE NOT placed;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_created ON steps;
CREATE TRIGGER steps_created AFTER INSERT ON steps
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_created();

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

CREATE OR REPLACE FUNCTION steps_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH changed AS MATERIALIZED (
        SELECT n.id, n."group", n.queue, n.action, n.priority, n.dispatch_after, n.changed_from, n.state, n.reason,
               n.actor, n.updated_at, n.attempts, n.last_error, n.lease_worker, n.has_dependents, n.has_children,
               n.parent_step_id, n.placed, n.belongs_to, n.concurrency_key, n.state NOT IN ('Pending', 'Dispatched', 'Running') AS is_terminal,
               n.own_code_done_at, t.is_claim_of_open,
               @legal(CASE WHEN t.is_claim_of_open THEN 'Dispatched' ELSE n.changed_from END, n.state, n.actor) AS legal
        FROM new_rows n
        -- The claim of an open step makes two transitions, Pending to Dispatched to Running: `claim_token` shows it.
        CROSS JOIN LATERAL (SELECT n.changed_from = 'Pending' AND n.state = 'Running'
                                   AND n.lease_worker IS NOT NULL AND n.claim_token = n.lease_token AS is_claim_of_open) AS t
        WHERE n.changed_from IS NOT NULL
    ), left_agenda AS (
        DELETE FROM steps_agenda a USING changed c
        WHERE a.step_id = c.id AND c.state NOT IN ('Pending', 'Dispatched') AND c.lease_worker IS NULL
    ), moved_on_agenda AS (
        UPDATE steps_agenda a SET status = CASE c.state WHEN 'Dispatched' THEN 'dispatched' ELSE 'running' END
        FROM changed c
        WHERE a.step_id = c.id
          AND (c.state = 'Dispatched'
               OR c.state = 'Running' AND c.changed_from IN ('Pending', 'Dispatched') AND c.lease_worker IS NOT NULL)
    ), joined_agenda AS (
        INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
        SELECT id, @returned(changed), "group", coalesce(queue, 'default'), action,
               CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, concurrency_key, concurrency_key IS NOT NULL
        FROM changed WHERE state = 'Pending' AND changed_from <> 'Pending'
        ON CONFLICT (step_id) DO UPDATE SET status = excluded.status, due_at = excluded.due_at, key_blocked = excluded.key_blocked
    ), concluded AS (
        DELETE FROM steps_unconcluded u USING changed c
        WHERE u.step_id = c.id AND c.state IN ('Completed', 'Skipped') AND c.lease_worker IS NULL
          AND (c.parent_step_id IS NOT NULL OR c.has_dependents)
    ), ended AS (
        UPDATE steps_unconcluded u SET ended = c.is_terminal AND c.lease_worker IS NULL FROM changed c
        WHERE u.step_id = c.id AND (c.parent_step_id IS NOT NULL OR c.has_dependents)
          AND NOT (c.state IN ('Completed', 'Skipped') AND c.lease_worker IS NULL)
          AND u.ended <> (c.is_terminal AND c.lease_worker IS NULL)
    ), marked AS (
        INSERT INTO steps_marks ("group", step_id)
        SELECT "group", id FROM changed
        WHERE "group" IS NOT NULL
          -- A leaf that a cascade ended decides nothing; one with `has_children` may just have been given a child.
          AND (has_dependents OR has_children OR parent_step_id IS NOT NULL
               AND coalesce(reason, '') NOT IN ('parent_skipped', 'parent_cancelled', 'parent_failed', 'parent_not_runnable'))
          AND (is_terminal OR state = 'Running' AND own_code_done_at IS NOT NULL)
    )
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt, error)
    SELECT id, 'Pending', 'Dispatched', NULL, actor, updated_at, attempts - 1, NULL FROM changed WHERE is_claim_of_open
    UNION ALL
    SELECT id, CASE WHEN is_claim_of_open THEN 'Dispatched' ELSE changed_from END,
           CASE WHEN legal THEN state ELSE steps_reject_transition(changed_from, state, actor) END,
           reason, actor, updated_at, attempts,
           CASE WHEN state IN ('Failed', 'Stopped') OR changed_from = 'Running' AND state IN ('Pending', 'Completed')
                THEN last_error END
    FROM changed WHERE changed_from <> state;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_changed ON steps;
CREATE TRIGGER steps_changed AFTER UPDATE ON steps
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION steps_changed();
