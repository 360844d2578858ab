-- The tables of the engine. `steps` is what people read; the dispatcher and the workers find work through the `steps_*`
-- tables, without scanning `steps`: see docs/decisions/0001-how-work-is-found.md.
-- AUTOINCREMENT: without it, the number of a deleted row is given out again, and a tick that deletes the marks that it has
-- read would delete one that it has never seen.

CREATE TABLE steps_migrations (
    version  integer PRIMARY KEY,
    name     text NOT NULL,
    checksum text NOT NULL
);

-- A CHECK names the usual values before an IN of more than two, for which SQLite fills a table in every statement (measured:
-- 1.9 of 4 µs for a new row, of which there are 100 in a statement).
CREATE TABLE steps (
    id                integer PRIMARY KEY AUTOINCREMENT,
    uuid              text NOT NULL UNIQUE DEFAULT (
                          lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
                                || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
    workflow_id       text,
    parent_step_id    integer REFERENCES steps (id),
    block_uuid        text,
    child_block_uuid  text,
    -- `any`: plain SQL may give 1.5 or '7', which the trigger `steps_created_by_sql` makes a whole number, as PostgreSQL does.
    "index"           any CHECK (CASE typeof("index") WHEN 'null' THEN true WHEN 'integer' THEN "index" BETWEEN 0 AND 2147483647
                          ELSE NOT placed END),
    type              text NOT NULL DEFAULT 'default' CHECK (type IN ('default', 'resolve-exception')),
    label             text,
    action            text NOT NULL CHECK (action <> ''),
    arguments         text NOT NULL DEFAULT '{}' CHECK (json_valid(arguments)),
    relatable_type    text,
    relatable_id      text,
    -- NULL until the row is placed means: as the job declares, else the general default.
    queue             text,
    "group"           text,
    priority          text CHECK (priority IN ('default', 'high')),
    state             text NOT NULL DEFAULT 'Pending' CHECK (state = 'Pending' OR state = 'Running' OR state = 'Completed'
                          OR state IN ('Dispatched', 'Skipped', 'Failed', 'Stopped', 'Cancelled', 'NotRunnable')),
    reason            text,
    actor             text,
    -- The previous state, set by every statement whose change has effects (see triggers.sql); NULL for all other updates.
    changed_from      text,
    -- A random number for each statement that changes many steps and runs the effects itself.
    batch             integer,
    trigger_rule      text NOT NULL DEFAULT 'all_concluded'
                          CHECK (trigger_rule = 'all_concluded' OR trigger_rule IN ('all_ended', 'any_concluded')),
    -- Facts about parents, dependents and children, kept on the row so that the row lock protects them.
    placed            integer NOT NULL DEFAULT 0, -- false: inserted with plain SQL, placed by the next tick
    dependencies      integer NOT NULL DEFAULT 0,
    has_dependents    integer NOT NULL DEFAULT 0,
    has_children      integer NOT NULL DEFAULT 0,
    attempts          integer NOT NULL DEFAULT 0,
    retries           integer NOT NULL DEFAULT 0,
    max_retries       any CHECK (CASE typeof(max_retries) WHEN 'integer' THEN max_retries BETWEEN 0 AND 2147483647
                          ELSE NOT placed END),
    not_completed     integer NOT NULL DEFAULT 0,
    rescues           integer NOT NULL DEFAULT 0, -- deaths in a row of runs that had begun
    -- False: its run was claimed ahead of a free slot, and it is not on record that the run has begun.
    begun             integer NOT NULL DEFAULT true,
    -- A date that exists (with a modifier SQLite would turn 02-31 into 03-03), in the range of Python, in any time zone.
    -- (What plain SQL writes before the row is placed, or in another form, is checked, and written in this one, by a trigger.)
    dispatch_after    text CHECK (dispatch_after IS NULL OR NOT placed OR length(dispatch_after) <> 26 OR datetime(dispatch_after) IS NOT NULL
                          AND datetime(substr(dispatch_after, 1, 19), '+0 days') IS substr(dispatch_after, 1, 19)
                          AND substr(dispatch_after, 20) NOT GLOB '*[^0-9.]*'
                          AND dispatch_after >= '0001-01-02' AND dispatch_after < '9999-12-31'),
    is_throttled      integer NOT NULL DEFAULT 0,
    was_throttled     integer NOT NULL DEFAULT 0,
    timeout           real CHECK (timeout BETWEEN 0 AND 3155760000), -- a hundred years
    cooldown          real CHECK (cooldown BETWEEN 0 AND 3155760000),
    lease_worker      text,
    lease_token       integer NOT NULL DEFAULT 0,
    claim_token       integer NOT NULL DEFAULT 0, -- equals lease_token if the claim took an open step, without a tick
    lease_deadline    text,
    compute_done_at   text,
    stage             text, -- where the next attempt begins, once compute is done
    double_checks     integer NOT NULL DEFAULT 0,
    checkpoint        text, -- saved by a run for the next attempt
    progress_done     real,
    progress_total    real,
    own_code_done_at  text,
    hostname          text,
    tick_id           integer,
    started_at        text,
    completed_at      text,
    duration          real,
    error_message     text, -- the first; each attempt's is in the history
    last_error        text,
    error_stack_trace text,
    response          text,
    idempotency_key   text,
    concurrency_key   text, -- at most concurrency_limit of the steps with this key run at once
    concurrency_limit any CHECK (CASE typeof(concurrency_limit)
                          WHEN 'integer' THEN concurrency_limit BETWEEN 1 AND 2147483647 ELSE NOT placed END),
    -- The feature that follows its changes, at any depth of a declared workflow; NULL: none.
    belongs_to        text CHECK (belongs_to IS NULL OR belongs_to IN ('workflow', 'schedule', 'process')),
    -- Of declared workflows (docs/decisions/0007); all other steps leave these at their defaults.
    kind              text NOT NULL DEFAULT 'job' CHECK (kind = 'job' OR kind IN ('map', 'gate')),
    template          text,    -- the name of its step in the template
    element           integer, -- the position of its element in the list of a map
    plan              text,    -- its step of the template: inputs, conditions, the list of a map
    undecided         text CHECK (undecided IN ('always', 'if_skipped')), -- whether a tick decides before it may open
    decision          text,    -- what was decided, and on which values
    created_at        text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    updated_at        text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now'))
                          CHECK (updated_at > '0001' AND updated_at < '9999-12-31'),
    -- Running means: under a lease, or waiting for the children.
    CHECK (state <> 'Running' OR lease_worker IS NOT NULL OR own_code_done_at IS NOT NULL),
    CHECK (NOT placed OR "group" IS NOT NULL AND queue IS NOT NULL AND priority IS NOT NULL AND timeout IS NOT NULL
           AND cooldown IS NOT NULL), -- the others are whole numbers then: see above
    CHECK (parent_step_id IS NULL OR block_uuid <> uuid) -- the index by block omits the step whose UUID names it
) STRICT; -- no bytes in a text, no text in a number: the same as on PostgreSQL

CREATE INDEX steps_by_block ON steps (block_uuid, type, "index") WHERE block_uuid <> uuid;
CREATE INDEX steps_parents_by_block ON steps (block_uuid) WHERE has_children;
CREATE UNIQUE INDEX steps_by_child_block ON steps (child_block_uuid) WHERE child_block_uuid IS NOT NULL;
CREATE UNIQUE INDEX steps_by_template ON steps (workflow_id, template, coalesce(element, -1)) WHERE template IS NOT NULL;
CREATE INDEX steps_by_workflow ON steps (workflow_id) WHERE workflow_id <> uuid;
CREATE INDEX steps_by_relatable ON steps (relatable_type, relatable_id) WHERE relatable_type IS NOT NULL;
CREATE UNIQUE INDEX steps_by_key ON steps (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE step_dependencies (
    step_id       integer NOT NULL REFERENCES steps (id),
    depends_on_id integer NOT NULL REFERENCES steps (id),
    PRIMARY KEY (step_id, depends_on_id),
    CHECK (step_id <> depends_on_id)
);
CREATE INDEX step_dependencies_by_predecessor ON step_dependencies (depends_on_id);

CREATE TABLE step_transitions (
    id         integer PRIMARY KEY AUTOINCREMENT,
    step_id    integer NOT NULL,
    from_state text,
    to_state   text NOT NULL,
    reason     text,
    actor      text,
    at         text NOT NULL,
    attempt    integer NOT NULL,
    error      text
);
CREATE INDEX step_transitions_by_step ON step_transitions (step_id, id);

-- Lines that running code logged (`step.log`).
CREATE TABLE step_logs (
    id      integer PRIMARY KEY AUTOINCREMENT,
    step_id integer NOT NULL,
    attempt integer NOT NULL,
    at      text NOT NULL,
    level   text NOT NULL,
    message text NOT NULL
);
CREATE INDEX step_logs_by_step ON step_logs (step_id, id);

-- Workflows that an operator has paused; declared or not.
CREATE TABLE steps_paused_workflows (
    workflow_id text PRIMARY KEY,
    paused_at   text NOT NULL,
    paused_by   text NOT NULL,
    reason      text
);

CREATE TABLE steps_dispatcher (
    "group"             text PRIMARY KEY,
    rotation            integer UNIQUE,
    lock_owner          text,
    lock_token          integer NOT NULL DEFAULT 0,
    lock_deadline       text,
    current_tick_id     integer,
    ended_early         integer NOT NULL DEFAULT 0,
    last_tick_completed text,
    last_selected_at    text
);

CREATE TABLE steps_dispatcher_ticks (
    id               integer PRIMARY KEY AUTOINCREMENT,
    "group"          text NOT NULL,
    owner            text NOT NULL,
    started_at       text NOT NULL,
    ended_at         text,
    progress         text NOT NULL DEFAULT '[]',
    steps_dispatched integer NOT NULL DEFAULT 0,
    duration_ms      real,
    error            text
);
CREATE INDEX steps_dispatcher_ticks_by_group ON steps_dispatcher_ticks ("group", id);

CREATE TABLE steps_settings (
    name       text PRIMARY KEY,
    value      text NOT NULL,
    changed_by text,
    reason     text,
    changed_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    -- Any other value would pause silently.
    CHECK (name <> 'can_dispatch_steps' OR value IN ('true', 'false'))
);

CREATE TABLE steps_queues (
    name text PRIMARY KEY
);

-- What the jobs of the workers declare: what a step leaves out is taken from here.
CREATE TABLE steps_actions (
    name              text PRIMARY KEY,
    alias_of          text, -- the action of which it is a former name
    queue             text,
    priority          text NOT NULL,
    max_retries       integer NOT NULL,
    timeout           real NOT NULL,
    cooldown          real NOT NULL,
    concurrency_key   text, -- a template of the arguments
    key_function      text, -- the name of the function that makes the key, which only the program can call
    concurrency_limit integer NOT NULL,
    weight            real NOT NULL,
    max_running       integer,
    recorded_at       text NOT NULL,
    recorded_by       text NOT NULL
);

-- Steps that were created before any worker had recorded their job, and the settings that they left out.
CREATE TABLE steps_unsettled (
    step_id  integer PRIMARY KEY REFERENCES steps (id) ON DELETE CASCADE,
    action   text NOT NULL,
    left_out text NOT NULL -- columns of `steps`, separated by spaces
);
CREATE INDEX steps_unsettled_by_action ON steps_unsettled (action, step_id);

CREATE TABLE steps_workers (
    id           text PRIMARY KEY,
    hostname     text NOT NULL,
    pid          integer NOT NULL,
    slots        integer NOT NULL CHECK (slots > 0),
    started_at   text NOT NULL,
    heartbeat_at text NOT NULL,
    alive_until  text NOT NULL
);

CREATE TABLE steps_worker_lanes (
    queue     text NOT NULL,
    action    text NOT NULL,
    "group"   text NOT NULL DEFAULT '', -- the only group whose steps it claims there; empty: all groups
    worker_id text NOT NULL REFERENCES steps_workers (id) ON DELETE CASCADE,
    place     integer NOT NULL DEFAULT 0, -- the position of the queue in the worker's order; 0: unordered
    PRIMARY KEY (queue, action, worker_id, "group")
);
CREATE INDEX steps_worker_lanes_by_worker ON steps_worker_lanes (worker_id);
CREATE INDEX steps_worker_lanes_of_groups ON steps_worker_lanes (worker_id, queue) WHERE "group" <> '';

CREATE TABLE steps_round_robin (next integer NOT NULL);
INSERT INTO steps_round_robin VALUES (0);

-- How work is found ------------------------------------------------------------------------------------

-- The agenda: Pending steps that are ready or to be checked, Dispatched steps, and steps whose lease is held ('running').
-- A step that waits for others has no row here, so it costs nothing.
CREATE TABLE steps_agenda (
    step_id  integer PRIMARY KEY,
    status   text NOT NULL CHECK (status = 'open' OR status = 'running' OR status IN ('new', 'unchecked', 'delayed',
                                     'exhausted', 'dispatched', 'undecided', 'gate', 'held')),
    "group"  text,
    queue    text NOT NULL,
    action   text NOT NULL,
    rank     integer NOT NULL, -- 0: high priority, 1: the rest
    due_at   text,
    since    text, -- when it was put on the agenda, or returned to it: how long it waits for a worker
    concurrency_key text,
    key_blocked     integer NOT NULL DEFAULT 0 -- its key is at its limit: not picked until a tick unblocks it
);
CREATE INDEX steps_agenda_open ON steps_agenda ("group", queue, action, rank, step_id) WHERE status = 'open' AND NOT key_blocked;
CREATE INDEX steps_agenda_ready ON steps_agenda (queue, action, rank, step_id) WHERE status = 'open' AND NOT key_blocked;
CREATE INDEX steps_agenda_delayed ON steps_agenda ("group", due_at) WHERE status = 'delayed';
CREATE INDEX steps_agenda_keyed ON steps_agenda (concurrency_key, status, key_blocked, rank, step_id) WHERE concurrency_key IS NOT NULL;
CREATE INDEX steps_agenda_unchecked ON steps_agenda ("group") WHERE status = 'unchecked';
CREATE INDEX steps_agenda_exhausted ON steps_agenda ("group") WHERE status = 'exhausted';
CREATE INDEX steps_agenda_undecided ON steps_agenda ("group", step_id) WHERE status = 'undecided';
CREATE INDEX steps_agenda_gates ON steps_agenda ("group", due_at) WHERE status = 'gate';
CREATE INDEX steps_agenda_new ON steps_agenda (step_id) WHERE status = 'new';
CREATE INDEX steps_agenda_held ON steps_agenda (step_id) WHERE status = 'held';
CREATE INDEX steps_agenda_dispatched ON steps_agenda (queue, action, rank, step_id) WHERE status = 'dispatched';
CREATE INDEX steps_agenda_running ON steps_agenda (queue, action) WHERE status = 'running';

-- Keys that may have dropped below their limit, or that a new step waits for: read by the next tick.
CREATE TABLE steps_key_marks (
    id              integer PRIMARY KEY AUTOINCREMENT,
    concurrency_key text NOT NULL
);

-- How many steps may run at once: per queue, per action, or ('total', '') in total.
CREATE TABLE steps_limits (
    kind    text NOT NULL CHECK (kind IN ('total', 'queue', 'action')),
    name    text NOT NULL,
    maximum integer NOT NULL CHECK (maximum >= 0),
    shares  text, -- what the strategy that divides these slots keeps from claim to claim: JSON (share/over_time.py)
    PRIMARY KEY (kind, name)
);

-- The members of shared blocks that have not concluded, or whose lease is still held.
CREATE TABLE steps_unconcluded (
    step_id    integer PRIMARY KEY,
    block_uuid text NOT NULL,
    type       text NOT NULL,
    "index"    integer NOT NULL,
    ended      integer NOT NULL, -- terminal, and its lease is released
    workflow_id text -- of a declared workflow
);
CREATE INDEX steps_unconcluded_in_order ON steps_unconcluded (block_uuid, type, "index");
CREATE INDEX steps_unconcluded_unfinished ON steps_unconcluded (block_uuid) WHERE NOT ended;
CREATE INDEX steps_unconcluded_by_workflow ON steps_unconcluded (workflow_id, ended) WHERE workflow_id IS NOT NULL;
CREATE INDEX steps_unconcluded_ended ON steps_unconcluded (block_uuid, type, "index") WHERE ended;

-- Marks: steps whose change may affect other steps. Written with the change, read by the next tick.
CREATE TABLE steps_marks (
    id      integer PRIMARY KEY AUTOINCREMENT,
    "group" text NOT NULL,
    step_id integer NOT NULL
);
CREATE INDEX steps_marks_by_group ON steps_marks ("group", id);

INSERT INTO steps_dispatcher ("group", rotation) VALUES
    ('alpha', 0), ('beta', 1), ('gamma', 2), ('delta', 3), ('epsilon', 4),
    ('zeta', 5), ('eta', 6), ('theta', 7), ('iota', 8), ('kappa', 9);
INSERT INTO steps_queues (name) VALUES ('default'), ('priority'), ('candles'), ('indicators');
INSERT INTO steps_settings (name, value, changed_by, reason, changed_at)
    VALUES ('can_dispatch_steps', 'true', 'migration', NULL, (strftime('%Y-%m-%d %H:%M:%f000', 'now')));
