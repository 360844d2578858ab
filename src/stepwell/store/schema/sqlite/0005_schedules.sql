-- Schedules: cron jobs, their executions, the ledger of their slots, the history of their definitions, and when schedulers
-- ran: see docs/decisions/0011-schedules-on-the-engine.md.

-- Plain SQL may insert and update rows: the trigger `cron_jobs_edited` notes the moment, and a scheduler checks the change.
CREATE TABLE cron_jobs (
    id              integer PRIMARY KEY AUTOINCREMENT,
    name            text NOT NULL UNIQUE CHECK (name <> ''),
    description     text,
    cron_expression text NOT NULL,
    handler_name    text NOT NULL,
    handler_params  text,
    is_enabled      integer NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    max_retry       integer NOT NULL DEFAULT 3,      -- attempts in all
    timeout_seconds integer NOT NULL DEFAULT 3600,
    target          text NOT NULL DEFAULT 'job' CHECK (target IN ('job', 'workflow')),
    zone            text NOT NULL DEFAULT 'UTC',
    misfire         text NOT NULL DEFAULT 'once' CHECK (misfire IN ('skip', 'once', 'all')),
    misfire_limit   integer NOT NULL DEFAULT 100,    -- of `all`
    start_deadline  real,
    allow_overlap   integer NOT NULL DEFAULT 1 CHECK (allow_overlap IN (0, 1)),
    jitter          real NOT NULL DEFAULT 0,
    expect_within   real,
    created_at      text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    updated_at      text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    -- Who owns which setting.
    app             text,                            -- whose code declares it
    declared        text,                            -- what that code declares
    overrides       text NOT NULL DEFAULT '{}',      -- settings of the code that an operator overrode: who, when, why
    disabled_by     text,
    disabled_at     text,
    disabled_reason text,
    -- What the schedulers keep.
    hash_seed       text,                            -- of `H`; stays when the name changes
    revision        integer NOT NULL DEFAULT 0,      -- of the definition
    recorded        text,                            -- the definition that schedulers know
    edited_at       text DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')), -- by plain SQL, and not checked yet
    last_slot       text,                            -- slots up to this moment have been decided
    next_slot       text,                            -- NULL while disabled
    last_success    text,                            -- the newest slot that succeeded
    ledger_from     text,                            -- the ledger is complete from here to `last_slot`
    expected_from   text,                            -- `expect_within` is about slots after this
    alarmed_slot    text,                            -- the newest slot that an alarm was raised about
    expect_at       text                             -- when it is checked next
) STRICT;
CREATE INDEX cron_jobs_due ON cron_jobs (next_slot) WHERE next_slot IS NOT NULL;
CREATE INDEX cron_jobs_unchecked ON cron_jobs (edited_at) WHERE edited_at IS NOT NULL;
CREATE INDEX cron_jobs_decided ON cron_jobs (last_slot) WHERE next_slot IS NOT NULL;
CREATE INDEX cron_jobs_expected ON cron_jobs (expect_at) WHERE expect_at IS NOT NULL;

CREATE TABLE job_executions (
    id             integer PRIMARY KEY AUTOINCREMENT,
    job_id         integer NOT NULL,
    scheduled_time text NOT NULL,                    -- the slot; of manual runs and backfills, a time that is no slot
    status         text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'TIMEOUT')),
    started_at     text,
    finished_at    text,
    retry_count    integer NOT NULL DEFAULT 0,
    error_message  text,
    result         text,
    created_at     text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    kind           text NOT NULL DEFAULT 'slot' CHECK (kind IN ('slot', 'manual', 'backfill')),
    slot           text,                             -- NULL for a manual run
    revision       integer NOT NULL DEFAULT 0,       -- of the definition that it was made of
    requested_by   text,
    reason         text,
    start_by       text,                             -- it is skipped if it has not begun by then
    step_id        integer,
    workflow_id    text,
    FOREIGN KEY (job_id) REFERENCES cron_jobs (id) ON DELETE CASCADE,
    UNIQUE (job_id, scheduled_time)
) STRICT;
CREATE UNIQUE INDEX job_executions_by_step ON job_executions (step_id) WHERE step_id IS NOT NULL;
CREATE UNIQUE INDEX job_executions_by_workflow ON job_executions (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX job_executions_by_slot ON job_executions (job_id, slot, status);
CREATE INDEX job_executions_live ON job_executions (job_id) WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX job_executions_to_start ON job_executions (start_by) WHERE start_by IS NOT NULL AND status = 'PENDING' AND started_at IS NULL;

-- The slot ledger: one row for every slot, or for a gap of many, with what came of it.
CREATE TABLE steps_schedule_slots (
    id           integer PRIMARY KEY AUTOINCREMENT,
    job_id       integer NOT NULL REFERENCES cron_jobs (id) ON DELETE CASCADE,
    slot         text NOT NULL,
    until_slot   text NOT NULL,                      -- the last one of a gap; else the slot itself
    outcome      text NOT NULL CHECK (outcome IN ('fired', 'skipped')),
    reason       text,
    detail       text,
    execution_id integer,
    expression   text,                               -- of a gap
    zone         text,
    decided_at   text NOT NULL,
    UNIQUE (job_id, slot)
) STRICT;
CREATE INDEX steps_schedule_slots_by_execution ON steps_schedule_slots (execution_id) WHERE execution_id IS NOT NULL;

-- Every change of a definition; kept when the cron is deleted.
CREATE TABLE steps_schedule_changes (
    id         integer PRIMARY KEY AUTOINCREMENT,
    job_id     integer NOT NULL,
    name       text NOT NULL,
    kind       text NOT NULL,
    actor      text NOT NULL,
    reason     text,
    changed_at text NOT NULL,
    revision   integer NOT NULL,
    before     text,
    after      text
) STRICT;
CREATE INDEX steps_schedule_changes_by_job ON steps_schedule_changes (job_id, id);
CREATE INDEX steps_schedule_changes_by_name ON steps_schedule_changes (name, id);

-- When schedulers ran: one row for each uninterrupted run.
CREATE TABLE steps_schedulers (
    id         integer PRIMARY KEY AUTOINCREMENT,
    name       text NOT NULL,
    ran_from   text NOT NULL,
    ran_until  text NOT NULL
) STRICT;
CREATE INDEX steps_schedulers_by_time ON steps_schedulers (ran_until);

-- The sets of schedules that the code of an app has declared, in the order in which they were first seen.
CREATE TABLE steps_schedule_code (
    id           integer PRIMARY KEY AUTOINCREMENT,
    app          text NOT NULL,
    content_hash text NOT NULL,
    seen_at      text NOT NULL,
    UNIQUE (app, content_hash)
) STRICT;
